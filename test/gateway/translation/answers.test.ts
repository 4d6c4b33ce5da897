import { assert, describe, it } from "@effect/vitest"
import { usageOfMessage, toMessageUsage } from "../../../src/gateway/formats/anthropic-messages/usage.ts"
import { usageOfCompletion, toCompletionUsage } from "../../../src/gateway/formats/common-form/usage.ts"
import { readError, readErrorIn } from "../../../src/gateway/formats/errors.ts"
import { plausibleUsage } from "../../../src/gateway/formats/usage.ts"

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
    // What is written costs more than what is read.
    assert.deepStrictEqual([usage.cachedInputTokens, usage.cacheWriteTokens, usage.reasoningTokens], [2, 3, 5])
  })
})

describe("errors", () => {
  it("keep no members of what is no error of the dialect's", () => {
    const message = "No."
    for (const body of ["<html>", { error: message }, { error: { message, type: 7 } }, { detail: message }]) {
      assert.deepStrictEqual(readErrorIn("openai", 500, body).original?.members, {})
    }
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
