import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Context, Effect, Layer, Scope } from "effect"
import { HttpClient, HttpClientError } from "effect/http"
import { lookup } from "node:dns"
import { isIP, type LookupFunction } from "node:net"
import { Settings } from "../../platform/settings.ts"
import { isPublic } from "../addresses.ts"

const mostConnectionsPerOrigin = 512
const connectTimeout = 10_000

const refusedAddress = () => Object.assign(new Error("Not a public address"), { code: "ERR_ADDRESS_REFUSED" })

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
const checkingLiterals = (client: HttpClient.HttpClient) =>
  HttpClient.mapRequestEffect(client, (request) => {
    const host = (URL.parse(request.url)?.hostname ?? "").replace(/^\[|\]$/g, "")
    return isIP(host) === 0 || isPublic(host)
      ? Effect.succeed(request)
      : Effect.fail(
          new HttpClientError.HttpClientError({
            reason: new HttpClientError.TransportError({ request, cause: refusedAddress() })
          })
        )
  })

/** The connections to providers, which outlive every configuration. */
export class ProviderClients extends Context.Service<
  ProviderClients,
  {
    /** For addresses that the configuration names; with a certificate authority of its own where it says so. */
    configured(tlsCa: string | undefined): Effect.Effect<HttpClient.HttpClient>
    /** For addresses that a caller names: into no private network, whatever a name resolves to. */
    readonly guarded: HttpClient.HttpClient
  }
>()("app/llm/ProviderClients") {
  static readonly layer = Layer.effect(
    ProviderClients,
    Effect.gen(function* () {
      const { llm } = yield* Settings
      const scope = yield* Effect.scope
      const known = new Map<string, HttpClient.HttpClient>()

      const connect = Effect.fnUntraced(function* (options: {
        readonly ca?: string
        readonly lookup?: LookupFunction
      }) {
        const dispatcher = yield* NodeHttpClient.makeDispatcherOptions({
          connections: mostConnectionsPerOrigin,
          connect: { timeout: connectTimeout, ...options }
        }).pipe(Scope.provide(scope))
        return yield* Effect.provideService(NodeHttpClient.makeUndici, NodeHttpClient.Dispatcher, dispatcher)
      })

      const configured = Effect.fnUntraced(function* (tlsCa: string | undefined) {
        const client = known.get(tlsCa ?? "") ?? (yield* connect(tlsCa === undefined ? {} : { ca: tlsCa }))
        known.set(tlsCa ?? "", client)
        return client
      })

      return ProviderClients.of({
        configured,
        guarded: llm.gateway.allowPrivateAddresses
          ? yield* configured(undefined)
          : checkingLiterals(yield* connect({ lookup: publicLookup }))
      })
    })
  )
}
