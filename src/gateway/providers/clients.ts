import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { type Dispatcher } from "@effect/platform-node/Undici"
import { Context, Effect, Layer, Scope } from "effect"
import { makeGuardedDispatcher } from "../../platform/outbound/guarded-dispatcher.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { exchange, type ExchangeRequest, makeDeadlines } from "./exchange.ts"
import { type ProviderAnswer, type ProviderFailure } from "./provider.ts"

const maxConnectionsPerOrigin = 512
const connectTimeoutMillis = 10_000

/** Where requests to providers go out. */
export interface ProviderClient {
  send(request: ExchangeRequest): Effect.Effect<ProviderAnswer, ProviderFailure, Scope.Scope>
}

/** The connection pools for providers; they outlive every configuration. */
export class ProviderClients extends Context.Service<
  ProviderClients,
  {
    /** For addresses from the configuration; with a custom certificate authority if one is configured. */
    configured(tlsCa: string | undefined): Effect.Effect<ProviderClient>
    /** For addresses from a caller: private networks are unreachable, whatever a name resolves to. */
    readonly guarded: ProviderClient
  }
>()("app/gateway/ProviderClients") {
  static readonly layer = Layer.effect(
    ProviderClients,
    Effect.gen(function* () {
      const { llm } = yield* Settings
      const scope = yield* Effect.scope
      const deadlines = yield* makeDeadlines
      const known = new Map<string, ProviderClient>()

      const clientOf = (dispatcher: Dispatcher): ProviderClient => ({
        send: (request) => exchange(dispatcher, deadlines, request)
      })

      const configured = Effect.fnUntraced(function* (tlsCa: string | undefined) {
        const found = known.get(tlsCa ?? "")
        if (found !== undefined) return found
        const dispatcher = yield* NodeHttpClient.makeDispatcherOptions({
          connections: maxConnectionsPerOrigin,
          connect: { timeout: connectTimeoutMillis, ...(tlsCa === undefined ? {} : { ca: tlsCa }) }
        }).pipe(Scope.provide(scope))
        const client = clientOf(dispatcher)
        known.set(tlsCa ?? "", client)
        return client
      })

      return ProviderClients.of({
        configured,
        guarded: llm.gateway.allowPrivateAddresses
          ? yield* configured(undefined)
          : clientOf(yield* makeGuardedDispatcher({ connections: maxConnectionsPerOrigin, connectTimeoutMillis }))
      })
    })
  )
}
