import { type Dialect } from "../translation/domain.ts"
import { factsOf, factsVersion, modelsOf } from "../catalog/catalogue.ts"
import { type ConfiguredModel, type GatewayDocument, type Strategy } from "./configuration-domain.ts"
import { rateTable } from "../catalog/cost.ts"
import { loopbackId, loopbackModel } from "../providers/loopback.ts"
import { type Provider } from "../providers/provider.ts"
import { type Prices, type RateTable } from "../catalog/rate-domain.ts"

/** A provider that calls can go to. */
export interface ConnectedProvider {
  readonly id: string
  readonly dialect: Dialect
  /** Whose models it has, where that is known: then the catalogue's facts hold for them. */
  readonly vendor: string | undefined
  readonly maxConcurrency: number
  /** Where it is; nothing within this process. */
  readonly server?: { readonly address: string; readonly port: number } | undefined
  readonly provider: Provider
}

/** Where a model can be had. */
export interface ModelTarget {
  readonly provider: ConnectedProvider
  readonly model: string
  readonly weight: number
  readonly priority: number
  /** Null where nobody knows what it costs. */
  readonly rates: RateTable | null
}

/** A model that can be asked for. */
export interface ServedModel {
  readonly id: string
  readonly aliases: ReadonlyArray<string>
  readonly kind: "chat" | "embedding"
  readonly targets: ReadonlyArray<ModelTarget>
  readonly contextTokens: number | null
  readonly maxOutputTokens: number | null
  readonly prices: Prices | null
  readonly capabilities: ReadonlyArray<string>
  readonly cached: boolean
}

/** The configuration as it runs, with every default filled in. */
export interface GatewaySnapshot {
  /** Null where none was ever written. */
  readonly version: number | null
  /** Tells the prices apart from those of any other time; every charge keeps it. */
  readonly catalogueVersion: string
  readonly providers: ReadonlyMap<string, ConnectedProvider>
  readonly models: ReadonlyArray<ServedModel>
  /** By any name: its id, an alias, or a provider's id and the provider's own name for it. */
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

/** The provider that is there whatever the configuration says. */
export const loopbackProvider = (provider: Provider): ConnectedProvider => ({
  id: loopbackId,
  dialect: "openai",
  vendor: undefined,
  maxConcurrency: 100_000,
  provider
})

/** What the model that costs nothing pretends to cost, so that budgets can be tried with it. */
const loopbackPrices: Prices = { inputUsdPerMTok: 1_000_000_000n, outputUsdPerMTok: 2_000_000_000n }

const loopbackRunning = (provider: ConnectedProvider): ServedModel => ({
  id: loopbackModel,
  aliases: [],
  kind: "chat",
  targets: [{ provider, model: loopbackModel, weight: 1, priority: 0, rates: rateTable(loopbackPrices) }],
  contextTokens: 128_000,
  maxOutputTokens: 16_384,
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
    maxOutputTokens: model.maxOutputTokens ?? (known.length > 0 ? Math.min(...known) : null),
    prices: targets[0]?.prices ?? null,
    capabilities,
    cached: cache ?? false
  }
}

/** The models that the catalogue knows of a provider, each by its own name. */
const catalogued = (providers: Iterable<ConnectedProvider>): ReadonlyArray<ServedModel> => {
  const models = new Map<string, ServedModel>()
  for (const provider of providers) {
    for (const { kind, maxOutputTokens, model, prices } of provider.vendor === undefined
      ? []
      : modelsOf(provider.vendor)) {
      // Anthropic's dialect has no embeddings, whoever is behind it.
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

/** Puts a valid configuration into the form that calls are made by. */
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
    modelNamed: (name) => names.get(name),
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
