import { Effect, Schema, SchemaIssue, SchemaTransformation } from "effect"

const nanosPerUsd = 1_000_000_000n
const largest = 8_388_607

/** US dollars per million tokens on the wire (zero or more, at most nine decimals), nano-dollars (`bigint`) within. */
export const UsdPerMTok = Schema.Finite.pipe(
  Schema.check(Schema.isBetween({ minimum: 0, maximum: largest })),
  Schema.annotate({ examples: [2.5] })
).pipe(
  Schema.decodeTo(
    Schema.BigInt,
    SchemaTransformation.transformEffect<bigint, number, never, never>({
      decode: (usd, options) => {
        const decimals = usd.toFixed(9)
        return Number(decimals) === usd
          ? Effect.succeed(BigInt(decimals.replace(".", "")))
          : Effect.fail(
              new SchemaIssue.InvalidValue({ expected: "US dollars with at most nine decimals" }, usd, options)
            )
      },
      encode: (nanoUsd) =>
        Effect.succeed(Number(`${nanoUsd / nanosPerUsd}.${String(nanoUsd % nanosPerUsd).padStart(9, "0")}`))
    })
  )
)

const classes = {
  inputUsdPerMTok: UsdPerMTok,
  outputUsdPerMTok: Schema.optionalKey(UsdPerMTok),
  cacheReadUsdPerMTok: Schema.optionalKey(UsdPerMTok),
  cacheWriteUsdPerMTok: Schema.optionalKey(UsdPerMTok),
  cacheWrite1hUsdPerMTok: Schema.optionalKey(UsdPerMTok),
  reasoningUsdPerMTok: Schema.optionalKey(UsdPerMTok)
}

const TokenCount = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))

/** What a model's tokens cost, as it is written down: what is left out costs what it is a part of. */
export const Prices = Schema.Struct({
  ...classes,
  longContext: Schema.optionalKey(
    Schema.Array(Schema.Struct({ aboveTokens: TokenCount, ...classes })).pipe(Schema.check(Schema.isMaxLength(8)))
  )
}).annotate({
  identifier: "ModelPrices",
  description:
    "US dollars per million tokens; a request with more input than `aboveTokens` costs those prices as a whole"
})
export type Prices = typeof Prices.Type

/** Nano-dollars per million tokens of each class. */
export interface Rates {
  readonly input: bigint
  readonly output: bigint
  readonly cacheRead: bigint
  readonly cacheWrite: bigint
  readonly cacheWrite1h: bigint
  readonly reasoning: bigint
}

/** The rates of a model: the basic ones, and those of long requests with the longest first. */
export interface RateTable {
  readonly basic: Rates
  readonly longContext: ReadonlyArray<{ readonly aboveTokens: number; readonly rates: Rates }>
}
