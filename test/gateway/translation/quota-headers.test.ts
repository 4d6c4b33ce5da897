import { assert, describe, it } from "@effect/vitest"
import { anthropicErrors } from "../../../src/gateway/formats/anthropic-messages/errors.ts"
import { type Quota } from "../../../src/gateway/formats/errors.ts"
import { openAiErrors } from "../../../src/gateway/formats/openai-chat/errors.ts"

const now = Date.UTC(2026, 0, 31, 9, 30, 0, 400)
const writers = { openai: openAiErrors, anthropic: anthropicErrors }
const limited = { status: 429, message: "Too many.", code: "rate_limit_exceeded" }

const quotaHeaders = (dialect: keyof typeof writers, quota: Quota, at: number) =>
  writers[dialect].answer(limited, quota, "r", at).headers

describe("what a limit leaves", () => {
  it("is told in the headers of each dialect", () => {
    const quota = { unit: "tokens", limit: 1000n, remaining: 880n, resetsAt: Date.UTC(2026, 0, 31, 10) } as const
    assert.deepStrictEqual(quotaHeaders("openai", quota, now), {
      "x-ratelimit-limit-tokens": "1000",
      "x-ratelimit-remaining-tokens": "880",
      "x-ratelimit-reset-tokens": "30m0s"
    })
    assert.deepStrictEqual(quotaHeaders("anthropic", { ...quota, unit: "requests" }, now), {
      "anthropic-ratelimit-requests-limit": "1000",
      "anthropic-ratelimit-requests-remaining": "880",
      "anthropic-ratelimit-requests-reset": "2026-01-31T10:00:00Z"
    })
  })

  it("is there again after hours, minutes and seconds, never at once, or never", () => {
    const reset = (millis: number | null) =>
      quotaHeaders(
        "openai",
        { unit: "requests", limit: 1n, remaining: 0n, resetsAt: millis === null ? null : now + millis },
        now
      )["x-ratelimit-reset-requests"]
    assert.deepStrictEqual([41_000, 59_001, 3_600_000, 90_061_000, 200, -5, null].map(reset), [
      "41s",
      "1m0s",
      "1h0m0s",
      "25h1m1s",
      "1s",
      "1s",
      undefined
    ])
    const moment = quotaHeaders("anthropic", { unit: "tokens", limit: 1n, remaining: 0n, resetsAt: now }, now)
    assert.strictEqual(moment["anthropic-ratelimit-tokens-reset"], "2026-01-31T09:30:01Z")
  })
})
