import { type Dialect } from "../translation/domain.ts"
import { factsOf, factsVersion, modelsOf } from "../catalog/catalogue.ts"
import { type ConfiguredModel, type GatewayDocument, type Strategy } from "./configuration-domain.ts"
import { rateTable } from "../catalog/cost.ts"
import { loopbackId, loopbackModel } from "../providers/loopback.ts"
import { type Provider, type ProviderApi } from "../providers/provider.ts"
import { type Prices, type RateTable } from "../catalog/rate-domain.ts"

/** A provider that calls can be sent to. */
export interface ConnectedProvider {
  readonly id: string
  readonly dialect: Dialect
  /** The vendor of its models, if known: the catalogue's facts then apply to them. */
  readonly vendor: string | undefined
  readonly maxConcurrency: number
  readonly apis: ReadonlySet<ProviderApi>
  /** Its address; undefined for the provider within this process. */
  readonly server?: { readonly address: string; readonly port: number } | undefined
  readonly provider: Provider
}

/** A provider that serves a model. */
export interface ModelTarget {
  readonly provider: ConnectedProvider
  readonly model: string
  readonly weight: number
  readonly priority: number
  /** Null if the price is unknown. */
  readonly rates: RateTable | null
}

/** A model that callers can request. */
export interface ServedModel {
  readonly id: string
  readonly aliases: ReadonlyArray<string>
  readonly kind: "chat" | "embedding"
  readonly targets: ReadonlyArray<ModelTarget>
  readonly contextTokens: number | null
  readonly maxOutputTokens: number | null
  readonly maxTokensPerSecond: number
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
  readonly routing: {
    readonly retries: number
    readonly timeoutSeconds: number
    readonly breakerFailures: number
    readonly breakerOpenSeconds: number
    readonly strategy: Strategy
  }
  readonly cache: { readonly ttlSeconds: number; readonly maxEntries: number }
  readonly warnings: ReadonlyArray<string>
}

/** What providers speak unless their configuration says otherwise. */
export const usualApis: ReadonlySet<ProviderApi> = new Set(["chat", "completions", "embeddings"])

/** The provider that exists in every configuration. */
export const loopbackProvider = (provider: Provider): ConnectedProvider => ({
  id: loopbackId,
  dialect: "openai",
  vendor: undefined,
  maxConcurrency: 100_000,
  apis: usualApis,
  provider
})

/** Tokens that a model writes in a second at most, unless its configuration names another figure. */
const defaultMaxTokensPerSecond = 500

/** The simulated price of the free loopback model, so that budgets can be tried with it. */
const loopbackPrices: Prices = { inputUsdPerMTok: 1_000_000_000n, outputUsdPerMTok: 2_000_000_000n }

const loopbackRunning = (provider: ConnectedProvider): ServedModel => ({
  id: loopbackModel,
  aliases: [],
  kind: "chat",
  targets: [{ provider, model: loopbackModel, weight: 1, priority: 0, rates: rateTable(loopbackPrices) }],
  contextTokens: 128_000,
  maxOutputTokens: 16_384,
  maxTokensPerSecond: defaultMaxTokensPerSecond,
  prices: loopbackPrices,
  capabilities: ["tools", "json-schema", "embeddings"],
  cached: false
})

const configured = (
  { aliases = [], cache, capabilities = [], ...model }: ConfiguredModel,
  providers: ReadonlyMap<string, ConnectedProvider>
): ServedModel => {
  const targets = model.targets.flatMap(({ model: name, priority = 0, provider: id, weight = 1 }) => {
    const provider = providers.get(id)
    if (provider === undefined) return []
    const facts = provider.vendor === undefined ? undefined : factsOf(provider.vendor, name)
    const prices = model.prices ?? facts?.prices ?? null
    return [{ facts, target: { provider, model: name, weight, priority, rates: prices && rateTable(prices) }, prices }]
  })
  const known = targets.flatMap(({ facts }) => (facts?.maxOutputTokens ? [facts.maxOutputTokens] : []))
  return {
    id: model.id,
    aliases,
    kind: model.kind,
    targets: targets.map(({ target }) => target),
    contextTokens: model.contextTokens ?? null,
    maxTokensPerSecond: model.maxTokensPerSecond ?? defaultMaxTokensPerSecond,
    maxOutputTokens: model.maxOutputTokens ?? (known.length > 0 ? Math.min(...known) : null),
    prices: targets[0]?.prices ?? null,
    capabilities,
    cached: cache ?? false
  }
}

/** The models of a provider that the catalogue knows, each under its own name. */
const catalogued = (providers: Iterable<ConnectedProvider>): ReadonlyArray<ServedModel> => {
  const models = new Map<string, ServedModel>()
  for (const provider of providers) {
    for (const { kind, maxOutputTokens, model, prices } of provider.vendor === undefined
      ? []
      : modelsOf(provider.vendor)) {
      // Anthropic's dialect has no embeddings, whatever the vendor.
      if (kind === "embedding" && provider.dialect === "anthropic") continue
      const target = { provider, model, weight: 1, priority: 0, rates: prices && rateTable(prices) }
      const known = models.get(model)
      models.set(
        model,
        known === undefined
          ? {
              id: model,
              aliases: [],
              kind,
              targets: [target],
              contextTokens: null,
              maxOutputTokens,
              maxTokensPerSecond: defaultMaxTokensPerSecond,
              prices,
              capabilities: [],
              cached: false
            }
          : { ...known, targets: [...known.targets, target] }
      )
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
  warnings: ReadonlyArray<string>
): GatewaySnapshot => {
  const providers = new Map([loopback, ...given].map((provider) => [provider.id, provider]))
  const own = (document.models ?? []).map((model) => configured(model, providers))
  const taken = new Set([loopbackModel, ...own.flatMap(({ aliases, id }) => [id, ...aliases])])
  const models = [loopbackRunning(loopback), ...own, ...catalogued(given).filter(({ id }) => !taken.has(id))]
  const names = new Map<string, ServedModel>()
  for (const model of models) {
    for (const { model: name, provider } of model.targets) {
      const target = model.targets.filter((one) => one.provider === provider && one.model === name)
      names.set(`${provider.id}/${name}`, { ...model, targets: target })
    }
  }
  for (const model of models) for (const name of [model.id, ...model.aliases]) names.set(name, model)
  const ceilings = new Map((document.providers ?? []).map(({ id, unlisted }) => [id, unlisted?.prices]))
  /** A model that is not listed, of a provider that serves any. */
  const unlisted = (name: string): ServedModel | undefined => {
    const [id = ""] = name.split("/", 1)
    const own = name.slice(id.length + 1)
    const provider = providers.get(id)
    const prices = ceilings.get(id)
    if (provider === undefined || prices === undefined || own === "") return undefined
    return {
      id: name,
      aliases: [],
      kind: "chat",
      targets: [{ provider, model: own, weight: 1, priority: 0, rates: rateTable(prices) }],
      contextTokens: null,
      maxOutputTokens: null,
      maxTokensPerSecond: defaultMaxTokensPerSecond,
      prices,
      capabilities: ["embeddings"],
      cached: false
    }
  }
  const { breaker, retries = 2, strategy = "priority", timeoutSeconds = 600 } = document.routing ?? {}
  const unpriced = own.flatMap(({ id, targets }) =>
    targets.some(({ rates }) => rates === null)
      ? [`Model ${id}: nobody knows what a target of it costs; it is refused where a cap in money applies.`]
      : []
  )
  const noSubscriptions =
    strategy === "subscription-first" ? ["Without subscriptions, subscription-first is the order of priority."] : []
  return {
    version,
    catalogueVersion: `${factsVersion}/${version ?? 0}`,
    providers,
    models,
    modelNamed: (name) => names.get(name) ?? unlisted(name),
    routing: {
      retries,
      timeoutSeconds,
      breakerFailures: breaker?.failures ?? 5,
      breakerOpenSeconds: breaker?.openSeconds ?? 30,
      strategy
    },
    cache: { ttlSeconds: document.cache?.ttlSeconds ?? 300, maxEntries: document.cache?.maxEntries ?? 1000 },
    warnings: [...warnings, ...unpriced, ...noSubscriptions]
  }
}
