import { assert, describe, it } from "@effect/vitest"
import { anthropicErrors } from "../../../src/gateway/formats/anthropic-messages/errors.ts"
import { readErrorIn } from "../../../src/gateway/formats/errors.ts"
import { readGeminiError } from "../../../src/gateway/formats/gemini/errors.ts"
import { openAiErrors } from "../../../src/gateway/formats/openai-chat/errors.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- errors of every shape
type Any = any

const toOpenAi = (body: object, status = 400, dialect: "openai" | "anthropic" = "openai"): Any =>
  (openAiErrors.answer(readErrorIn(dialect, status, body), undefined, "r", 0).body as Any).error
const toAnthropic = (body: object, status = 400, dialect: "openai" | "anthropic" = "openai"): Any =>
  (anthropicErrors.answer(readErrorIn(dialect, status, body), undefined, "r", 0).body as Any).error

describe("members of a provider's own error", () => {
  const members = {
    type: "invalid_request_error",
    param: null,
    code: "tool_use_failed",
    failed_generation: '<function=f>{"a":1}',
    metadata: { provider_name: "x", raw: "{}" },
    innererror: { code: "ResponsibleAIPolicyViolation" },
    extra: [1]
  }

  it("reach callers of its dialect, and no others", () => {
    assert.deepStrictEqual(toOpenAi({ error: { message: "No.", ...members } }), { message: "No.", ...members })
    const other = toAnthropic({ error: { message: "No.", ...members } })
    assert.deepStrictEqual(other, { type: "invalid_request_error", message: "No." })
    const claude = { type: "overloaded_error", message: "No.", hint: { a: 1 } }
    assert.deepStrictEqual(toAnthropic({ type: "error", error: claude }, 529, "anthropic"), claude)
  })

  it("are those that its SDK reads where the error is not nested", () => {
    const given = { object: "error", message: "No.", type: "BadRequestError", code: 400, param: "n", detail: "d" }
    assert.deepStrictEqual(toOpenAi(given), { message: "No.", type: "BadRequestError", param: "n", code: "400" })
  })
})

describe("the code of an error", () => {
  it("is a text or null in OpenAI's form", () => {
    for (const code of [400, 1210, 0.5])
      assert.strictEqual(toOpenAi({ error: { message: "No.", code } }).code, String(code))
    assert.isNull(toOpenAi({ error: { message: "No.", code: null } }).code)
    assert.isNull(toOpenAi({ error: { message: "No." } }).code)
    assert.strictEqual(
      toOpenAi({ type: "error", error: { type: "api_error", message: "No." } }, 500, "anthropic").code,
      "api_error"
    )
    assert.strictEqual(toOpenAi({ error: { message: "No.", code: 1210 } }, 400, "anthropic").code, "1210")
    assert.isNull(toOpenAi({ error: { message: "No.", code: 400 } }, 400, "anthropic").code)
  })

  const messages = [
    "prompt is too long: 208310 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
    "This model's maximum context length is 128000 tokens.",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "the request exceeds the available context size, try increasing it",
    "Input is too long for requested model.",
    "Invalid request: Your request exceeded model token limit: 262144",
    "Please reduce the length of the messages or completion."
  ]

  it("says that a conversation is too long, as clients of each vendor read it", () => {
    for (const message of messages) {
      const claude = { type: "error", error: { type: "invalid_request_error", message } }
      assert.deepInclude(toOpenAi(claude, 400, "anthropic"), { code: "context_length_exceeded", message })
      assert.match(toAnthropic({ error: { message, code: 400 } }).message, /^prompt is too long/)
      const google = { error: { code: 400, message, status: "INVALID_ARGUMENT" } }
      assert.strictEqual(readGeminiError(400, google).code, "context_length_exceeded")
      // Its own callers get Anthropic's error as it came.
      assert.strictEqual(toAnthropic(claude, 400, "anthropic").message, message)
    }
    const openai = { error: { message: "Too many.", code: "context_length_exceeded", type: "invalid_request_error" } }
    assert.strictEqual(toAnthropic(openai).message, "prompt is too long: Too many.")
  })

  it("does not say so of anything else", () => {
    const quota = "You exceeded your current quota: input token count exceeds 250000 per minute."
    assert.strictEqual(
      readGeminiError(429, { error: { message: quota, status: "RESOURCE_EXHAUSTED" } }).code,
      "RESOURCE_EXHAUSTED"
    )
    const others = ["max_tokens: 9000 > 8192", "tools.0.name is too long", "The prompt is empty.", "No such context."]
    for (const message of others) {
      const claude = { type: "error", error: { type: "invalid_request_error", message } }
      assert.strictEqual(toOpenAi(claude, 400, "anthropic").code, "invalid_request_error")
    }
  })
})
