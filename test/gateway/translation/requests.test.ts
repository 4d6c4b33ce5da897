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

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into translations of every shape
const messages = (request: object): any => Result.getOrThrow(toMessages(request))
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into translations of every shape
const chat = (request: object): any => Result.getOrThrow(toChat(request))
const faults = (result: Result.Result<unknown, ReadonlyArray<{ readonly path: ReadonlyArray<unknown> }>>) =>
  Result.isFailure(result) ? result.failure.map(({ path }) => path.join(".")) : []

const call = (id: string, city: string) => ({
  id,
  type: "function",
  function: { name: "weather", arguments: JSON.stringify({ city }) }
})

const withArguments = (text: string) => ({
  messages: [
    ...hello,
    {
      role: "assistant",
      tool_calls: [{ id: "a", type: "function", function: { name: "now", arguments: text } }]
    }
  ]
})

const picture = (url: string) => ({ type: "image_url", image_url: { url } })

describe("chat completions to messages", () => {
  it("gathers system and developer prompts at the top", () => {
    const translated = messages({
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "Hi" },
        { role: "developer", content: [{ type: "text", text: "Be kind." }] }
      ]
    })
    assert.deepStrictEqual(translated.system, [
      { type: "text", text: "Be brief." },
      { type: "text", text: "Be kind." }
    ])
    assert.deepStrictEqual(translated.messages, [{ role: "user", content: [{ type: "text", text: "Hi" }] }])
  })

  it("puts the results of parallel tools and what the user says next into one turn", () => {
    const translated = messages({
      messages: [
        ...hello,
        { role: "assistant", content: null, tool_calls: [call("a", "Oslo"), call("b", "Rome")] },
        { role: "tool", tool_call_id: "a", content: "cold" },
        { role: "tool", tool_call_id: "b", content: [{ type: "text", text: "warm" }] },
        { role: "user", content: "Thanks" }
      ]
    })
    assert.deepStrictEqual(translated.messages.slice(1), [
      {
        role: "assistant",
        content: [
          { type: "tool_use", id: "a", name: "weather", input: { city: "Oslo" } },
          { type: "tool_use", id: "b", name: "weather", input: { city: "Rome" } }
        ]
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "a", content: [{ type: "text", text: "cold" }] },
          { type: "tool_result", tool_use_id: "b", content: [{ type: "text", text: "warm" }] },
          { type: "text", text: "Thanks" }
        ]
      }
    ])
  })

  it("takes empty arguments for none, and refuses what is no JSON object", () => {
    assert.deepStrictEqual(messages(withArguments("")).messages[1].content[0].input, {})
    for (const text of ["{", "[]", "3"]) {
      assert.deepStrictEqual(faults(toMessages(withArguments(text))), ["messages.1.tool_calls.0.function.arguments"])
    }
  })

  it("carries images by data and by address, and documents", () => {
    const file = { filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERg==" }
    const content = [
      picture("data:image/png;base64,iVBORw=="),
      picture("https://example.com/a.png"),
      { type: "file", file }
    ]
    assert.deepStrictEqual(messages({ messages: [{ role: "user", content }] }).messages[0].content, [
      { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw==" } },
      { type: "image", source: { type: "url", url: "https://example.com/a.png" } },
      {
        type: "document",
        source: { type: "base64", media_type: "application/pdf", data: "JVBERg==" },
        title: "a.pdf"
      }
    ])
  })

  it("keeps the limit that was asked for, and has one where none was", () => {
    assert.strictEqual(messages({ max_tokens: 7 }).max_tokens, 7)
    assert.strictEqual(messages({ max_completion_tokens: 8, max_tokens: 7 }).max_tokens, 8)
    assert.strictEqual(messages({}).max_tokens, 4096)
  })

  it("tells Anthropic that a tool's parameters are an object, also where nothing is said of them", () => {
    for (const parameters of [
      {},
      { properties: { zone: { type: "string" } } },
      { type: "object", required: ["zone"] }
    ]) {
      const tools = [{ type: "function", function: { name: "now", parameters } }]
      assert.deepStrictEqual(messages({ tools }).tools[0].input_schema, { type: "object", ...parameters })
    }
  })

  it("translates tools and every choice of them", () => {
    const tools = [{ type: "function", function: { name: "now", description: "The time" } }]
    const choice = (asked: object) => messages({ tools, ...asked }).tool_choice
    assert.deepStrictEqual(messages({ tools }).tools, [
      { name: "now", description: "The time", input_schema: { type: "object", properties: {} } }
    ])
    assert.isUndefined(choice({}))
    assert.deepStrictEqual(choice({ tool_choice: "none" }), { type: "none" })
    assert.deepStrictEqual(choice({ tool_choice: "required" }), { type: "any" })
    assert.deepStrictEqual(choice({ tool_choice: { type: "function", function: { name: "now" } } }), {
      type: "tool",
      name: "now"
    })
    assert.deepStrictEqual(choice({ parallel_tool_calls: false }), { type: "auto", disable_parallel_tool_use: true })
  })

  it("leaves out what Anthropic refuses and nobody misses", () => {
    const odd = messages({ stop: [" ", "END", "\n"], top_p: 1, temperature: 0.5 })
    assert.deepStrictEqual([odd.stop_sequences, odd.top_p, odd.temperature], [["END"], undefined, 0.5])
    const begun = messages({ messages: [...hello, { role: "assistant", content: "It is \n" }] })
    assert.deepStrictEqual(begun.messages.at(-1).content, [{ type: "text", text: "It is" }])
    assert.lengthOf(messages({ messages: [...hello, { role: "assistant", content: " " }] }).messages, 1)
    const called = messages({
      messages: [
        ...hello,
        { role: "assistant", tool_calls: [{ id: "functions.now:0", function: { name: "now", arguments: "" } }] },
        { role: "tool", tool_call_id: "functions.now:0", content: "noon" }
      ]
    })
    const [, use, result] = called.messages
    assert.strictEqual(use.content[0].id, "functions_now_0")
    assert.strictEqual(result.content[0].tool_use_id, "functions_now_0")
  })

  it("asks for output of a schema", () => {
    const schema = { type: "object", properties: { a: { type: "string" } } }
    const format = { type: "json_schema", json_schema: { name: "x", schema } }
    assert.deepStrictEqual(messages({ response_format: format }).output_config, {
      format: { type: "json_schema", schema }
    })
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
  it("puts the results of tools before what the user says, and their images after", () => {
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw==" } }
    const translated = chat({
      system: [
        { type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } },
        { type: "text", text: "Be kind." }
      ],
      messages: [
        ...hello,
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "hm", signature: "s" },
            { type: "text", text: "Looking." },
            { type: "tool_use", id: "a", name: "look", input: { at: 1 } }
          ]
        },
        {
          role: "user",
          content: [
            { type: "text", text: "Well?" },
            { type: "tool_result", tool_use_id: "a", is_error: true, content: [{ type: "text", text: "dark" }, image] }
          ]
        }
      ]
    })
    assert.deepStrictEqual(translated.messages, [
      { role: "system", content: "Be brief.\n\nBe kind." },
      { role: "user", content: "Hello" },
      {
        role: "assistant",
        content: "Looking.",
        tool_calls: [{ id: "a", type: "function", function: { name: "look", arguments: '{"at":1}' } }]
      },
      { role: "tool", tool_call_id: "a", content: "Error:\ndark" },
      {
        role: "user",
        content: [
          { type: "text", text: "Well?" },
          { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw==" } }
        ]
      }
    ])
    assert.strictEqual(translated.max_completion_tokens, 100)
  })

  it("asks a stream for its usage", () => {
    assert.deepStrictEqual(chat({ stream: true }).stream_options, { include_usage: true })
    assert.isUndefined(chat({ stream: false }).stream_options)
  })

  it("translates tools and every choice of them", () => {
    const tools = [{ name: "now", input_schema: { type: "object" }, strict: true }]
    const choice = (asked: object) => chat({ tools, tool_choice: asked })
    assert.deepStrictEqual(chat({ tools }).tools, [
      { type: "function", function: { name: "now", strict: true, parameters: { type: "object" } } }
    ])
    assert.strictEqual(choice({ type: "any" }).tool_choice, "required")
    assert.strictEqual(choice({ type: "none" }).tool_choice, "none")
    assert.strictEqual(choice({ type: "auto", disable_parallel_tool_use: true }).parallel_tool_calls, false)
    assert.deepStrictEqual(choice({ type: "tool", name: "now" }).tool_choice, {
      type: "function",
      function: { name: "now" }
    })
  })

  it("translates documents, reasoning, formats and stops", () => {
    const pdf = { type: "base64", media_type: "application/pdf", data: "JVBERg==" }
    const content = [
      { type: "document", title: "a.pdf", source: pdf },
      { type: "document", source: { type: "text", media_type: "text/plain", data: "plain" } }
    ]
    const translated = chat({
      messages: [{ role: "user", content }],
      thinking: { type: "enabled", budget_tokens: 5000 },
      output_config: { format: { type: "json_schema", schema: { type: "object" } } },
      stop_sequences: ["END"]
    })
    assert.deepStrictEqual(translated.messages[0].content, [
      { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERg==" } },
      { type: "text", text: "plain" }
    ])
    assert.strictEqual(translated.reasoning_effort, "medium")
    assert.strictEqual(translated.response_format.json_schema.strict, true)
    assert.deepStrictEqual(translated.stop, ["END"])
  })

  it("names a user as OpenAI takes it, a long name by its digest", () => {
    assert.strictEqual(chat({ metadata: { user_id: "ada" } }).safety_identifier, "ada")
    const long = chat({ metadata: { user_id: "a".repeat(65) } }).safety_identifier
    assert.match(long, /^[0-9a-f]{64}$/)
    assert.notStrictEqual(long, chat({ metadata: { user_id: "b".repeat(65) } }).safety_identifier)
  })

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
