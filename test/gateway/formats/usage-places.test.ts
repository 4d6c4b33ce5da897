import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { costOf, rateTable } from "../../../src/gateway/catalog/cost.ts"
import { Prices } from "../../../src/gateway/catalog/rate-domain.ts"
import { usageOfMessage } from "../../../src/gateway/formats/anthropic-messages/usage.ts"
import { usageInCompletion, usageOfCompletion } from "../../../src/gateway/formats/common-form/usage.ts"
import { usageOfAnswer } from "../../../src/gateway/formats/gemini/usage.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { openAiResponses } from "../../../src/gateway/formats/openai-responses/format.ts"
import { usageOfResponse } from "../../../src/gateway/formats/openai-responses/usage.ts"
import { plausibleUsage } from "../../../src/gateway/formats/usage.ts"
import { diceOf } from "../../contract/dice.ts"
import { hasRecorded, readRecorded } from "../../support/recorded.ts"

const prices = Schema.decodeUnknownSync(Prices)
const plain = rateTable(prices({ inputUsdPerMTok: 1, outputUsdPerMTok: 10, cacheReadUsdPerMTok: 0.1 }))

const usage = { prompt_tokens: 1000, completion_tokens: 5 }
const contradicts = (more: object) => usageOfCompletion({ ...usage, ...more }).isContradictory === true

describe("the tokens of a chat completion", () => {
  it("that were cached are found in all spellings, and the largest counts", () => {
    for (const cached of [
      { prompt_tokens_details: { cached_tokens: 900 } },
      { prompt_cache_hit_tokens: 900, prompt_cache_miss_tokens: 100 },
      { cached_tokens: 900 },
      { num_cached_tokens: 900 },
      { cache_read_input_tokens: 900 },
      { prompt_tokens_details: { cached_tokens: 0 }, cached_tokens: 900 },
      { prompt_tokens_details: null, cached_tokens: "900" },
      { prompt_tokens_details: { cached_tokens: 20 }, num_cached_tokens: 900 }
    ]) {
      const read = usageOfCompletion({ ...usage, ...cached })
      assert.strictEqual(read.cachedInputTokens, 900, JSON.stringify(cached))
      assert.strictEqual(costOf(read, plain), 100n * 1000n + 900n * 100n + 5n * 10_000n)
    }
    for (const written of [
      { prompt_tokens_details: { cache_write_tokens: 70 } },
      { cache_creation_input_tokens: 70 },
      { prompt_tokens_details: { cache_creation_tokens: 70 } }
    ]) {
      assert.strictEqual(usageOfCompletion({ ...usage, ...written }).cacheWriteTokens, 70)
    }
  })

  it("are found beside the choices, in one of them, and in the vendor's own member", () => {
    const read = { inputTokens: 1000, outputTokens: 5 }
    for (const value of [
      { usage },
      { choices: [{ index: 0, delta: {}, finish_reason: "stop", usage }] },
      { choices: [], x_groq: { id: "r", usage } },
      { choices: [{ usage }], usage: { prompt_tokens: 0, completion_tokens: 0 } },
      { choices: [{ usage: { prompt_tokens: 7 } }], usage, x_groq: { usage: { prompt_tokens: "x" } } }
    ]) {
      assert.deepInclude(usageInCompletion(value), read, JSON.stringify(value))
      assert.deepInclude(openAiChat.usageIn(value), read)
    }
    assert.isUndefined(openAiChat.usageIn({ choices: [{ index: 0, delta: { content: "a" } }], usage: null }))
  })

  it("of audio are within the prompt, or beside it where the total says so", () => {
    const voxtral = {
      prompt_tokens: 10,
      completion_tokens: 5,
      total_tokens: 390,
      prompt_tokens_details: { audio_tokens: 375 }
    }
    assert.deepInclude(usageOfCompletion(voxtral), {
      inputTokens: 385,
      outputTokens: 5,
      reasoningTokens: 0,
      media: { audioInput: 375 }
    })
    const openAi = {
      prompt_tokens: 81,
      completion_tokens: 72,
      total_tokens: 153,
      prompt_tokens_details: { audio_tokens: 69, text_tokens: 12, cached_tokens: 0 },
      completion_tokens_details: { audio_tokens: 34, text_tokens: 38, reasoning_tokens: 0 }
    }
    assert.deepInclude(usageOfCompletion(openAi), {
      inputTokens: 81,
      outputTokens: 72,
      media: { audioInput: 69, audioOutput: 34 }
    })
    // A total that has just as much reasoning beyond both is that of reasoning.
    const reasoning = { ...voxtral, completion_tokens_details: { reasoning_tokens: 375 } }
    assert.deepInclude(usageOfCompletion(reasoning), { inputTokens: 10, outputTokens: 380, reasoningTokens: 375 })
  })

  it("of media that were cached are as fresh as they can be, unless the vendor says how many", () => {
    const details = { cached_tokens: 60, audio_tokens: 50 }
    const unsaid = { prompt_tokens: 100, completion_tokens: 0, prompt_tokens_details: details }
    assert.deepStrictEqual(usageOfCompletion(unsaid).media, { audioInput: 40, audioCacheRead: 10 })
    const named = { ...details, cached_tokens_details: { audio_tokens: 45 } }
    const read = usageOfCompletion({ ...unsaid, prompt_tokens_details: named })
    assert.deepStrictEqual(read.media, { audioInput: 5, audioCacheRead: 45 })
  })

  it("that contradict each other are noticed", () => {
    assert.isFalse(contradicts({ total_tokens: 1005, prompt_tokens_details: { cached_tokens: 4 }, cached_tokens: 4 }))
    assert.isFalse(contradicts({ total_tokens: 1105 }))
    assert.isTrue(contradicts({ total_tokens: 900 }))
    assert.isTrue(contradicts({ prompt_tokens_details: { cached_tokens: 1001 } }))
    assert.isTrue(contradicts({ cached_tokens: 3, num_cached_tokens: 4 }))
    assert.isTrue(contradicts({ completion_tokens_details: { reasoning_tokens: 6 } }))
    assert.isTrue(
      usageOfMessage({
        input_tokens: 1,
        cache_creation_input_tokens: 5,
        cache_creation: { ephemeral_1h_input_tokens: 9 }
      }).isContradictory
    )
    assert.isTrue(usageOfAnswer({ promptTokenCount: 5, cachedContentTokenCount: 9 }).isContradictory)
  })
})

describe("the tokens of the other formats", () => {
  it("of a response are read under the same names", () => {
    const read = usageOfResponse({
      input_tokens: 100,
      output_tokens: 40,
      total_tokens: 140,
      cached_tokens: 30,
      input_tokens_details: { cached_tokens: 20, image_tokens: 50 },
      output_tokens_details: { reasoning_tokens: 8, image_tokens: 12 }
    })
    assert.deepInclude(read, { inputTokens: 100, outputTokens: 40, cachedInputTokens: 30, reasoningTokens: 8 })
    assert.deepStrictEqual(read.media, { imageInput: 50, imageOutput: 12 })
  })

  it("of a message: the larger of what was written to the cache, and of its parts", () => {
    const parts = { ephemeral_5m_input_tokens: 4, ephemeral_1h_input_tokens: 6 }
    const read = usageOfMessage({ input_tokens: 1, output_tokens: 2, cache_creation: parts })
    assert.deepInclude(read, { inputTokens: 11, cacheWriteTokens: 10, cacheWrite1hTokens: 6 })
    const more = usageOfMessage({ input_tokens: 1, cache_creation_input_tokens: 20, cache_creation: parts })
    assert.deepInclude(more, { cacheWriteTokens: 20, cacheWrite1hTokens: 6 })
  })
})

const odd = [0, 1, 7, 400, "12", -5, 1e30, 1e12, Number.NaN, null, "x", {}, [3], true, 0.5] as const
const names = ["prompt", "completion", "input", "output"]
const counted = [
  ...names.map((name) => `${name}_tokens`),
  "total_tokens",
  "num_cached_tokens",
  "cache_creation_input_tokens",
  "cache_read_input_tokens"
]
const details = [
  "cached_tokens",
  "audio_tokens",
  "image_tokens",
  "video_tokens",
  "reasoning_tokens",
  "cache_write_tokens"
]

describe("any report of a usage", () => {
  it("is read as a usage whose classes are parts of its totals, or not at all", () => {
    const dice = diceOf("odd usages")
    const media = prices({
      inputUsdPerMTok: 1,
      outputUsdPerMTok: 10,
      cacheReadUsdPerMTok: 0.1,
      audioInputUsdPerMTok: 40,
      audioOutputUsdPerMTok: 80,
      imageOutputUsdPerMTok: 30
    })
    const table = rateTable(media)
    for (let index = 0; index < 20_000; index++) {
      const draw = (members: ReadonlyArray<string>) =>
        Object.fromEntries(members.flatMap((name) => (dice.chance(0.6) ? [[name, dice.pick(odd)]] : [])))
      const usage = {
        ...draw(counted),
        ...Object.fromEntries(names.map((name) => [`${name}_tokens_details`, draw(details)]))
      }
      for (const read of [usageOfCompletion(usage), usageOfResponse(usage), usageOfMessage(usage)].map(
        plausibleUsage
      )) {
        if (read === undefined) continue
        const { media: kinds = {} } = read
        const sum = (end: string) =>
          Object.entries(kinds).reduce((total, [name, tokens]) => (name.endsWith(end) ? total + tokens : total), 0)
        const fresh = read.inputTokens - read.cachedInputTokens - read.cacheWriteTokens
        const text = JSON.stringify({ usage, read })
        assert.isTrue(
          Object.values(read).every((one) => typeof one !== "number" || Number.isSafeInteger(one)),
          text
        )
        assert.isAtLeast(fresh - sum("Input"), 0, text)
        assert.isAtLeast(read.cachedInputTokens - sum("CacheRead"), 0, text)
        assert.isAtLeast(read.outputTokens - read.reasoningTokens - sum("Output"), 0, text)
        assert.isAtLeast(read.cacheWriteTokens - read.cacheWrite1hTokens, 0, text)
        assert.isTrue(costOf(read, table) >= 0n)
      }
    }
  })

  it.skipIf(!hasRecorded)("that was recorded has its audio and its cached tokens", () => {
    const usages = (value: unknown): ReadonlyArray<Readonly<Record<string, unknown>>> => {
      if (typeof value !== "object" || value === null) return []
      return Object.entries(value).flatMap(([name, inner]) =>
        name === "usage" && typeof inner === "object" && inner !== null ? [inner] : usages(inner)
      )
    }
    let seen = 0
    for (const { body, dialect, streamed } of readRecorded()) {
      if (streamed || !/^openai-(?:chat|responses)$/.test(dialect)) continue
      let answer: unknown
      try {
        answer = JSON.parse(body)
      } catch {
        continue
      }
      const [usage] = usages(answer)
      const format = dialect === "openai-chat" ? openAiChat : openAiResponses
      const read = format.usageIn(answer)
      if (usage === undefined || read === undefined) continue
      const input = Number(usage.prompt_tokens ?? usage.input_tokens)
      const output = Number(usage.completion_tokens ?? usage.output_tokens)
      assert.strictEqual(
        read.inputTokens + read.outputTokens,
        Math.max(Number(usage.total_tokens ?? 0), input + output)
      )
      const cached = Math.max(
        0,
        ...["num_cached_tokens", "cached_tokens", "prompt_cache_hit_tokens"].map((name) => Number(usage[name] ?? 0))
      )
      assert.isAtLeast(read.cachedInputTokens, cached)
      seen++
    }
    assert.isAbove(seen, 100)
  })
})
