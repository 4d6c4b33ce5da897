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

/** Resolves names to addresses of the public internet alone; asked for each connection, so no later answer slips by. */
const publicLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    const [first] = addresses ?? []
    if (error !== null || first === undefined) return callback(error ?? refusedAddress(), "", 0)
    if (!addresses.every(({ address }) => isPublic(address))) return callback(refusedAddress(), "", 0)
    if (options.all === true) callback(null, addresses)
    else callback(null, first.address, first.family)
  })
}

/** Looks at an address that is written out: nobody resolves it. */
const isWrittenOutPrivate = (origin: string): boolean => {
  const host = (URL.parse(origin)?.hostname ?? "").replace(/^\[|\]$/g, "")
  return isIP(host) !== 0 && !isPublic(host)
}

/** Where requests to providers go out. */
export interface ProviderClient {
  send(request: ExchangeRequest): Effect.Effect<ProviderAnswer, ProviderFailure, Scope.Scope>
}

/** The connections to providers, which outlive every configuration. */
export class ProviderClients extends Context.Service<
  ProviderClients,
  {
    /** For addresses that the configuration names; with a certificate authority of its own where it says so. */
    configured(tlsCa: string | undefined): Effect.Effect<ProviderClient>
    /** For addresses that a caller names: into no private network, whatever a name resolves to. */
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
