import { Schema } from "effect"
import { text } from "../../kernel/text.ts"
import { UsdOrZero } from "../../kernel/usd.ts"
import { type BilledTool, type MediaClass, type Served } from "../formats/domain.ts"
import { servedName } from "../formats/served-domain.ts"

/** US dollars per million tokens on the wire, nano-dollars (`bigint`) within. */
export const UsdPerMTok = UsdOrZero.annotate({ examples: [2_500_000_000n] })

const price = (description: string) => Schema.optionalKey(UsdPerMTok).pipe(Schema.annotateKey({ description }))

const classes = {
  inputUsdPerMTok: UsdPerMTok.pipe(Schema.annotateKey({ description: "Tokens that are read" })),
  outputUsdPerMTok: price("Tokens that are written; nothing unless given"),
  cacheReadUsdPerMTok: price("Tokens read from the provider's cache; as input unless given"),
  cacheWriteUsdPerMTok: price(
    "Tokens written into the provider's cache; unless given as input, or 1.25 times that in Anthropic's format"
  ),
  cacheWrite1hUsdPerMTok: price(
    "Tokens written there for an hour; twice the input unless given, or as input where no price of writing is"
  ),
  reasoningUsdPerMTok: price("Tokens of reasoning; as output unless given")
}

const input = "as input unless given"
const output = "as output unless given"

/** Prices of what is not text; each class is a part of one of the others. */
export const mediaClasses = {
  audioInputUsdPerMTok: price(`Audio that is read; ${input}`),
  audioCacheReadUsdPerMTok: price("Audio read from the provider's cache; as audio that is read unless given"),
  audioOutputUsdPerMTok: price(`Audio that is written; ${output}`),
  imageInputUsdPerMTok: price(`Images that are read; ${input}`),
  imageCacheReadUsdPerMTok: price("Images read from the provider's cache; as images that are read unless given"),
  imageOutputUsdPerMTok: price(`Images that are written; ${output}`),
  videoInputUsdPerMTok: price(`Video that is read; ${input}`),
  videoCacheReadUsdPerMTok: price("Video read from the provider's cache; as video that is read unless given"),
  videoOutputUsdPerMTok: price(`Video that is written; ${output}`)
} satisfies Record<`${MediaClass}UsdPerMTok`, unknown>

const fee = (description: string) =>
  Schema.optionalKey(UsdOrZero.annotate({ examples: [10_000_000n] })).pipe(Schema.annotateKey({ description }))

/** Fees of the tools that a provider runs. */
export const ToolFees = Schema.Struct({
  webSearch: fee("A web search"),
  codeExecution: fee("A container in which code runs"),
  fileSearch: fee("A search in stored files"),
  imageGeneration: fee("An image that is generated"),
  webSearchUnit: Schema.optionalKey(Schema.Literals(["use", "request"])).pipe(
    Schema.annotateKey({
      description: "Whether each search has a fee, or each request that has any; `use` unless given"
    })
  )
} satisfies Record<BilledTool | "webSearchUnit", unknown>).annotate({ identifier: "ToolFees" })
export type ToolFees = typeof ToolFees.Type

const unitPrice = (description: string, example: bigint) =>
  Schema.optionalKey(UsdOrZero.annotate({ examples: [example] })).pipe(Schema.annotateKey({ description }))

const ImagePrice = Schema.Struct({
  size: Schema.optionalKey(text(1, 63).annotate({ examples: ["1024x1024"] })).pipe(
    Schema.annotateKey({ description: "Any unless given" })
  ),
  quality: Schema.optionalKey(text(1, 63).annotate({ examples: ["hd"] })).pipe(
    Schema.annotateKey({ description: "Any unless given" })
  ),
  usd: UsdOrZero.annotate({ examples: [40_000_000n] }).pipe(Schema.annotateKey({ description: "An image" }))
}).annotate({ identifier: "ImagePrice" })

/** Prices of units other than tokens. */
export const unitPrices = {
  requestUsd: unitPrice("A request, besides all else", 5_000_000n),
  searchUnitUsd: unitPrice("A search unit, as rerankers are billed by: a query with up to 100 documents", 2_000_000n),
  characterUsd: unitPrice("A character of a text that is spoken", 15_000n),
  audioSecondUsd: unitPrice("A second of audio", 100_000n),
  pageUsd: unitPrice("A page of a document", 1_000_000n),
  image: Schema.optionalKey(Schema.Array(ImagePrice).pipe(Schema.check(Schema.isMaxLength(100)))).pipe(
    Schema.annotateKey({
      description:
        "An image that is made, by its size and quality; the dearest of those that may be meant, or of all where none is"
    })
  )
}

const TokenCount = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))

const longContext = Schema.optionalKey(
  Schema.Array(
    Schema.Struct({
      aboveTokens: TokenCount.pipe(Schema.annotateKey({ description: "From more input tokens than this on" })),
      ...classes
    }).annotate({ identifier: "LongContextPrices" })
  ).pipe(Schema.check(Schema.isMaxLength(8)))
).pipe(Schema.annotateKey({ description: "Prices that long requests cost as a whole; none unless given" }))

const dimensions = ["tier", "speed", "geo"] as const satisfies ReadonlyArray<keyof Served>

const nameOf = (description: string, examples: readonly [string, ...ReadonlyArray<string>]) =>
  Schema.optionalKey(text(1, 63).annotate({ examples })).pipe(Schema.annotateKey({ description }))

/** What an answer names of its service for a factor to apply; the usual service has the model's own prices. */
const ServedWhen = Schema.Struct({
  tier: nameOf("The tier, as `flex`, `priority` or `batch`; `fast` is `priority`", ["flex"]),
  speed: nameOf("The speed, as `fast`", ["fast"]),
  geo: nameOf("Where the model runs, as `us`", ["us"])
})
  .pipe(
    Schema.check(
      Schema.makeFilter(
        (when: { readonly [Dimension in keyof Served]?: string }) => {
          const given = dimensions.filter((dimension) => when[dimension] !== undefined)
          const names = given.map((dimension) => servedName(dimension, when[dimension]))
          return names.length > 0 && !names.includes(undefined) && !names.includes("other")
        },
        { expected: "a tier, a speed or a geography other than the usual one" }
      )
    )
  )
  .annotate({ component: "ServedWhen" })

/** The service of a factor, with the names that answers are read by. */
export const servedWhen = (when: Served): Served =>
  Object.fromEntries(
    dimensions.flatMap((dimension) => {
      const name = servedName(dimension, when[dimension])
      return name === undefined ? [] : [[dimension, name] as const]
    })
  )

/** The key of a service in a table of rates: the names of its dimensions, and nothing where a dimension is as usual. */
export const serviceKey = (tier = "", speed = "", geo = ""): string => `${tier} ${speed} ${geo}`

/** Multiplied in ten-thousandths where it is multiplied. */
const Factor = Schema.Finite.pipe(
  Schema.check(
    Schema.isBetween({ minimum: 0, maximum: 1000 }),
    Schema.makeFilter((factor: number) => Number(factor.toFixed(4)) === factor, {
      expected: "a number with at most four decimals"
    })
  )
).annotate({ examples: [0.5] })

/** What a service other than the usual one costs. */
export const PriceFactor = Schema.Struct({
  when: ServedWhen.pipe(Schema.annotateKey({ description: "What the answer names, all of it" })),
  factor: Schema.optionalKey(Factor).pipe(
    Schema.annotateKey({ description: "What all prices of tokens are multiplied by; or `prices`" })
  ),
  prices: Schema.optionalKey(
    Schema.Struct({ ...classes, ...mediaClasses, longContext }).annotate({ identifier: "ServicePrices" })
  ).pipe(Schema.annotateKey({ description: "The prices in the place of the model's; or `factor`" }))
})
  .pipe(
    Schema.check(
      Schema.makeFilter(({ factor, prices }) => (factor === undefined) !== (prices === undefined), {
        expected: "either a factor or prices"
      })
    )
  )
  .annotate({ identifier: "PriceFactor" })
export type PriceFactor = typeof PriceFactor.Type

/** A GPU that an operator pays by the hour, whose time is spread over the calls that it runs at once. */
export const GpuHour = Schema.Struct({
  usd: UsdOrZero.annotate({ examples: [4_000_000_000n] }).pipe(
    Schema.annotateKey({ description: "What an hour of it costs, in US dollars" })
  ),
  slots: Schema.Int.pipe(
    Schema.check(Schema.isBetween({ minimum: 1, maximum: 100_000 })),
    Schema.annotateKey({ description: "How many calls run on it at once: a call is charged this part of its time" })
  )
}).annotate({ identifier: "GpuHour" })
export type GpuHour = typeof GpuHour.Type

/** Prices of a model as configured; a class of tokens without a price costs as much as the class that contains it. */
export const Prices = Schema.Struct({
  ...classes,
  inputUsdPerMTok: Schema.optionalKey(UsdPerMTok).pipe(
    Schema.annotateKey({ description: "Tokens that are read; needed unless `gpuHour` is given" })
  ),
  gpuHour: Schema.optionalKey(GpuHour).pipe(
    Schema.annotateKey({
      description:
        "Of a model of one's own, in the place of all other prices: the time that calls take at the provider, as a part of a GPU's. A call holds that of `routing.timeoutSeconds`"
    })
  ),
  ...mediaClasses,
  ...unitPrices,
  toolUses: Schema.optionalKey(ToolFees).pipe(
    Schema.annotateKey({
      description:
        "What each use of a tool costs that the provider runs, in US dollars; as the catalogue knows unless given"
    })
  ),
  longContext,
  factors: Schema.optionalKey(
    Schema.Array(PriceFactor).pipe(
      Schema.check(
        Schema.isMaxLength(16),
        Schema.makeFilter(
          (factors: ReadonlyArray<PriceFactor>) => {
            const keys = factors.map(({ when }) => servedWhen(when))
            return new Set(keys.map(({ geo, speed, tier }) => serviceKey(tier, speed, geo))).size === factors.length
          },
          { expected: "each service once" }
        )
      )
    )
  ).pipe(
    Schema.annotateKey({
      description:
        "What other tiers, speeds and geographies cost, by what the answer names. Those that apply multiply, but one that names several of them goes before those of each. As the catalogue knows unless given"
    })
  )
})
  .pipe(
    Schema.check(
      Schema.makeFilter(
        (prices: { readonly gpuHour?: GpuHour; readonly inputUsdPerMTok?: bigint }) =>
          prices.gpuHour === undefined ? prices.inputUsdPerMTok !== undefined : Object.keys(prices).length === 1,
        { expected: "either `inputUsdPerMTok`, with other prices or without, or `gpuHour` alone" }
      )
    )
  )
  .annotate({
    identifier: "ModelPrices",
    description:
      "US dollars per million tokens; a request with more input than `aboveTokens` costs those prices as a whole; `toolUses` are US dollars a use, what names another unit is US dollars a unit, and `gpuHour` is the time of a GPU"
  })
export type Prices = typeof Prices.Type

/** Nano-dollars of each unit that has a price. */
export type UnitRates = Pick<Prices, keyof typeof unitPrices>

/** Nano-dollars per million tokens of each class; of a medium only where it has a price of its own. */
export interface Rates extends Readonly<Partial<Record<MediaClass, bigint>>> {
  readonly input: bigint
  readonly output: bigint
  readonly cacheRead: bigint
  readonly cacheWrite: bigint
  readonly cacheWrite1h: bigint
  readonly reasoning: bigint
}

/** The dearest class of requests that are longer than `aboveTokens`, of text and with all media. */
export interface Ceiling {
  readonly aboveTokens: number
  readonly input: bigint
  readonly output: bigint
  readonly mediaInput: bigint
  readonly mediaOutput: bigint
  readonly hasMedia: boolean
}

/** The rates of a service: the basic ones, and those of long requests with the longest first. */
export interface RateSet {
  readonly basic: Rates
  readonly longContext: ReadonlyArray<{ readonly aboveTokens: number; readonly rates: Rates }>
  /** Of the basic rates and of each of the long ones. */
  readonly ceilings: ReadonlyArray<Ceiling>
}

/** The rates of a model; its own members are those of the usual service. */
export interface RateTable extends RateSet {
  /** Nano-dollars of a use; a tool that is missing has no known fee. */
  readonly toolFees: ToolFees
  /** Undefined where only tokens and tools cost something. */
  readonly unitRates?: UnitRates | undefined
  /** Where the time of calls is charged, and nothing else. */
  readonly gpuHour?: GpuHour | undefined
  /** Those of other services, where they have some. */
  readonly services?: ServiceRates | undefined
}

/** The rates of services other than the usual one. */
export interface ServiceRates {
  /** The names that have a price, of each dimension. */
  readonly names: { readonly [Dimension in keyof Served]-?: ReadonlySet<string> }
  /** By `serviceKey`; `*` is the dearest of a dimension. */
  readonly sets: ReadonlyMap<string, RateSet>
}
