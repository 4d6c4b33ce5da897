import { Schema } from "effect"
import { text } from "../../kernel/text.ts"
import { Prices, ToolFees } from "./rate-domain.ts"
import facts from "./model-prices.json" with { type: "json" }

/** Known facts about a vendor's model. */
export interface ModelFacts {
  readonly vendor: string
  readonly model: string
  readonly kind: "chat" | "embedding"
  readonly contextTokens: number | null
  readonly maxOutputTokens: number | null
  readonly prices: Prices | null
}

const optional = Schema.optionalKey
const describe = <S extends Schema.Top>(schema: S, description: string) =>
  schema.pipe(Schema.annotateKey({ description }))

const Vendor = Schema.String.pipe(
  Schema.check(Schema.isPattern(/^[a-z0-9][a-z0-9._-]{0,62}$/u, { expected: "1 to 63 of a-z, 0-9, '.', '_' and '-'" }))
).annotate({ examples: ["openai"] })
const Tokens = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))
const Source = text(1, 1000)
const Day = Schema.String.pipe(
  Schema.check(Schema.isPattern(/^\d{4}-\d{2}-\d{2}$/u, { expected: "a date, as 2026-11-22" }))
).annotate({ examples: ["2026-11-22"] })

const Fact = Schema.Struct({
  provider: describe(Vendor, "The vendor, or the id of a configured provider"),
  model: describe(text(1, 200).annotate({ examples: ["gpt-4o"] }), "The provider's own name for the model"),
  ...Prices.fields,
  inputUsdPerMTok: describe(
    optional(Prices.fields.inputUsdPerMTok),
    "Tokens that are read; the price of the model is not known unless given"
  ),
  contextTokens: describe(optional(Tokens), "The longest request that it takes"),
  maxOutputTokens: describe(optional(Tokens), "The longest answer that it gives"),
  source: describe(optional(Source), "Where the facts are from; the catalogue's source unless given")
}).annotate({ identifier: "CatalogueModel" })
type Fact = typeof Fact.Type

const ToolFact = Schema.Struct({
  provider: describe(Vendor, "The vendor, or the id of a configured provider"),
  ...ToolFees.fields,
  source: describe(optional(Source), "Where the fees are from; the catalogue's source unless given"),
  asOf: describe(optional(Day), "When they were read")
}).annotate({ identifier: "CatalogueTools" })

/** Facts about models and tools, in the form of the built-in catalogue. */
export const CatalogueDocument = Schema.Struct({
  source: describe(Source, "Where the facts are from"),
  asOf: describe(Day, "When they were read; part of the version that every charge names"),
  unit: optional(Schema.Literal("US dollars per million tokens")),
  models: Schema.Array(Fact).pipe(Schema.check(Schema.isMaxLength(20_000))),
  tools: describe(
    optional(Schema.Array(ToolFact).pipe(Schema.check(Schema.isMaxLength(1000)))),
    "What each use of a tool costs that a provider runs, in US dollars"
  )
}).annotate({
  identifier: "Catalogue",
  description: "What models cost, in US dollars per million tokens, and how long their requests and answers may be"
})
export type CatalogueDocument = typeof CatalogueDocument.Type

/** Models billed by more than text tokens, for which token prices alone would charge too little. */
const soldOtherwise =
  /realtime|audio|tts|whisper|transcribe|image|imagen|veo|video|dall-e|sora|search|sonar|online|deep-research|computer-use|moderation|live|^ft:|orpheus|playai/

const pricesOf = (fact: Fact): Prices | null => {
  const {
    contextTokens: _context,
    maxOutputTokens: _max,
    model: _model,
    provider: _provider,
    source: _,
    ...prices
  } = fact
  const { cacheReadUsdPerMTok, inputUsdPerMTok, ...rest } = prices
  if (inputUsdPerMTok === undefined) return null
  // A cache price above the input price is a storage price, not a price per token.
  const cacheRead =
    cacheReadUsdPerMTok === undefined || cacheReadUsdPerMTok > inputUsdPerMTok ? {} : { cacheReadUsdPerMTok }
  return { inputUsdPerMTok, ...rest, ...cacheRead }
}

/** Google lists the prices of one model under two names: up to a number of thousand tokens, and above it. */
const tiered = /^(.*)-(lte|gt)-(\d+)k$/

const gather = (all: ReadonlyArray<Fact>): Map<string, ModelFacts> => {
  const gathered = new Map<string, ModelFacts>()
  const above: Array<{ readonly key: string; readonly aboveTokens: number; readonly prices: Prices }> = []
  for (const fact of all) {
    const [, base = fact.model, side, thousands] = tiered.exec(fact.model) ?? []
    const key = keyOf(fact.provider, base)
    const kind = /embed|^ada-v2$/.test(base) ? "embedding" : "chat"
    const known = pricesOf(fact)
    const prices = kind === "chat" && known?.outputUsdPerMTok === undefined ? null : known
    if (side === "gt") {
      if (prices !== null) above.push({ key, aboveTokens: Number(thousands) * 1000, prices })
      continue
    }
    gathered.set(key, {
      vendor: fact.provider,
      model: base,
      kind,
      contextTokens: fact.contextTokens ?? null,
      maxOutputTokens: fact.maxOutputTokens ?? null,
      prices
    })
  }
  for (const { aboveTokens, key, prices } of above) {
    const model = gathered.get(key)
    if (model?.prices) {
      gathered.set(key, { ...model, prices: { ...model.prices, longContext: [{ aboveTokens, ...prices }] } })
    }
  }
  return gathered
}

const keyOf = (vendor: string, model: string) => `${vendor}/${model}`

/** What is known of models and tools. */
export interface Catalogue {
  /** Stored with every charge. */
  readonly version: string
  /** The known facts about a vendor's model. */
  readonly factsOf: (vendor: string, model: string) => ModelFacts | undefined
  /** All known models of a vendor. */
  readonly modelsOf: (vendor: string) => ReadonlyArray<ModelFacts>
  /** The fees of a vendor's tools. */
  readonly toolFeesOf: (vendor: string) => ToolFees | undefined
}

/** The catalogue that ships with the service. */
export const builtInDocument: CatalogueDocument = Schema.decodeUnknownSync(CatalogueDocument)(facts)

const builtInModels = gather(builtInDocument.models.filter(({ model }) => !soldOtherwise.test(model)))

/** The built-in catalogue with the facts of another one before its own, model by model and provider by provider. */
export const catalogueOf = (own?: CatalogueDocument): Catalogue => {
  const models = own === undefined ? builtInModels : new Map([...builtInModels, ...gather(own.models)])
  const fees = new Map(
    [...(builtInDocument.tools ?? []), ...(own?.tools ?? [])].map(
      ({ asOf: _asOf, provider, source: _source, ...tools }) => [provider, tools]
    )
  )
  const byVendor = Map.groupBy(models.values(), ({ vendor }) => vendor)
  return {
    version: own === undefined ? builtInDocument.asOf : `${builtInDocument.asOf}+${own.asOf}`,
    factsOf: (vendor, model) => models.get(keyOf(vendor, model)),
    modelsOf: (vendor) => byVendor.get(vendor) ?? [],
    toolFeesOf: (vendor) => fees.get(vendor)
  }
}

export const builtInCatalogue: Catalogue = catalogueOf()
