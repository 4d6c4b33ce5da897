import { assert, describe, it } from "@effect/vitest"
import { Option, Schema } from "effect"
import {
  completionToMessage,
  messageToCompletion
} from "../../../src/gateway/translation/anthropic-messages/answers.ts"
import { ChunksToEvents } from "../../../src/gateway/translation/anthropic-messages/chunks-to-events.ts"
import { ChatChunk, ChatCompletion } from "../../../src/gateway/translation/openai-chat/domain.ts"
import { saidIn } from "../../../src/gateway/wire/native/translation.ts"
import { type DialectError, readError, readErrorIn } from "../../../src/gateway/translation/errors.ts"
import { anthropicErrors } from "../../../src/gateway/wire/anthropic-messages/errors.ts"
import { openAiErrors } from "../../../src/gateway/wire/openai-chat/errors.ts"
import { plausibleUsage } from "../../../src/gateway/translation/usage.ts"
import { usageOfCompletion, toCompletionUsage } from "../../../src/gateway/translation/openai-chat/usage.ts"
import { usageOfMessage, toMessageUsage } from "../../../src/gateway/translation/anthropic-messages/usage.ts"

const head = { model: "asked", id: "made" }

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
const loose = (answer: object): any => answer

describe("usage", () => {
  it("cached tokens are not counted twice: OpenAI has them within the prompt, Anthropic beside it", () => {
    const openai = usageOfCompletion({
      prompt_tokens: 100,
      completion_tokens: 20,
      prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 10 }
    })
    const anthropic = usageOfMessage({
      input_tokens: 30,
      output_tokens: 20,
      cache_read_input_tokens: 60,
      cache_creation_input_tokens: 10
    })
    assert.deepStrictEqual(openai, anthropic)
    assert.strictEqual(openai.inputTokens, 100)
    assert.strictEqual(toCompletionUsage(anthropic).prompt_tokens, 100)
    assert.strictEqual(toMessageUsage(openai).input_tokens, 30)
  })

  it("reasoning is not counted twice: it is a part of the output in both dialects", () => {
    const openai = usageOfCompletion({
      prompt_tokens: 1,
      completion_tokens: 50,
      completion_tokens_details: { reasoning_tokens: 40 }
    })
    assert.strictEqual(openai.outputTokens, 50)
    assert.strictEqual(openai.reasoningTokens, 40)
    assert.strictEqual(toCompletionUsage(openai).total_tokens, 51)
    assert.strictEqual(toMessageUsage(openai).output_tokens, 50)
    const anthropic = usageOfMessage({ output_tokens: 50, output_tokens_details: { thinking_tokens: 40 } })
    assert.strictEqual(anthropic.outputTokens, 50)
    assert.strictEqual(anthropic.reasoningTokens, 40)
  })

  it("reasoning beside the completion is found in the total, as xAI and Google have it", () => {
    const usage = usageOfCompletion({
      prompt_tokens: 10,
      completion_tokens: 5,
      total_tokens: 1015,
      completion_tokens_details: { reasoning_tokens: 1000 }
    })
    assert.deepInclude(usage, { inputTokens: 10, outputTokens: 1005, reasoningTokens: 1000 })
    const google = usageOfCompletion({ prompt_tokens: 20, completion_tokens: 424, total_tokens: 1016 })
    assert.deepInclude(google, { outputTokens: 996, reasoningTokens: 572 })
    const usual = usageOfCompletion({ prompt_tokens: 20, completion_tokens: 4, total_tokens: 24 })
    assert.deepInclude(usual, { outputTokens: 4, reasoningTokens: 0 })
  })

  it("is read from texts too, and not believed where it is nothing, or more than there can be", () => {
    const written = usageOfCompletion({ prompt_tokens: "10", completion_tokens: "5" })
    assert.deepInclude(written, { inputTokens: 10, outputTokens: 5 })
    assert.strictEqual(plausibleUsage(written), written)
    for (const usage of ["x", [], null, { prompt_tokens: 0, completion_tokens: 0 }, { prompt_tokens: -5 }]) {
      assert.isUndefined(plausibleUsage(usageOfCompletion(usage)), JSON.stringify(usage))
    }
    assert.isUndefined(plausibleUsage(usageOfCompletion({ prompt_tokens: 1e30, completion_tokens: 1 })))
    assert.isUndefined(plausibleUsage(usageOfMessage({ input_tokens: 1, output_tokens: 9e18 })))
  })

  it("parts that a provider gives larger than their whole are cut to it", () => {
    const usage = usageOfCompletion({
      prompt_tokens: 5,
      completion_tokens: 5,
      prompt_tokens_details: { cached_tokens: 9, cache_write_tokens: 3 },
      completion_tokens_details: { reasoning_tokens: 9 }
    })
    assert.deepStrictEqual([usage.cachedInputTokens, usage.cacheWriteTokens, usage.reasoningTokens], [5, 0, 5])
  })
})

describe("answers", () => {
  it("a message becomes a completion", () => {
    const completion = loose(
      messageToCompletion(
        {
          id: "msg_1",
          content: [
            { type: "thinking", thinking: "hm" },
            { type: "text", text: "It is " },
            { type: "text", text: "noon." },
            { type: "tool_use", id: "t", name: "now", input: {} }
          ],
          stop_reason: "tool_use",
          usage: { input_tokens: 3, output_tokens: 4 }
        },
        head,
        17
      )
    )
    assert.strictEqual(completion.id, "msg_1")
    assert.strictEqual(completion.model, "asked")
    assert.strictEqual(completion.created, 17)
    const [choice] = completion.choices
    assert.strictEqual(choice.finish_reason, "tool_calls")
    assert.strictEqual(choice.message.content, "It is noon.")
    assert.strictEqual(choice.message.reasoning_content, "hm")
    assert.deepStrictEqual(choice.message.tool_calls, [
      { id: "t", type: "function", function: { name: "now", arguments: "{}" } }
    ])
    assert.strictEqual(completion.usage.total_tokens, 7)
  })

  it("a completion becomes a message, whatever finish reason its provider gives to a call", () => {
    for (const finish_reason of ["tool_calls", "stop", null]) {
      const message = loose(
        completionToMessage(
          {
            choices: [
              {
                message: {
                  content: "Looking.",
                  tool_calls: [
                    { id: "a", function: { name: "now", arguments: "" } },
                    { id: "b", function: { name: "at", arguments: '{"x":"\\u00e9"}' } },
                    { id: "c", function: { name: "bad", arguments: "{" } }
                  ]
                },
                finish_reason
              }
            ]
          },
          head
        )
      )
      assert.strictEqual(message.id, "made")
      assert.strictEqual(message.stop_reason, "tool_use")
      assert.deepStrictEqual(
        message.content.map(({ input, text }: { input: unknown; text: unknown }) => input ?? text),
        ["Looking.", {}, { x: "é" }, { arguments: "{" }]
      )
    }
  })

  it("a completion in parts, with a call that has no id, becomes a message too", () => {
    const completion = Schema.decodeUnknownSync(ChatCompletion)({
      choices: [
        {
          message: {
            content: [
              { type: "thinking", thinking: [{ type: "text", text: "hm" }] },
              { type: "text", text: "It is noon." }
            ],
            tool_calls: [{ function: { name: "now" } }]
          },
          finish_reason: "stop"
        }
      ],
      usage: "none"
    })
    assert.deepStrictEqual(loose(completionToMessage(completion, head)).content, [
      { type: "text", text: "It is noon." },
      { type: "tool_use", id: "made_0", name: "now", input: {} }
    ])
    const said = saidIn(new TextEncoder().encode(JSON.stringify(completion)))
    assert.deepStrictEqual(
      Option.map(said, ({ text, toolCalls }) => ({ text, toolCalls })),
      Option.some({ text: "It is noon.", toolCalls: [{ id: "call_0", name: "now", arguments: "{}" }] })
    )
  })

  it("what a model thought is told under either of its names", () => {
    for (const thought of [
      { reasoning_content: "hm" },
      { reasoning: "hm" },
      { reasoning_content: null, reasoning: "hm" }
    ]) {
      const completion = Schema.decodeUnknownSync(ChatCompletion)({
        choices: [{ message: { content: "Noon.", ...thought }, finish_reason: "stop" }]
      })
      assert.strictEqual(loose(completionToMessage(completion, head)).content[0].thinking, "hm")
      const chunk = Schema.decodeUnknownSync(ChatChunk)({ choices: [{ delta: thought }] })
      const events = new ChunksToEvents(head).push(chunk)
      assert.deepInclude(events.at(-1), { delta: { type: "thinking_delta", thinking: "hm" } })
    }
    const odd = Schema.decodeUnknownSync(ChatCompletion)({ choices: [{ message: { content: "a", reasoning: {} } }] })
    assert.lengthOf(loose(completionToMessage(odd, head)).content, 1)
  })

  it("a refusal is said, and given as the reason", () => {
    const message = loose(
      completionToMessage({ choices: [{ message: { content: null, refusal: "No." }, finish_reason: "stop" }] }, head)
    )
    assert.strictEqual(message.stop_reason, "refusal")
    assert.strictEqual(message.content[0].text, "No.")
  })
})

const writers = { openai: openAiErrors, anthropic: anthropicErrors }
type Dialect = keyof typeof writers
const errorBody = (dialect: Dialect, error: DialectError, requestId: string) =>
  writers[dialect].answer(error, undefined, requestId, 0).body
const errorEvent = (dialect: Dialect, error: DialectError, requestId: string) =>
  writers[dialect].event(error, requestId)
const statusIn = (dialect: Dialect, status: number) =>
  writers[dialect].answer({ status, message: "Overload.", code: null }, undefined, "r", 0).status

describe("errors", () => {
  const denied = { status: 402, message: "Nothing left.", code: "insufficient_quota" }

  it("have the shape and type of each dialect", () => {
    assert.deepStrictEqual(errorBody("openai", denied, "r"), {
      error: { message: "Nothing left.", type: "insufficient_quota", param: null, code: "insufficient_quota" }
    })
    assert.deepStrictEqual(errorBody("anthropic", denied, "r"), {
      type: "error",
      error: { type: "billing_error", message: "Nothing left." },
      request_id: "r"
    })
    assert.match(errorEvent("openai", denied, "r"), /^data: \{"error":.*\}\n\n$/)
    assert.match(errorEvent("anthropic", denied, "r"), /^event: error\ndata: \{"type":"error",.*\}\n\n$/)
  })

  it("of a provider are told as they came to whoever speaks its dialect, and to others in their own words", () => {
    const message = "Too many tokens."
    const limited = { type: "tokens", param: null, code: "rate_limit_exceeded", "x-other": 1 }
    const openai = readErrorIn("openai", 429, { error: { message, ...limited } })
    assert.deepStrictEqual(errorBody("openai", openai, "r"), {
      error: { message, type: "tokens", param: null, code: "rate_limit_exceeded" }
    })
    assert.deepInclude(loose(errorBody("anthropic", openai, "r")).error, { type: "rate_limit_error", message })
    const details = { error_visibility: "user_facing", nested: [1] }
    const anthropic = readErrorIn("anthropic", 400, {
      type: "error",
      error: { type: "odd_error", message, details },
      request_id: "theirs"
    })
    assert.deepStrictEqual(errorBody("anthropic", anthropic, "r"), {
      type: "error",
      error: { type: "odd_error", message, details },
      request_id: "r"
    })
    assert.deepStrictEqual(errorBody("openai", anthropic, "r"), {
      error: { message, type: "invalid_request_error", param: null, code: "odd_error" }
    })
    // What is no error of the dialect's is told as the gateway's own are.
    for (const body of ["<html>", { error: "No." }, { error: { message, type: 7 } }, { detail: "No." }]) {
      const { error } = loose(errorBody("openai", readErrorIn("openai", 500, body), "r"))
      assert.deepStrictEqual([error.type, error.param, error.code], ["server_error", null, null])
    }
  })

  it("say overload with the status of the dialect", () => {
    assert.strictEqual(statusIn("anthropic", 503), 529)
    assert.strictEqual(statusIn("openai", 529), 503)
    assert.strictEqual(statusIn("openai", 503), 503)
  })

  it("are read from either dialect, and from what is neither", () => {
    const openai = { error: { message: "Bad.", type: "invalid_request_error", param: "n", code: "bad_n" } }
    assert.deepStrictEqual(readError(400, openai), { status: 400, message: "Bad.", code: "bad_n", param: "n" })
    const anthropic = { type: "error", error: { type: "overloaded_error", message: "Busy." } }
    assert.strictEqual(readError(529, anthropic).code, "overloaded_error")
    const mistral = { object: "error", message: "Extra inputs.", type: "invalid_request_error", code: "1" }
    assert.deepInclude(readError(422, mistral), { message: "Extra inputs.", code: "1" })
    assert.strictEqual(readError(404, { detail: "Not Found" }).message, "Not Found")
    const detail = [{ loc: ["body", "n"], msg: "extra fields not permitted" }]
    assert.include(readError(422, { detail }).message, "extra fields not permitted")
    for (const body of ["<html>", null, [], { error: {} }]) {
      assert.match(readError(502, body).message, /status 502/)
    }
  })
})
