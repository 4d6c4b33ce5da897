import { assert, describe, it } from "@effect/vitest"
import { Struct } from "effect"
import { readCompletion } from "../../../../src/gateway/formats/common-form/domain.ts"
import { sealedIn } from "../../../../src/gateway/formats/common-form/turn-state.ts"
import { toCompletionUsage, usageOfCompletion } from "../../../../src/gateway/formats/common-form/usage.ts"
import {
  answerSays,
  answerTells,
  answerToCompletion,
  completionToAnswer,
  wordsInAnswer
} from "../../../../src/gateway/formats/gemini/answers.ts"
import { isIncomplete, toFinishReason } from "../../../../src/gateway/formats/gemini/answers.ts"
import { readAnswer } from "../../../../src/gateway/formats/gemini/domain.ts"
import { geminiErrors, errorInAnswer, readGeminiError } from "../../../../src/gateway/formats/gemini/errors.ts"
import { tierOf, toAnswerUsage, usageOfAnswer } from "../../../../src/gateway/formats/gemini/usage.ts"
import { readableSeal } from "../../../support/turn-seals.ts"
import { type Any, calling, signedText, usage } from "./forms.ts"

const head = { model: "m", id: "id", createdSeconds: 17, includesThoughts: true }
const toCompletion = (answer: unknown, given = head): Any => answerToCompletion(readAnswer(answer) ?? {}, given)
const toAnswer = (completion: unknown, given = head): Any => completionToAnswer(readCompletion(completion) ?? {}, given)

const of = (...parts: ReadonlyArray<object>) => readAnswer({ candidates: [{ content: { parts } }] }) ?? {}

const joined = (parts: ReadonlyArray<Any>) =>
  parts.map(({ text, thought, ...rest }) => JSON.stringify([thought, text, rest])).join()

const call = (name: string, args: unknown, id?: string) => ({
  ...(id ? { id } : {}),
  function: { name, arguments: args }
})

describe("answers", () => {
  it("become completions with the finish, the calls, the thoughts and the usage", () => {
    const { choices, created, id, model, usage } = toCompletion(calling)
    assert.deepStrictEqual([id, model, created, choices.length], ["r1", "m", 17, 1])
    const [{ finish_reason: reason, message }] = choices
    assert.strictEqual(reason, "tool_calls")
    assert.deepInclude(message, { content: "I look.", reasoning_content: "Two places." })
    assert.deepStrictEqual(message.tool_calls[0], {
      id: "a",
      type: "function",
      function: { name: "weather", arguments: '{"city":"Köln"}' }
    })
    assert.deepInclude(usage, { prompt_tokens: 10, completion_tokens: 12, total_tokens: 22 })
  })

  it("come back from a completion as they were, with what the provider wants back on the first call or alone", () => {
    for (const answer of [calling, signedText]) {
      const sealed: Any = sealedIn(toCompletion(answer), readableSeal)
      const again = toAnswer(sealed)
      const { parts } = again.candidates[0].content
      const [signed, ...others] = parts.filter(({ thoughtSignature }: Any) => thoughtSignature !== undefined)
      assert.isEmpty(others)
      assert.strictEqual(signed.thoughtSignature, sealed.choices[0].message.turn_state)
      assert.strictEqual(signed.functionCall?.id ?? signed.text, answer === calling ? "a" : "")
      assert.deepStrictEqual(
        Struct.omit(toCompletion(again).choices[0].message, ["turn_state"]),
        Struct.omit(toCompletion(answer).choices[0].message, ["turn_state"]),
        joined(again.candidates[0].content.parts)
      )
      assert.deepStrictEqual(again.usageMetadata, usage)
      assert.strictEqual(again.responseId, answer.responseId)
    }
    const unasked = toAnswer(toCompletion(calling), { ...head, includesThoughts: false })
    assert.isFalse(unasked.candidates[0].content.parts.some(({ thought }: Any) => thought))
  })

  it("completions come back from an answer: several choices, calls without ids or arguments, a refusal", () => {
    const answer = toAnswer({
      id: "c",
      choices: [
        {
          index: 0,
          message: { content: null, tool_calls: [call("f", ""), call("g", "no JSON", "x")] },
          finish_reason: "stop"
        },
        { index: 1, message: { refusal: "No." }, finish_reason: "stop" },
        { index: 2, message: { content: "" }, finish_reason: "length" }
      ],
      usage: { prompt_tokens: 3, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 2 } }
    })
    assert.deepStrictEqual(answer.candidates, [
      {
        content: {
          parts: [
            { functionCall: { id: "id_0", name: "f", args: {} } },
            { functionCall: { id: "x", name: "g", args: { _invalid_arguments: "no JSON" } } }
          ],
          role: "model"
        },
        finishReason: "STOP",
        index: 0
      },
      { content: { parts: [{ text: "No." }], role: "model" }, finishReason: "SAFETY", index: 1 },
      { content: { parts: [{ text: "" }], role: "model" }, finishReason: "MAX_TOKENS", index: 2 }
    ])
    assert.deepStrictEqual(answer.usageMetadata, {
      promptTokenCount: 3,
      candidatesTokenCount: 4,
      totalTokenCount: 7,
      cachedContentTokenCount: 2
    })
    assert.deepStrictEqual(
      toCompletion(answer).choices.map((choice: Any) => choice.finish_reason),
      ["tool_calls", "content_filter", "length"]
    )
  })

  it("a prompt that was blocked says nothing and was filtered, and its usage counts", () => {
    const blocked = {
      promptFeedback: { blockReason: "PROHIBITED_CONTENT" },
      usageMetadata: { promptTokenCount: 9, totalTokenCount: 9 }
    }
    const { choices, usage } = toCompletion(blocked)
    assert.deepInclude(choices[0], { index: 0, finish_reason: "content_filter" })
    assert.isNull(choices[0].message.content)
    assert.strictEqual(usage.prompt_tokens, 9)
    assert.isTrue(answerTells(readAnswer(blocked) ?? {}))
  })

  it("of any shape are read, and what is not known fails none of them", () => {
    for (const odd of [
      {},
      { candidates: null },
      { candidates: [{}, 7, { content: "x", index: "1" }] },
      { candidates: [{ content: { parts: [{ inlineData: { data: "x" } }, { functionCall: { args: [1] } }, null] } }] }
    ]) {
      assert.isArray(toCompletion(odd).choices, JSON.stringify(odd))
    }
    assert.isUndefined(readAnswer("<html>"))
    const snake = {
      candidates: [{ content: { parts: [{ text: "Hi", thought_signature: "S" }] }, finish_reason: "STOP" }]
    }
    assert.deepStrictEqual(toCompletion(snake).choices[0].message.turn_state, [{ text: 2, signature: "S" }])
  })

  it("say something if they have content in any form, and their words are those of texts and calls", () => {
    assert.isFalse(answerSays(of({ text: "" }, { text: "", thoughtSignature: "S" }, { thought: true })))
    for (const part of [{ text: "a" }, { functionCall: { name: "f" } }, { inlineData: {} }, { executableCode: {} }]) {
      assert.isTrue(answerSays(of(part)), JSON.stringify(part))
    }
    assert.isFalse(answerTells(readAnswer({ usageMetadata: { promptTokenCount: 1 } }) ?? {}))
    assert.isTrue(answerTells(readAnswer({ candidates: [{ finishReason: "MAX_TOKENS" }], usageMetadata: usage }) ?? {}))
    assert.isTrue(answerTells(readAnswer({ error: { code: 500 } }) ?? {}))
    assert.deepStrictEqual(wordsInAnswer(readAnswer(calling) ?? {}).slice(2, 5), [
      "I look.",
      "weather",
      '{"city":"Köln"}'
    ])
  })
})

describe("finish reasons", () => {
  it("of filters are filters, and those of no complete answer are incomplete, as unknown ones are", () => {
    for (const reason of [
      "SAFETY",
      "RECITATION",
      "LANGUAGE",
      "BLOCKLIST",
      "PROHIBITED_CONTENT",
      "SPII",
      "IMAGE_SAFETY",
      "IMAGE_RECITATION",
      "IMAGE_PROHIBITED_CONTENT"
    ]) {
      assert.strictEqual(toFinishReason(reason, false), "content_filter", reason)
      assert.isFalse(isIncomplete(reason), reason)
    }
    for (const reason of [
      "MALFORMED_FUNCTION_CALL",
      "UNEXPECTED_TOOL_CALL",
      "TOO_MANY_TOOL_CALLS",
      "NO_IMAGE",
      "OTHER",
      "IMAGE_OTHER",
      "NEW",
      "constructor"
    ]) {
      assert.isTrue(isIncomplete(reason), reason)
      assert.strictEqual(toFinishReason(reason, true), "length", reason)
    }
    assert.deepStrictEqual([toFinishReason("STOP", true), toFinishReason(undefined, false)], ["tool_calls", "stop"])
    assert.isFalse(isIncomplete(undefined))
  })
})

const detail = (modality: string, tokenCount: number) => ({ modality, tokenCount })

describe("usage", () => {
  it("cached tokens are within the prompt, results of tools beside it, and thoughts beside the candidates", () => {
    const read = usageOfAnswer({
      promptTokenCount: 100,
      cachedContentTokenCount: 60,
      toolUsePromptTokenCount: 30,
      candidatesTokenCount: 20,
      thoughtsTokenCount: 50,
      totalTokenCount: 200
    })
    assert.deepInclude(read, { inputTokens: 130, cachedInputTokens: 60, outputTokens: 70, reasoningTokens: 50 })
  })

  it("thoughts are within the candidates only where the total says so", () => {
    const within = { promptTokenCount: 10, candidatesTokenCount: 50, thoughtsTokenCount: 40, totalTokenCount: 60 }
    assert.deepInclude(usageOfAnswer(within), { outputTokens: 50, reasoningTokens: 40 })
    assert.deepInclude(usageOfAnswer({ ...within, totalTokenCount: 100 }), { outputTokens: 90, reasoningTokens: 40 })
    const { totalTokenCount: _, ...untotalled } = within
    assert.deepInclude(usageOfAnswer(untotalled), { outputTokens: 90 })
    // More thoughts than candidates are beside them, whatever the total.
    assert.deepInclude(usageOfAnswer({ ...within, candidatesTokenCount: 5, totalTokenCount: 15 }), { outputTokens: 45 })
  })

  it("what is missing is in the total, and numbers may be texts", () => {
    assert.deepInclude(usageOfAnswer({ promptTokenCount: "7", totalTokenCount: 30 }), {
      inputTokens: 7,
      outputTokens: 23
    })
    assert.deepInclude(usageOfAnswer({ candidatesTokenCount: 3, totalTokenCount: 30 }), {
      inputTokens: 27,
      outputTokens: 3
    })
    for (const odd of [undefined, {}, "x", { promptTokenCount: -1 }]) {
      assert.deepInclude(usageOfAnswer(odd), { inputTokens: 0, outputTokens: 0 })
    }
  })

  it("is written so that it is read as the same, and passes through that of a completion", () => {
    for (const given of [
      usage,
      { promptTokenCount: 9, cachedContentTokenCount: 4, candidatesTokenCount: 0, totalTokenCount: 9 }
    ]) {
      const read = usageOfAnswer(given)
      assert.deepStrictEqual(usageOfAnswer(toAnswerUsage(read)), read)
      assert.deepStrictEqual(usageOfAnswer(toAnswerUsage(usageOfCompletion(toCompletionUsage(read)))), read)
    }
  })

  it("tells the input by modality, fresh and cached, and the tier", () => {
    const read = usageOfAnswer({
      promptTokenCount: 88,
      cachedContentTokenCount: 23,
      toolUsePromptTokenCount: 7,
      candidatesTokenCount: 9,
      totalTokenCount: 104,
      promptTokensDetails: [detail("TEXT", 50), detail("AUDIO", 30), detail("TEXT", 5), detail("VIDEO", 3)],
      cacheTokensDetails: [detail("AUDIO", 20), detail("VIDEO", 3)],
      toolUsePromptTokensDetails: [detail("IMAGE", 7)],
      candidatesTokensDetails: [detail("TEXT", 4), detail("IMAGE", 5)]
    })
    const media = { audioInput: 10, audioCacheRead: 20, videoCacheRead: 3, imageInput: 7, imageOutput: 5 }
    assert.deepInclude(read, { inputTokens: 95, cachedInputTokens: 23, outputTokens: 9, media })
    assert.strictEqual(tierOf({ usageMetadata: { trafficType: "ON_DEMAND" } }, {}), "ON_DEMAND")
    assert.strictEqual(tierOf({ serviceTier: "flex" }, { "x-gemini-service-tier": "priority" }), "priority")
  })
})

const type = (name: string) => `type.googleapis.com/google.rpc.${name}`

describe("errors", () => {
  it("are written with the status, the reason and the member, and when to try again", () => {
    const quota = { unit: "requests", limit: 1n, remaining: 0n, resetsAt: 5200 } as const
    const { body, status }: Any = geminiErrors.answer(
      { status: 429, message: "Slow", code: "rate-limited" },
      quota,
      "q",
      1000
    )
    assert.strictEqual(status, 429)
    assert.deepInclude(body.error, { code: 429, status: "RESOURCE_EXHAUSTED", message: "Slow" })
    assert.deepInclude(body.error.details, { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "5s" })
    const paid: Any = geminiErrors.answer(
      { status: 402, message: "Spent", code: "budget-exceeded", details: { cap: "c", left: 0 } },
      undefined,
      "q",
      0
    )
    assert.strictEqual(paid.body.error.status, "RESOURCE_EXHAUSTED")
    assert.deepInclude(paid.body.error.details[0], { reason: "BUDGET_EXCEEDED", metadata: { cap: "c", left: "0" } })
    const wrong: Any = geminiErrors.answer(
      { status: 400, message: "No", code: null, param: "contents" },
      undefined,
      "q",
      0
    )
    assert.deepInclude(wrong.body.error.details[0], { fieldViolations: [{ field: "contents", description: "No" }] })
    assert.deepInclude(geminiErrors.answer({ status: 529, message: "", code: null }, undefined, "q", 0), {
      status: 503
    })
    for (const [status, name] of [
      [401, "UNAUTHENTICATED"],
      [404, "NOT_FOUND"],
      [422, "INVALID_ARGUMENT"],
      [502, "UNAVAILABLE"],
      [504, "DEADLINE_EXCEEDED"]
    ] as const) {
      const written: Any = geminiErrors.answer({ status, message: "", code: null }, undefined, "q", 0)
      assert.strictEqual(written.body.error.status, name)
    }
  })

  it("are read with the reason, the member and the delay, in an array as well", () => {
    const error = {
      code: 429,
      message: "Quota",
      status: "RESOURCE_EXHAUSTED",
      details: [
        { "@type": type("RetryInfo"), retryDelay: "12.5s" },
        { "@type": type("ErrorInfo"), reason: "RATE_LIMIT_EXCEEDED" },
        { "@type": type("BadRequest"), fieldViolations: [{ field: "contents[0]" }] }
      ]
    }
    for (const body of [{ error }, [{ error }]]) {
      assert.deepInclude(readGeminiError(429, body), {
        status: 429,
        message: "Quota",
        code: "RATE_LIMIT_EXCEEDED",
        param: "contents[0]",
        retryAfterSeconds: 13
      })
    }
    assert.deepInclude(readGeminiError(400, { error: { message: "x", status: "INVALID_ARGUMENT" } }), {
      status: 400,
      code: "INVALID_ARGUMENT"
    })
    for (const odd of [
      undefined,
      "<html>",
      [],
      { error: "x" },
      { error: { details: [null, {}, { "@type": type("RetryInfo"), retryDelay: 3 }] } }
    ]) {
      assert.deepInclude(readGeminiError(500, odd), { status: 500, code: null, retryAfterSeconds: undefined })
    }
  })

  it("for a key that Google refuses with 400 are errors of credentials", () => {
    const details = [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" }]
    assert.strictEqual(readGeminiError(400, { error: { code: 400, message: "x", details } }).status, 401)
  })

  it("within a stream have their own status", () => {
    assert.isUndefined(errorInAnswer(calling))
    assert.deepInclude(errorInAnswer({ error: { code: 503, message: "x", status: "UNAVAILABLE" } }), { status: 503 })
    assert.deepInclude(errorInAnswer({ error: { code: 7, message: "x" } }), { status: 502 })
  })
})
