import { Schema } from "effect"
import { type ModelKind, type ProviderApi } from "../formats/domain.ts"
import { type BetaFact, CatalogueDocument, type CatalogueFact as Fact, type FactorFact } from "./catalogue-domain.ts"
import { type TraitsOf, traitsByFamily } from "./families.ts"
import families from "./model-families.json" with { type: "json" }
import facts from "./model-prices.json" with { type: "json" }
import { type PriceFactor, type Prices, servedWhen, serviceKey, type ToolFees } from "./rate-domain.ts"

/** Known facts about a vendor's model. */
export interface ModelFacts {
  readonly vendor: string
  readonly model: string
  readonly kind: ModelKind
  readonly contextTokens: number | null
  readonly maxOutputTokens: number | null
  readonly prices: Prices | null
}

/** Prices by tokens: a time has none that a vendor could have. */
type TokenPrices = Prices & { readonly inputUsdPerMTok: bigint }

const pricesOf = (fact: Fact): TokenPrices | null => {
  const {
    apis: _apis,
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

/** Models whose price is not known as long as that of what they write is not. */
const writes: ReadonlySet<ModelKind> = new Set(["chat", "image"])

type MediaPrices = Partial<Prices>

/** The prices of media by model. */
const mediaIn = ({ media = [] }: Pick<CatalogueDocument, "media">): ReadonlyMap<string, MediaPrices> =>
  new Map(
    media.flatMap(({ asOf: _asOf, models, provider, source: _source, ...prices }) =>
      models.map((model) => [keyOf(provider, model), prices] as const)
    )
  )

const gather = (
  all: ReadonlyArray<Fact>,
  media: ReadonlyMap<string, MediaPrices>,
  traitsOf: TraitsOf
): Map<string, ModelFacts> => {
  const gathered = new Map<string, ModelFacts>()
  const above: Array<{ readonly key: string; readonly aboveTokens: number; readonly prices: TokenPrices }> = []
  for (const fact of all) {
    const [, base = fact.model, side, thousands] = tiered.exec(fact.model) ?? []
    const key = keyOf(fact.provider, base)
    const { kind = "chat" } = traitsOf(fact.provider, base)
    const own = pricesOf(fact)
    const known = own === null ? null : { ...media.get(key), ...own }
    const prices = writes.has(kind) && known?.outputUsdPerMTok === undefined ? null : known
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
  /** The APIs of a vendor's model, where it has not all of its provider's. */
  readonly apisOf: (vendor: string, model: string) => ReadonlyArray<ProviderApi> | undefined
  /** The fees of a vendor's tools. */
  readonly toolFeesOf: (vendor: string) => ToolFees | undefined
  /** What other services of a vendor's model cost. */
  readonly factorsOf: (vendor: string, model: string) => ReadonlyArray<PriceFactor>
  /** What a value of a vendor's beta header changes, if that is known. */
  readonly betaOf: (vendor: string, beta: string) => BetaFact | undefined
  /** What a model does, takes and refuses. */
  readonly traitsOf: TraitsOf
}

/** The catalogue that ships with the service. */
export const builtInDocument: CatalogueDocument = Schema.decodeUnknownSync(CatalogueDocument)({
  ...facts,
  ...families
})

const builtInMedia = mediaIn(builtInDocument)

const builtInFamilies = builtInDocument.families ?? []
const builtInTraits = traitsByFamily(builtInFamilies)
const builtInModels = gather(
  builtInDocument.models.filter(
    ({ model, provider }) =>
      builtInTraits(provider, model).soldOtherwise !== true || builtInMedia.has(keyOf(provider, model))
  ),
  builtInMedia,
  builtInTraits
)

const factorOf = ({ factor, prices, when }: FactorFact): PriceFactor => ({
  when,
  ...(factor === undefined ? {} : { factor }),
  ...(prices === undefined ? {} : { prices })
})

/** What services cost by vendor and by model; of the same service, what is written later goes before. */
const factorsIn = (all: ReadonlyArray<FactorFact>): Catalogue["factorsOf"] => {
  const found = new Map<string, Map<string, PriceFactor>>()
  for (const fact of all) {
    const { geo, speed, tier } = servedWhen(fact.when)
    for (const key of fact.models?.map((model) => keyOf(fact.provider, model)) ?? [fact.provider]) {
      const known = found.get(key) ?? new Map<string, PriceFactor>()
      found.set(key, known.set(serviceKey(tier, speed, geo), factorOf(fact)))
    }
  }
  return (vendor, model) => {
    const [ofVendor, ofModel] = [found.get(vendor), found.get(keyOf(vendor, model))]
    return [...new Map([...(ofVendor ?? []), ...(ofModel ?? [])]).values()]
  }
}

/**
 * The built-in catalogue with the facts of another one, of which this is a version, before its own: model by model, and
 * provider by provider.
 */
export const catalogueOf = (own?: CatalogueDocument, version: number = 0): Catalogue => {
  const traitsOf = own?.families === undefined ? builtInTraits : traitsByFamily([...builtInFamilies, ...own.families])
  const models =
    own === undefined
      ? builtInModels
      : new Map([...builtInModels, ...gather(own.models, new Map([...builtInMedia, ...mediaIn(own)]), traitsOf)])
  const fees = new Map(
    [...(builtInDocument.tools ?? []), ...(own?.tools ?? [])].map(
      ({ asOf: _asOf, provider, source: _source, ...tools }) => [provider, tools]
    )
  )
  const betas = new Map(
    [...(builtInDocument.betas ?? []), ...(own?.betas ?? [])].map((fact) => [keyOf(fact.provider, fact.beta), fact])
  )
  const apis = new Map(
    [...builtInDocument.models, ...(own?.models ?? [])].flatMap(({ apis, model, provider }) =>
      apis === undefined ? [] : [[keyOf(provider, model), apis]]
    )
  )
  const byVendor = Map.groupBy(models.values(), ({ vendor }) => vendor)
  return {
    version: own === undefined ? builtInDocument.asOf : `${builtInDocument.asOf}+${version}`,
    factsOf: (vendor, model) => models.get(keyOf(vendor, model)),
    modelsOf: (vendor) => byVendor.get(vendor) ?? [],
    apisOf: (vendor, model) => apis.get(keyOf(vendor, model)),
    factorsOf: factorsIn([...(builtInDocument.factors ?? []), ...(own?.factors ?? [])]),
    toolFeesOf: (vendor) => fees.get(vendor),
    betaOf: (vendor, beta) => betas.get(keyOf(vendor, beta)),
    traitsOf
  }
}

export const builtInCatalogue: Catalogue = catalogueOf()
