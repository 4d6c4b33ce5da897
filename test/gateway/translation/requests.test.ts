import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { chatToMessages } from "../../../src/gateway/formats/anthropic-messages/chat-to-messages.ts"
import { MessagesRequest } from "../../../src/gateway/formats/anthropic-messages/domain.ts"
import { messagesToChat } from "../../../src/gateway/formats/anthropic-messages/messages-to-chat.ts"
import { ChatRequest } from "../../../src/gateway/formats/common-form/domain.ts"
import { type ResponseItem, ResponsesRequest } from "../../../src/gateway/formats/openai-responses/domain.ts"
import { responsesToChat } from "../../../src/gateway/formats/openai-responses/to-chat.ts"
import { knownModel } from "../../support/formats.ts"

const target = { ...knownModel("claude-sonnet-4-5"), maxOutputTokens: 4096 }
const hello = [{ role: "user", content: "Hello" }]

const toMessages = (request: object) =>
  chatToMessages(Schema.decodeUnknownSync(ChatRequest)({ model: "m", messages: hello, ...request }), target)
const toChat = (request: object) =>
  messagesToChat(
    Schema.decodeUnknownSync(MessagesRequest)({ model: "m", max_tokens: 100, messages: hello, ...request })
  )

const faults = (result: Result.Result<unknown, ReadonlyArray<{ readonly path: ReadonlyArray<unknown> }>>) =>
  Result.isFailure(result) ? result.failure.map(({ path }) => path.join(".")) : []

describe("chat completions to messages", () => {
  it("keeps the text of arguments that are no JSON object", () => {
    for (const text of ["{", "[]", "3", '{"city":"Par']) {
      const call = { id: "a", type: "function", function: { name: "now", arguments: text } }
      const messages = [...hello, { role: "assistant", tool_calls: [call] }]
      assert.nestedPropertyVal(
        Result.getOrThrow(toMessages({ messages })),
        "messages[1].content[0].input._invalid_arguments",
        text
      )
    }
  })

  it("names every member that has no form there", () => {
    const request = {
      n: 2,
      logprobs: true,
      modalities: ["audio"],
      tools: [{ type: "custom", custom: {} }],
      web_search_options: {},
      messages: [
        { role: "user", content: [{ type: "input_audio", input_audio: {} }] },
        { role: "function", content: "x" }
      ]
    }
    assert.sameMembers(faults(toMessages(request)), [
      "n",
      "logprobs",
      "modalities",
      "tools.0.type",
      "web_search_options",
      "messages.0.content.0.type",
      "messages.1.role"
    ])
  })
})

describe("messages to chat completions", () => {
  it("names every member that has no form there", () => {
    const request = {
      stop_sequences: ["1", "2", "3", "4", "5"],
      tools: [{ type: "web_search_20260318", name: "web_search" }],
      tool_choice: { type: "tool", name: "web_search" },
      messages: [{ role: "user", content: [{ type: "document", source: { type: "file", file_id: "file_1" } }] }]
    }
    assert.sameMembers(faults(toChat(request)), ["stop_sequences", "tools.0.type", "messages.0.content.0.type"])
  })
})

describe("what another provider's own tools and models gave", () => {
  const results = [
    { type: "web_search_tool_result", content: { type: "web_search_tool_result_error", error_code: "unavailable" } },
    { type: "web_fetch_tool_result", content: { type: "web_fetch_result", url: "https://example.com" } },
    { type: "code_execution_tool_result", content: { type: "code_execution_result", stdout: "1" } },
    { type: "mcp_tool_result", content: [{ type: "text", text: "1" }] },
    { type: "hologram", content: 5 }
  ].map((block) => Object.assign({ tool_use_id: "s" }, block))
  const use = { type: "server_tool_use", id: "s", name: "web_search", input: {} }

  it("is left out of a turn of the assistant, for a chat provider", () => {
    for (const block of results) {
      const content = [use, block, { type: "text", text: "Noon" }]
      const messages = [...hello, { role: "assistant", content }, ...hello]
      assert.deepStrictEqual(Result.getOrThrow(toChat({ messages })).messages, [
        ...hello,
        { role: "assistant", content: "Noon" },
        ...hello
      ])
    }
    const messages = [...hello, { role: "assistant", content: [use, ...results] }, ...hello]
    assert.deepStrictEqual(Result.getOrThrow(toChat({ messages })).messages, [...hello, ...hello])
  })

  it("is left out of the result of a tool, if it refers to a tool", () => {
    const content = [
      { type: "tool_reference", tool_name: "f" },
      { type: "text", text: "found" }
    ]
    const messages = [...hello, { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content }] }]
    assert.deepInclude(Result.getOrThrow(toChat({ messages })).messages, {
      role: "tool",
      tool_call_id: "t",
      content: "found"
    })
    const odd = [...hello, { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: { a: 1 } }] }]
    assert.deepStrictEqual(faults(toChat({ messages: odd })), ["messages.1.content.0.content"])
  })

  it("is left out of a message of the assistant, for Anthropic", () => {
    const content = [
      { type: "thinking", thinking: [{ type: "text", text: "Hm" }] },
      { type: "text", text: "Noon" }
    ]
    const translated = Result.getOrThrow(toMessages({ messages: [...hello, { role: "assistant", content }, ...hello] }))
    assert.deepNestedPropertyVal(translated, "messages.1.content", [{ type: "text", text: "Noon" }])
  })

  it("is left out of the items of a response", () => {
    const items = [
      { type: "tool_search_call", arguments: { query: "f" }, execution: "server" },
      { type: "tool_search_output", output: { tools: [] } },
      { type: "code_interpreter_call", input: 5, output: {} },
      { type: "mcp_call", arguments: "{}", output: { a: 1 } }
    ]
    const asked = { model: "m", input: [...hello, ...items, ...hello] }
    const request = Schema.decodeUnknownSync(ResponsesRequest)(asked)
    const { body } = Result.getOrThrow(responsesToChat(request, request.input as ReadonlyArray<ResponseItem>))
    assert.lengthOf(body.messages as ReadonlyArray<unknown>, 2)
  })

  it("is a call in any case, if its arguments are an object", () => {
    const call = { type: "function_call", call_id: "t", name: "f", arguments: { a: 1 } }
    const request = Schema.decodeUnknownSync(ResponsesRequest)({ model: "m", input: [...hello, call] })
    const { body } = Result.getOrThrow(responsesToChat(request, request.input as ReadonlyArray<ResponseItem>))
    assert.include(JSON.stringify(body.messages), String.raw`"arguments":"{\"a\":1}"`)
  })
})
