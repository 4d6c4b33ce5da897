import { Schema } from "effect"
import { UsdOrZero } from "../../kernel/usd.ts"
import { type BilledTool } from "../formats/domain.ts"

/** US dollars per million tokens on the wire, nano-dollars (`bigint`) within. */
export const UsdPerMTok = UsdOrZero.annotate({ examples: [2_500_000_000n] })

const price = (description: string) => Schema.optionalKey(UsdPerMTok).pipe(Schema.annotateKey({ description }))

const classes = {
  inputUsdPerMTok: UsdPerMTok.pipe(Schema.annotateKey({ description: "Tokens that are read" })),
  outputUsdPerMTok: price("Tokens that are written; nothing unless given"),
  cacheReadUsdPerMTok: price("Tokens read from the provider's cache; as input unless given"),
  cacheWriteUsdPerMTok: price("Tokens written into the provider's cache; as input unless given"),
  cacheWrite1hUsdPerMTok: price(
    "Tokens written there for an hour; twice the input unless given, or as input where no price of writing is"
  ),
  reasoningUsdPerMTok: price("Tokens of reasoning; as output unless given")
}

const fee = (description: string) =>
  Schema.optionalKey(UsdOrZero.annotate({ examples: [10_000_000n] })).pipe(Schema.annotateKey({ description }))

/** Fees of the tools that a provider runs. */
export const ToolFees = Schema.Struct({
  webSearch: fee("A web search"),
  codeExecution: fee("A container in which code runs"),
  fileSearch: fee("A search in stored files"),
  imageGeneration: fee("An image that is generated")
} satisfies Record<BilledTool, unknown>).annotate({ identifier: "ToolFees" })
export type ToolFees = typeof ToolFees.Type

const TokenCount = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))

/** Token prices of a model as configured; a class without a price costs as much as the class that contains it. */
export const Prices = Schema.Struct({
  ...classes,
  toolUses: Schema.optionalKey(ToolFees).pipe(
    Schema.annotateKey({
      description:
        "What each use of a tool costs that the provider runs, in US dollars; as the catalogue knows unless given"
    })
  ),
  longContext: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        aboveTokens: TokenCount.pipe(Schema.annotateKey({ description: "From more input tokens than this on" })),
        ...classes
      }).annotate({ identifier: "LongContextPrices" })
    ).pipe(Schema.check(Schema.isMaxLength(8)))
  ).pipe(Schema.annotateKey({ description: "Prices that long requests cost as a whole; none unless given" }))
}).annotate({
  identifier: "ModelPrices",
  description:
    "US dollars per million tokens; a request with more input than `aboveTokens` costs those prices as a whole; `toolUses` are US dollars a use"
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
  /** The dearest class of the input and of the output, of the basic rates and of each of the long ones. */
  readonly ceilings: ReadonlyArray<{ readonly aboveTokens: number; readonly input: bigint; readonly output: bigint }>
  /** Nano-dollars of a use; a tool that is missing has no known fee. */
  readonly toolFees: ToolFees
}
