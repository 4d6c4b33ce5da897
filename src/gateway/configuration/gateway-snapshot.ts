import { builtInCatalogue, type Catalogue, type ModelFacts } from "../catalog/catalogue.ts"
import { rateTable } from "../catalog/cost.ts"
import { type Prices, type RateTable } from "../catalog/rate-domain.ts"
import { type ModelKind, ownApis, type PromptCache, type ProviderApi } from "../formats/domain.ts"
import { type VendorDialect } from "../formats/format.ts"
import { openAiDialect } from "../formats/openai-chat/format.ts"
import { type ModelTraits, noTraits } from "../formats/traits-domain.ts"
import { type Credential } from "../providers/credential.ts"
import { loopbackId, loopbackImageTokens, loopbackModel } from "../providers/loopback.ts"
import { type Provider } from "../providers/provider.ts"
import { type ConfiguredModel, type GatewayDocument, type Strategy } from "./configuration-domain.ts"
import { type AllowedMcpServer } from "./configuration-domain.ts"
import { type ProviderPlatform } from "./domain.ts"

/** A provider that calls can be sent to. */
export interface ConnectedProvider {
  readonly id: string
  readonly speaks: VendorDialect
  /** The vendor of its models, if known: the catalogue's facts then apply to them. */
  readonly vendor: string | undefined
  readonly maxConcurrency: number
  readonly apis: ReadonlySet<ProviderApi>
  /** The MCP servers that it may use in calls under hard caps. */
  readonly mcpServers: ReadonlyArray<AllowedMcpServer>
  /** Members that requests to it may have under hard caps, besides those that are known to be bounded; none if undefined. */
  readonly requestMembers?: ReadonlySet<string> | undefined
  /** The path of the cost that its answers report, where that is charged. */
  readonly costPath?: ReadonlyArray<string> | undefined
  /** Ids of what it keeps that every caller may use; none if undefined. */
  readonly sharedIds?: ReadonlySet<string> | undefined
  /** The cloud that serves it in its own way, if one does. */
  readonly platform?: ProviderPlatform | undefined
  /** Its address; undefined for the provider within this process. */
  readonly server?: { readonly address: string; readonly port: number } | undefined
  readonly provider: Provider
  /** What authorizes its requests, where that is not a key. */
  readonly credential?: Credential | undefined
}

/** A provider that serves a model. */
export interface ModelTarget {
  readonly provider: ConnectedProvider
  readonly model: string
  /** Whether the configuration or the catalogue has it; else a caller chose its name. */
  readonly isListed: boolean
  /** What the catalogue knows of the model. */
  readonly traits: ModelTraits
  /** What it speaks: by its configuration, or what the catalogue knows of the model, or else all that its provider does. */
  readonly apis: ReadonlySet<ProviderApi>
  /** Which marks its requests get for a cache; the format's default if undefined. */
  readonly promptCache?: PromptCache | undefined
  readonly weight: number
  readonly priority: number
  /** Null if the price is unknown. */
  readonly rates: RateTable | null
}

/** A model that callers can request. */
export interface ServedModel {
  readonly id: string
  readonly aliases: ReadonlyArray<string>
  readonly kind: ModelKind
  readonly targets: ReadonlyArray<ModelTarget>
  readonly contextTokens: number | null
  readonly maxOutputTokens: number | null
  readonly maxTokensPerSecond: number
  /** The most that the result of one use of a provider's tool adds to its input. */
  readonly maxTokensPerToolUse: number
  readonly prices: Prices | null
  readonly capabilities: ReadonlyArray<string>
  readonly cached: boolean
}

/** The active configuration, with every default filled in. */
export interface GatewaySnapshot {
  /** Null if none was ever saved. */
  readonly version: number | null
  /** The version of the prices; stored with every charge. */
  readonly catalogueVersion: string
  readonly providers: ReadonlyMap<string, ConnectedProvider>
  readonly models: ReadonlyArray<ServedModel>
  /** By any of its names: its id, an alias, or a provider's id with the provider's own name for it, even if unlisted. */
  readonly modelNamed: (name: string) => ServedModel | undefined
  /** The prices of a model by its provider and that one's name for it: an operator's own first, then the catalogue's. */
  readonly ratesOf: (provider: string, model: string) => RateTable | undefined
  readonly routing: {
    readonly retries: number
    readonly timeoutSeconds: number
    readonly breakerFailures: number
    readonly breakerOpenSeconds: number
    readonly strategy: Strategy
    /** Whether the calls of a session keep to one target. */
    readonly isSticky: boolean
  }
  readonly cache: { readonly ttlSeconds: number; readonly maxEntries: number }
  readonly betaOf: Catalogue["betaOf"]
  readonly factsOf: Catalogue["factsOf"]
  readonly warnings: ReadonlyArray<string>
}

/** The provider that exists in every configuration. */
export const loopbackProvider = (provider: Provider): ConnectedProvider => ({
  id: loopbackId,
  speaks: openAiDialect,
  vendor: undefined,
  maxConcurrency: 100_000,
  apis: new Set([...openAiDialect.usualApis, "realtime"]),
  mcpServers: [],
  provider
})

/** Tokens that a model writes in a second at most, unless its configuration names another figure. */
const defaultMaxTokensPerSecond = 500
/** Tokens of a result of a provider's tool at most, unless its configuration names another figure: several pages. */
const defaultMaxTokensPerToolUse = 10_000

/** The simulated price of the free loopback model, so that budgets can be tried with it. */
const loopbackPrices: Prices = { inputUsdPerMTok: 1_000_000_000n, outputUsdPerMTok: 2_000_000_000n }

/** The APIs of a target. What an operator says of the provider goes before what the catalogue says of the model. */
const apisOf = (
  { apis, vendor }: ConnectedProvider,
  model: string,
  catalogue: Catalogue,
  own?: ReadonlyArray<ProviderApi>
): ReadonlySet<ProviderApi> => {
  if (own !== undefined) return new Set(own)
  const known = (vendor === undefined ? undefined : catalogue.apisOf(vendor, model))?.filter((api) => apis.has(api))
  return known === undefined || known.length === 0 ? apis : new Set(known)
}

const loopbackRunning = (provider: ConnectedProvider): ServedModel => ({
  id: loopbackModel,
  aliases: [],
  kind: "chat",
  targets: [
    {
      provider,
      model: loopbackModel,
      isListed: true,
      traits: { ...noTraits, outputImages: [{ tokens: loopbackImageTokens }], audioTokensPerSecond: 1 },
      apis: provider.apis,
      weight: 1,
      priority: 0,
      rates: rateTable(loopbackPrices)
    }
  ],
  contextTokens: 128_000,
  maxOutputTokens: 16_384,
  maxTokensPerSecond: defaultMaxTokensPerSecond,
  maxTokensPerToolUse: defaultMaxTokensPerToolUse,
  prices: loopbackPrices,
  capabilities: [
    "tools",
    "json-schema",
    "embeddings",
    "moderations",
    "rerank",
    "speech",
    "images",
    "transcriptions",
    "realtime"
  ],
  cached: false
})

/**
 * A price with the fees of the provider's tools, and the factors of the model's other services, which the catalogue knows
 * unless the price has its own.
 */
const completed = (
  prices: Prices | null,
  catalogue: Catalogue,
  vendor: string | undefined,
  model: string
): Prices | null => {
  if (prices === null || vendor === undefined || prices.gpuHour !== undefined) return prices
  const toolUses = catalogue.toolFeesOf(vendor)
  const factors = prices.factors ?? catalogue.factorsOf(vendor, model)
  return {
    ...prices,
    ...(toolUses === undefined ? {} : { toolUses: { ...toolUses, ...prices.toolUses } }),
    ...(factors === undefined || factors.length === 0 ? {} : { factors })
  }
}

/** The rates of a model at a provider; null if they are not known. */
const ratesAt = ({ speaks }: ConnectedProvider, prices: Prices | null): RateTable | null =>
  prices && rateTable(prices, { writesCostMore: speaks.cacheWritesCostMore === true })

/** What is known of a model whose provider may call it anything: its images count as those of the names that callers use. */
const withImagesOf = (names: ReadonlyArray<string>, traits: ModelTraits, { traitsOf }: Catalogue): ModelTraits => {
  const imageTokens = names.flatMap((name) => traitsOf(undefined, name).imageTokens ?? [])
  return imageTokens.length === 0
    ? traits
    : { ...traits, imageTokens: Math.max(traits.imageTokens ?? 0, ...imageTokens) }
}
/** Prices that are the most that any model costs: what the catalogue knows of one is no part of them. */
const withoutFactors = (prices: Prices | undefined): Prices | null =>
  prices === undefined || prices.gpuHour !== undefined ? (prices ?? null) : { factors: [], ...prices }

const configured = (
  { aliases = [], cache, capabilities = [], promptCache, ...model }: ConfiguredModel,
  providers: ReadonlyMap<string, ConnectedProvider>,
  catalogue: Catalogue
): ServedModel => {
  const targets = model.targets.flatMap(({ apis: own, model: name, priority = 0, provider: id, weight = 1 }) => {
    const provider = providers.get(id)
    if (provider === undefined) return []
    const facts = provider.vendor === undefined ? undefined : catalogue.factsOf(provider.vendor, name)
    const traits = withImagesOf([model.id, ...aliases], catalogue.traitsOf(provider.vendor, name), catalogue)
    const prices = completed(model.prices ?? facts?.prices ?? null, catalogue, provider.vendor, name)
    const apis = apisOf(provider, name, catalogue, own)
    return [
      {
        facts,
        target: {
          provider,
          apis,
          model: name,
          isListed: true,
          traits,
          promptCache,
          weight,
          priority,
          rates: ratesAt(provider, prices)
        },
        prices
      }
    ]
  })
  const known = targets.flatMap(({ facts }) => (facts?.maxOutputTokens ? [facts.maxOutputTokens] : []))
  const contexts = targets.map(({ facts }) => facts?.contextTokens ?? null)
  return {
    id: model.id,
    aliases,
    kind: model.kind,
    targets: targets.map(({ target }) => target),
    contextTokens: model.contextTokens ?? longestOf(contexts),
    maxTokensPerSecond: model.maxTokensPerSecond ?? defaultMaxTokensPerSecond,
    maxTokensPerToolUse: model.maxTokensPerToolUse ?? defaultMaxTokensPerToolUse,
    maxOutputTokens: model.maxOutputTokens ?? (known.length > 0 ? Math.min(...known) : null),
    prices: targets[0]?.prices ?? null,
    capabilities,
    cached: cache ?? false
  }
}

/** The longest of some lengths; null if one of them is not known. */
const longestOf = (lengths: ReadonlyArray<number | null>): number | null => {
  const known = lengths.filter((length) => length !== null)
  return known.length === 0 || known.length < lengths.length ? null : Math.max(...known)
}

const servedModel = ({ contextTokens, kind, maxOutputTokens, model, prices }: ModelFacts): ServedModel => ({
  id: model,
  aliases: [],
  kind,
  targets: [],
  contextTokens,
  maxOutputTokens,
  maxTokensPerSecond: defaultMaxTokensPerSecond,
  maxTokensPerToolUse: defaultMaxTokensPerToolUse,
  prices,
  capabilities: [],
  cached: false
})

/** The models of a provider that the catalogue knows, each under its own name. */
const catalogued = (providers: Iterable<ConnectedProvider>, catalogue: Catalogue): ReadonlyArray<ServedModel> => {
  const models = new Map<string, ServedModel>()
  for (const provider of providers) {
    for (const facts of provider.vendor === undefined ? [] : catalogue.modelsOf(provider.vendor)) {
      // A dialect may have no such API, whatever the vendor.
      const own = ownApis[facts.kind]
      if (own !== undefined && !provider.speaks.apis.has(own)) continue
      const { model } = facts
      const prices = completed(facts.prices, catalogue, provider.vendor, model)
      const known = models.get(model) ?? servedModel({ ...facts, prices })
      const traits = catalogue.traitsOf(provider.vendor, model)
      const apis = apisOf(provider, model, catalogue)
      const rates = ratesAt(provider, prices)
      const target = { provider, model, isListed: true, apis, traits, weight: 1, priority: 0, rates }
      const contextTokens =
        known.targets.length === 0 ? facts.contextTokens : longestOf([known.contextTokens, facts.contextTokens])
      models.set(model, { ...known, contextTokens, targets: [...known.targets, target] })
    }
  }
  return [...models.values()]
}

/** Builds the snapshot that calls use from a valid configuration. */
export const gatewaySnapshot = (
  document: GatewayDocument,
  version: number | null,
  loopback: ConnectedProvider,
  given: ReadonlyArray<ConnectedProvider>,
  warnings: ReadonlyArray<string>,
  catalogue: Catalogue = builtInCatalogue
): GatewaySnapshot => {
  const providers = new Map([loopback, ...given].map((provider) => [provider.id, provider]))
  const own = (document.models ?? []).map((model) => configured(model, providers, catalogue))
  const closed = new Set((document.providers ?? []).flatMap(({ catalogue, id }) => (catalogue === false ? [id] : [])))
  const open = given.filter(({ id }) => !closed.has(id))
  const taken = new Set([loopbackModel, ...own.flatMap(({ aliases, id }) => [id, ...aliases])])
  const models = [loopbackRunning(loopback), ...own, ...catalogued(open, catalogue).filter(({ id }) => !taken.has(id))]
  const names = new Map<string, ServedModel>()
  const ratesByName = new Map<string, RateTable>()
  for (const model of models) {
    for (const { model: name, provider, rates } of model.targets) {
      const key = `${provider.id}/${name}`
      if (rates !== null && !ratesByName.has(key)) ratesByName.set(key, rates)
      const target = model.targets.filter((one) => one.provider === provider && one.model === name)
      names.set(key, { ...model, targets: target })
    }
  }
  for (const model of models) for (const name of [model.id, ...model.aliases]) names.set(name, model)
  const ceilings = new Map((document.providers ?? []).map(({ id, unlisted }) => [id, unlisted?.prices]))
  /** A model that is not listed, of a provider that serves any. */
  const unlisted = (name: string): ServedModel | undefined => {
    const [id = ""] = name.split("/", 1)
    const own = name.slice(id.length + 1)
    const provider = providers.get(id)
    const prices = completed(withoutFactors(ceilings.get(id)), catalogue, provider?.vendor, own)
    if (provider === undefined || prices === null || own === "") return undefined
    const traits = catalogue.traitsOf(provider.vendor, own)
    return {
      id: name,
      aliases: [],
      kind: "chat",
      targets: [
        {
          provider,
          model: own,
          isListed: false,
          apis: apisOf(provider, own, catalogue),
          traits,
          weight: 1,
          priority: 0,
          rates: ratesAt(provider, prices)
        }
      ],
      contextTokens: null,
      maxOutputTokens: null,
      maxTokensPerSecond: defaultMaxTokensPerSecond,
      maxTokensPerToolUse: defaultMaxTokensPerToolUse,
      prices,
      capabilities: ["embeddings"],
      cached: false
    }
  }
  const {
    affinity = "session",
    breaker,
    retries = 2,
    strategy = "priority",
    timeoutSeconds = 600
  } = document.routing ?? {}
  const unpriced = own.flatMap(({ id, targets }) =>
    targets.some(({ rates }) => rates === null)
      ? [`Model ${id}: the price of a target of it is not known; it is refused where a cap in money applies.`]
      : []
  )
  return {
    version,
    catalogueVersion: `${catalogue.version}/${version ?? 0}`,
    providers,
    models,
    modelNamed: (name) => names.get(name) ?? unlisted(name),
    ratesOf: (provider, name) => {
      const key = `${provider}/${name}`
      return ratesByName.get(key) ?? unlisted(key)?.targets[0]?.rates ?? undefined
    },
    routing: {
      retries,
      timeoutSeconds,
      breakerFailures: breaker?.failures ?? 5,
      breakerOpenSeconds: breaker?.openSeconds ?? 30,
      strategy,
      isSticky: affinity === "session"
    },
    cache: { ttlSeconds: document.cache?.ttlSeconds ?? 300, maxEntries: document.cache?.maxEntries ?? 1000 },
    betaOf: catalogue.betaOf,
    factsOf: catalogue.factsOf,
    warnings: [...warnings, ...unpriced]
  }
}
