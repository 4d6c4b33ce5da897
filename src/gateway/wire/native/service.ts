import { Clock, Context, DateTime, Effect, Layer, Redacted } from "effect"
import { CurrentPrincipal, Forbidden } from "../../../kernel/authority/principal.ts"
import { ValidationFailed } from "../../../kernel/problems/problems.ts"
import { type BrokenBound } from "../../broken-bounds/domain.ts"
import { BrokenBounds } from "../../broken-bounds/service.ts"
import { Connections } from "../../configuration/connections.ts"
import {
  type BreakerState,
  type CredentialHealth,
  type GatewayHealth,
  type GatewayModel,
  type ListedModel,
  type NamedProvider,
  type ProviderHealthReport,
  ProviderNotFound,
  type ProviderTest,
  ProviderTimeout,
  ProviderUnavailable
} from "../../configuration/domain.ts"
import { type ServedModel, type ConnectedProvider } from "../../configuration/gateway-snapshot.ts"
import { GatewayConfiguration } from "../../configuration/service.ts"
import { referenceOf } from "../../configuration/validate.ts"
import { vendorAt } from "../../configuration/vendors-domain.ts"
import { type CredentialState } from "../../providers/credential.ts"
import { type Provider, type ProviderFailure, unsupportedApi } from "../../providers/provider.ts"
import { Breakers } from "../../routing/breakers.ts"
import { ProviderHealth } from "../../routing/router.ts"

/** A provider that was not called for this long is tested before it is reported as healthy. */
const longestUnseen = 60_000
const checksAtOnce = 16

/** The available models and providers, and their health. */
export class Gateway extends Context.Service<
  Gateway,
  {
    readonly models: Effect.Effect<ReadonlyArray<GatewayModel>>
    readonly health: Effect.Effect<GatewayHealth>
    /** Tests a provider by requesting its models, which is free; a failure is a result, not an error. */
    test(named: NamedProvider): Effect.Effect<ProviderTest, Forbidden | ProviderNotFound | ValidationFailed>
    listModels(
      named: NamedProvider
    ): Effect.Effect<
      ReadonlyArray<ListedModel>,
      Forbidden | ProviderNotFound | ProviderTimeout | ProviderUnavailable | ValidationFailed
    >
  }
>()("app/gateway/Gateway") {
  static readonly layerNoDeps = Layer.effect(
    Gateway,
    Effect.gen(function* () {
      const bounds = yield* BrokenBounds
      const breakers = yield* Breakers
      const configuration = yield* GatewayConfiguration
      const connections = yield* Connections
      const statuses = yield* ProviderHealth

      const statesOf = (model: ServedModel) =>
        Effect.forEach(model.targets, ({ model: name, provider }) => breakers.state(provider.id, name))

      const shown = Effect.fnUntraced(function* (model: ServedModel) {
        const open = (yield* statesOf(model)).filter((state) => state === "open").length
        const providers = [...new Set(model.targets.map(({ provider }) => provider.id))]
        return {
          id: model.id,
          kind: model.kind,
          aliases: model.aliases,
          providers,
          contextTokens: model.contextTokens,
          maxOutputTokens: model.maxOutputTokens,
          prices: model.prices,
          capabilities: model.capabilities,
          status: open === 0 ? "available" : open === model.targets.length ? "unavailable" : "degraded"
        } as const
      })

      const ask = Effect.fnUntraced(function* (provider: Provider) {
        const startedAt = yield* Clock.currentTimeMillis
        const asked = yield* Effect.result(provider.listModels)
        return { asked, latencyMs: (yield* Clock.currentTimeMillis) - startedAt }
      })

      const look = Effect.fnUntraced(function* (running: ConnectedProvider) {
        const last = statuses.last(running)
        const now = yield* Clock.currentTimeMillis
        if (last !== undefined && now - last.at < longestUnseen) return
        const { asked, latencyMs } = yield* ask(running.provider)
        // Where no models are listed, calls alone show whether it is there.
        if (asked._tag === "Failure" && asked.failure.error.code === unsupportedApi) return
        statuses.record(
          running,
          asked._tag === "Success"
            ? { reachable: true, latencyMs, error: null }
            : { reachable: false, latencyMs, error: asked.failure.error.message }
        )
      })

      const healthOf = Effect.fnUntraced(function* (running: ConnectedProvider) {
        yield* look(running)
        const models = configuration.snapshot().models.flatMap(({ targets }) => targets)
        const own = models.filter(({ provider }) => provider === running)
        const states = yield* Effect.forEach(own, ({ model }) => breakers.state(running.id, model))
        const last = statuses.last(running)
        const now = yield* Clock.currentTimeMillis
        return {
          id: running.id,
          dialect: running.speaks.dialect,
          reachable: last?.reachable ?? null,
          breaker: worst(states),
          latencyMs: last?.latencyMs ?? null,
          lastError: last?.error ?? null,
          checkedAt: last === undefined ? null : DateTime.makeUnsafe(last.at),
          brokenBounds: bounds.overAt(running.id).map(shownBound),
          credential: running.credential === undefined ? null : credentialHealth(running.credential.state(), now)
        }
      })

      const health = Effect.gen(function* () {
        const providers = yield* Effect.forEach([...configuration.snapshot().providers.values()], healthOf, {
          concurrency: checksAtOnce
        })
        const sound = providers.filter(isSound).length
        const status = sound === providers.length ? "healthy" : sound > 0 ? "degraded" : "unhealthy"
        return { status, providers } as const
      }).pipe(Effect.withSpan("Gateway.health"))

      /** The provider that a caller specifies; one at its own address gets only its own key, never one of the gateway's. */
      const providerOf = Effect.fnUntraced(function* (named: NamedProvider) {
        const { kind } = yield* CurrentPrincipal
        const isKey = kind === "service-account" || kind === "api-key"
        if ("providerId" in named) {
          if (!isKey) {
            const detail =
              "A test of a configured provider uses its stored key, which a sign-in alone may not: send it with the service-account key or an API key of the installation, or test the address with a key of your own."
            return yield* new Forbidden({ missing: [], detail })
          }
          return configuration.snapshot().providers.get(named.providerId) ?? (yield* new ProviderNotFound({}))
        }
        if (!isKey && kind !== "account") {
          const detail = "Only the service account, API keys of the installation and people who are signed in may."
          return yield* new Forbidden({ missing: [], detail })
        }
        const { apiKey, baseUrl, id } = named
        if (apiKey !== undefined && referenceOf(apiKey).kind !== "literal") {
          const message = "With an address of your own, the key is given as it is: no reference is followed"
          return yield* new ValidationFailed({ errors: [{ path: ["payload", "apiKey"], message }] })
        }
        const key = apiKey === undefined ? undefined : Redacted.make(apiKey)
        return { provider: connections.guarded(named, key), vendor: vendorAt(baseUrl) ?? id }
      })

      const test = Effect.fn("Gateway.test")(function* (named: NamedProvider) {
        const { asked, latencyMs } = yield* ask((yield* providerOf(named)).provider)
        if (asked._tag === "Failure") {
          const { error, reason, received } = asked.failure
          const status = reason === "status" ? (received ?? error.status) : null
          return { ok: false, latencyMs, status, detail: error.message }
        }
        const models = asked.success
        const lacks = named.model !== undefined && !models.some(({ id }) => id === named.model)
        const detail = lacks
          ? `The provider answers, but does not list ${named.model}.`
          : `The provider lists ${models.length} models.`
        return { ok: !lacks, latencyMs, status: 200, detail }
      })

      const listModels = Effect.fn("Gateway.listModels")(function* (named: NamedProvider) {
        const { provider, vendor } = yield* providerOf(named)
        const models = yield* Effect.mapError(provider.listModels, problemOfProvider)
        const { factsOf } = configuration.snapshot()
        return models.map(({ createdAt, id, ownedBy }) => {
          const facts = vendor === undefined ? undefined : factsOf(vendor, id)
          return {
            id,
            ownedBy,
            createdAt: createdAt === null ? null : DateTime.makeUnsafe(createdAt),
            kind: facts?.kind ?? null,
            contextTokens: facts?.contextTokens ?? null,
            prices: facts?.prices ?? null
          }
        })
      })

      return Gateway.of({
        models: Effect.suspend(() => Effect.forEach(configuration.snapshot().models, shown)),
        health,
        test,
        listModels
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(Connections.layer))
}

const credentialHealth = (state: CredentialState, now: number): CredentialHealth => {
  const { expiresAt, failures, lastError, obtainedAt } = state
  const isValid = expiresAt !== undefined && now < expiresAt
  const failing = failures === 0 ? "unused" : "failed"
  return {
    status: isValid ? (failures === 0 ? "valid" : "stale") : failing,
    obtainedAt: obtainedAt === undefined ? null : DateTime.makeUnsafe(obtainedAt),
    expiresAt: expiresAt === undefined ? null : DateTime.makeUnsafe(expiresAt),
    failures,
    lastError: lastError ?? null
  }
}

const shownBound = ({ brokenAt: since, id, model, operation }: BrokenBound) => ({ id, model, operation, since })

const isSound = ({ breaker, brokenBounds, credential, reachable }: ProviderHealthReport): boolean =>
  reachable !== false && breaker === "closed" && brokenBounds.length === 0 && credential?.status !== "failed"

const worst = (states: ReadonlyArray<BreakerState>): BreakerState =>
  states.find((state) => state === "open") ?? states.find((state) => state === "half-open") ?? "closed"

const problemOfProvider = ({ error, reason }: ProviderFailure): ProviderTimeout | ProviderUnavailable =>
  reason === "timeout" ? new ProviderTimeout({}) : new ProviderUnavailable({ detail: error.message })
