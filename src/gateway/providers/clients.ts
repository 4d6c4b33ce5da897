import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Context, Effect, Layer, Scope } from "effect"
import { lookup } from "node:dns"
import { isIP, type LookupFunction } from "node:net"
import { Settings } from "../../platform/settings/settings.ts"
import { isPublic } from "./addresses.ts"
import { exchange, type ExchangeRequest, makeDeadlines } from "./exchange.ts"
import { type ProviderAnswer, type ProviderFailure } from "./provider.ts"
import { fromTransport, transportError } from "./transport-failures.ts"

const maxConnectionsPerOrigin = 512
const connectTimeout = 10_000

const refusedAddress = () => transportError("Not a public address", "ERR_ADDRESS_REFUSED")

/** Resolves names to public addresses only. It runs for each connection, so a later DNS answer cannot bypass the check. */
const publicLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    const [first] = addresses ?? []
    if (error !== null || first === undefined) return callback(error ?? refusedAddress(), "", 0)
    if (!addresses.every(({ address }) => isPublic(address))) return callback(refusedAddress(), "", 0)
    if (options.all === true) callback(null, addresses)
    else callback(null, first.address, first.family)
  })
}

/** Checks an address that is an IP literal, which no lookup would see. */
const isWrittenOutPrivate = (origin: string): boolean => {
  const host = (URL.parse(origin)?.hostname ?? "").replace(/^\[|\]$/g, "")
  return isIP(host) !== 0 && !isPublic(host)
}

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

      const connect = Effect.fnUntraced(function* (options: {
        readonly ca?: string
        readonly lookup?: LookupFunction
      }) {
        const dispatcher = yield* NodeHttpClient.makeDispatcherOptions({
          connections: maxConnectionsPerOrigin,
          connect: { timeout: connectTimeout, ...options }
        }).pipe(Scope.provide(scope))
        const client: ProviderClient = { send: (request) => exchange(dispatcher, deadlines, request) }
        return client
      })

      const configured = Effect.fnUntraced(function* (tlsCa: string | undefined) {
        const client = known.get(tlsCa ?? "") ?? (yield* connect(tlsCa === undefined ? {} : { ca: tlsCa }))
        known.set(tlsCa ?? "", client)
        return client
      })

      const guarded = Effect.fnUntraced(function* () {
        const { send } = yield* connect({ lookup: publicLookup })
        const client: ProviderClient = {
          send: (request) =>
            isWrittenOutPrivate(request.origin) ? Effect.fail(fromTransport(refusedAddress())) : send(request)
        }
        return client
      })

      return ProviderClients.of({
        configured,
        guarded: llm.gateway.allowPrivateAddresses ? yield* configured(undefined) : yield* guarded()
      })
    })
  )
}
