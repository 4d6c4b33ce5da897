import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { MessagesRequest } from "../../../src/gateway/translation/anthropic-messages/domain.ts"
import { chatToMessages } from "../../../src/gateway/translation/anthropic-messages/chat-to-messages.ts"
import { messagesToChat } from "../../../src/gateway/translation/anthropic-messages/messages-to-chat.ts"
import { ChatRequest } from "../../../src/gateway/translation/openai-chat/domain.ts"

const target = { model: "claude-sonnet-4-5", maxOutputTokens: 4096 }
const hello = [{ role: "user", content: "Hello" }]

const toMessages = (request: object) =>
  chatToMessages(Schema.decodeUnknownSync(ChatRequest)({ model: "m", messages: hello, ...request }), target)
const toChat = (request: object) =>
  messagesToChat(
    Schema.decodeUnknownSync(MessagesRequest)({ model: "m", max_tokens: 100, messages: hello, ...request }),
    { model: "gpt" }
  )

const faults = (result: Result.Result<unknown, ReadonlyArray<{ readonly path: ReadonlyArray<unknown> }>>) =>
  Result.isFailure(result) ? result.failure.map(({ path }) => path.join(".")) : []

describe("chat completions to messages", () => {
  it("refuses arguments that are no JSON object", () => {
    for (const text of ["{", "[]", "3"]) {
      const call = { id: "a", type: "function", function: { name: "now", arguments: text } }
      const messages = [...hello, { role: "assistant", tool_calls: [call] }]
      assert.deepStrictEqual(faults(toMessages({ messages })), ["messages.1.tool_calls.0.function.arguments"])
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
      messages: [
        { role: "user", content: [{ type: "document", source: { type: "url", url: "https://example.com/a.pdf" } }] },
        { role: "assistant", content: [{ type: "server_tool_use", id: "s", name: "web_search", input: {} }] }
      ]
    }
    assert.sameMembers(faults(toChat(request)), [
      "stop_sequences",
      "tools.0.type",
      "messages.0.content.0.type",
      "messages.1.content.0.type"
    ])
  })
})
