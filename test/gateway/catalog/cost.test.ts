import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { builtInCatalogue } from "../../../src/gateway/catalog/catalogue.ts"
import { costBound, costOf, ratesFor, rateTable } from "../../../src/gateway/catalog/cost.ts"
import { Prices } from "../../../src/gateway/catalog/rate-domain.ts"
import { type TokenUsage } from "../../../src/gateway/formats/domain.ts"

const { factsOf, modelsOf } = builtInCatalogue

const prices = (written: object) => rateTable(Schema.decodeUnknownSync(Prices)(written))

const usage = (part: Partial<TokenUsage>): TokenUsage => ({
  inputTokens: 0,
  outputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  cacheWrite1hTokens: 0,
  reasoningTokens: 0,
  ...part
})

const dear = prices({
  inputUsdPerMTok: 3,
  outputUsdPerMTok: 15,
  cacheReadUsdPerMTok: 0.3,
  cacheWriteUsdPerMTok: 3.75,
  cacheWrite1hUsdPerMTok: 6,
  reasoningUsdPerMTok: 20,
  longContext: [
    { aboveTokens: 200_000, inputUsdPerMTok: 6, outputUsdPerMTok: 22.5 },
    { aboveTokens: 500_000, inputUsdPerMTok: 9, outputUsdPerMTok: 30 }
  ]
})

describe("the cost of a usage", () => {
  it("charges each token in one class", () => {
    const whole = usage({
      inputTokens: 1000,
      cachedInputTokens: 300,
      cacheWriteTokens: 200,
      cacheWrite1hTokens: 50,
      outputTokens: 400,
      reasoningTokens: 100
    })
    const expected = 500n * 3000n + 300n * 300n + 150n * 3750n + 50n * 6000n + 300n * 15_000n + 100n * 20_000n
    assert.strictEqual(costOf(whole, dear), expected)
  })

  it("rounds each line up, once", () => {
    const fraction = prices({ inputUsdPerMTok: 0.0015, outputUsdPerMTok: 0.0015 })
    assert.strictEqual(costOf(usage({ inputTokens: 1, outputTokens: 1 }), fraction), 4n)
    assert.strictEqual(costOf(usage({ inputTokens: 2 }), fraction), 3n)
    assert.strictEqual(costOf(usage({}), fraction), 0n)
  })

  it("charges a long request as a whole at the prices of its length", () => {
    assert.strictEqual(ratesFor(dear, 200_000).input, 3_000_000_000n)
    assert.strictEqual(costOf(usage({ inputTokens: 200_001 }), dear), 200_001n * 6000n)
    assert.strictEqual(costOf(usage({ inputTokens: 500_001 }), dear), 500_001n * 9000n)
  })

  it("takes what has no price of its own for what it is a part of", () => {
    const plain = prices({ inputUsdPerMTok: 2, outputUsdPerMTok: 8 })
    const parts = usage({
      inputTokens: 10,
      cachedInputTokens: 4,
      cacheWriteTokens: 3,
      outputTokens: 5,
      reasoningTokens: 5
    })
    assert.strictEqual(costOf(parts, plain), 10n * 2000n + 5n * 8000n)
  })

  it("has what is written into a cache at Anthropic's factors where the prices do not say it, rounded up", () => {
    const given = Schema.decodeUnknownSync(Prices)({
      inputUsdPerMTok: 0.000000002,
      longContext: [{ aboveTokens: 1000, inputUsdPerMTok: 4 }]
    })
    const { basic, longContext } = rateTable(given, { writesCostMore: true })
    assert.deepInclude(basic, { cacheWrite: 3n, cacheWrite1h: 4n })
    assert.deepInclude(longContext[0]?.rates, { cacheWrite: 5_000_000_000n, cacheWrite1h: 8_000_000_000n })
    const own = rateTable({ ...given, cacheWriteUsdPerMTok: 2n }, { writesCostMore: true })
    assert.deepInclude(own.basic, { cacheWrite: 2n, cacheWrite1h: 4n })
    assert.deepInclude(rateTable(given).basic, { cacheWrite: 2n, cacheWrite1h: 2n })
  })

  it("refuses prices that are no exact amounts", () => {
    for (const input of [-1, 0.0000000001, Number.NaN]) {
      assert.throws(() => prices({ inputUsdPerMTok: input }))
    }
  })
})

const Count = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 2_000_000 })))
const Rate = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 100_000_000 })))

describe("the bound of a cost", () => {
  it.prop(
    "no usage within the limits costs more, whatever classes and prices",
    [Schema.Array(Count), Schema.Array(Rate), Schema.Boolean],
    ([[input = 0, output = 0, a = 0, b = 0, c = 0, d = 0], written, long]) => {
      const [i = 7, o = 11, r = 3, w = 5, h = 9, t = 2] = written.map((rate) => rate / 1e6)
      const classes = {
        inputUsdPerMTok: i,
        outputUsdPerMTok: o,
        cacheReadUsdPerMTok: r,
        cacheWriteUsdPerMTok: w,
        cacheWrite1hUsdPerMTok: h,
        reasoningUsdPerMTok: t
      }
      const tiers = long ? { longContext: [{ aboveTokens: 1000, inputUsdPerMTok: h, outputUsdPerMTok: i }] } : {}
      const table = prices({ ...classes, ...tiers })
      const cached = a % (input + 1)
      const written1h = b % (input - cached + 1)
      const any = usage({
        inputTokens: input,
        outputTokens: output,
        cachedInputTokens: cached,
        cacheWriteTokens: written1h,
        cacheWrite1hTokens: c % (written1h + 1),
        reasoningTokens: d % (output + 1)
      })
      assert.isTrue(costOf(any, table) <= costBound(input, output, [dear, table]))
      assert.isTrue(costOf(any, table) <= costBound(input, output, [table]))
    }
  )

  it("is no more than the few nano-dollars of its roundings above the dearest usage", () => {
    const plain = prices({ inputUsdPerMTok: 2, outputUsdPerMTok: 8, cacheWrite1hUsdPerMTok: 2 })
    const exact = costOf(usage({ inputTokens: 1000, outputTokens: 1000 }), plain)
    assert.isTrue(costBound(1000, 1000, [plain]) - exact <= 4n)
  })
})

/** What a model does, and its prices of tokens and of another unit, or of its output. */
const unit = (vendor: string, model: string) => {
  const { kind, prices } = factsOf(vendor, model) ?? {}
  return [kind, prices?.inputUsdPerMTok, prices?.searchUnitUsd ?? prices?.characterUsd ?? prices?.outputUsdPerMTok]
}

describe("the catalogue", () => {
  it("knows the models that people use most, with their prices", () => {
    const known = factsOf("openai", "gpt-4o")
    assert.deepStrictEqual(known?.prices, {
      inputUsdPerMTok: 2_500_000_000n,
      outputUsdPerMTok: 10_000_000_000n,
      cacheReadUsdPerMTok: 1_250_000_000n
    })
    assert.strictEqual(known?.maxOutputTokens, 16_384)
    assert.strictEqual(factsOf("openai", "text-embedding-3-small")?.kind, "embedding")
    assert.isNotNull(factsOf("anthropic", "claude-sonnet-5")?.prices ?? null)
  })

  it("leaves out what is sold by more than tokens of text", () => {
    const known = ["openai", "google", "perplexity-ai"].flatMap(modelsOf)
    const names = known.flatMap(({ kind, model }) => (kind === "chat" ? [model] : []))
    assert.isNotEmpty(names)
    for (const name of names) assert.notMatch(name, /realtime|tts|image|search|sonar/)
    for (const { kind, model, prices } of known) {
      if (kind !== "image" || prices?.image !== undefined) continue
      assert.isAbove(Number(prices?.imageOutputUsdPerMTok), Number(prices?.inputUsdPerMTok), model)
    }
    // What has a price for its audio is sold by tokens alone.
    for (const { model, prices } of modelsOf("openai")) {
      if (model.includes("audio")) assert.isDefined(prices?.audioOutputUsdPerMTok, model)
    }
  })

  it("has the prices of what is sold by other units, and of what speaks by tokens", () => {
    assert.deepStrictEqual(unit("cohere", "rerank-v3.5"), ["rerank", 0n, 2_000_000n])
    assert.deepStrictEqual(unit("cohere", "rerank-v4.0-pro"), ["rerank", 0n, 2_500_000n])
    assert.deepStrictEqual(unit("voyage", "rerank-2.5"), ["rerank", 50_000_000n, undefined])
    assert.deepStrictEqual(unit("openai", "tts-1"), ["speech", 0n, 15_000n])
    assert.deepStrictEqual(unit("openai", "tts-1-hd"), ["speech", 0n, 30_000n])
    assert.deepStrictEqual(unit("openai", "gpt-4o-mini-tts"), ["speech", 600_000_000n, 12_000_000_000n])
  })

  it("has the prices of each medium and the limits of what speaks in realtime", () => {
    const known = modelsOf("openai").filter(({ kind }) => kind === "realtime")
    assert.includeMembers(
      known.map(({ model }) => model),
      [
        "gpt-realtime",
        "gpt-realtime-mini",
        "gpt-realtime-1.5",
        "gpt-realtime-2",
        "gpt-realtime-2.1",
        "gpt-4o-realtime-preview"
      ]
    )
    for (const { contextTokens, maxOutputTokens, model, prices } of known) {
      assert.isNotNull(contextTokens, model)
      assert.isNotNull(maxOutputTokens, model)
      const text = Number(prices?.inputUsdPerMTok)
      assert.isBelow(Number(prices?.cacheReadUsdPerMTok), text, model)
      assert.isBelow(Number(prices?.audioCacheReadUsdPerMTok), Number(prices?.audioInputUsdPerMTok), model)
      assert.isAbove(Number(prices?.audioInputUsdPerMTok), text, model)
      assert.isAbove(Number(prices?.audioOutputUsdPerMTok), Number(prices?.outputUsdPerMTok), model)
      assert.isUndefined(prices?.cacheWriteUsdPerMTok, model)
    }
    assert.deepStrictEqual(factsOf("openai", "gpt-realtime")?.prices, {
      inputUsdPerMTok: 4_000_000_000n,
      cacheReadUsdPerMTok: 400_000_000n,
      outputUsdPerMTok: 16_000_000_000n,
      audioInputUsdPerMTok: 32_000_000_000n,
      audioCacheReadUsdPerMTok: 400_000_000n,
      audioOutputUsdPerMTok: 64_000_000_000n,
      imageInputUsdPerMTok: 5_000_000_000n,
      imageCacheReadUsdPerMTok: 500_000_000n
    })
  })

  it("has what transcribes in realtime by the second, and not what has an API of its own", () => {
    for (const name of ["gpt-live-transcribe", "gpt-realtime-whisper"]) {
      const { kind, prices } = factsOf("openai", name) ?? {}
      assert.deepStrictEqual([kind, prices?.audioSecondUsd], ["transcription", 283_334n], name)
    }
    assert.isUndefined(factsOf("openai", "gpt-realtime-translate"))
  })

  it("joins the two prices of Google's long requests", () => {
    const joined = modelsOf("google").filter(({ prices }) => prices?.longContext !== undefined)
    assert.isNotEmpty(joined)
    for (const { model, prices } of joined) {
      assert.notMatch(model, /-(?:lte|gt)-/)
      assert.isTrue((prices?.longContext?.[0]?.inputUsdPerMTok ?? 0n) >= (prices?.inputUsdPerMTok ?? 0n))
    }
  })
})
