import { Context, Effect, Layer, Redacted } from "effect"
import { Credentials } from "../credentials/registry/service.ts"
import { type Dialect, type ProviderApi } from "../formats/domain.ts"
import { dialects, spoken } from "../formats/registry/formats.ts"
import { ProviderClients } from "../providers/clients.ts"
import { makeHttpProvider } from "../providers/http-provider.ts"
import { LoopbackProvider } from "../providers/loopback.ts"
import { type Platform } from "../providers/platform.ts"
import { azurePlatform } from "../providers/platforms/azure.ts"
import { bedrockPlatform } from "../providers/platforms/bedrock.ts"
import { vertexLocation, vertexPlatform } from "../providers/platforms/vertex.ts"
import { type Provider } from "../providers/provider.ts"
import { type ConfiguredProvider, type GatewayDocument } from "./configuration-domain.ts"
import { loopbackProvider, type ConnectedProvider } from "./gateway-snapshot.ts"
import { ProviderKeys } from "./provider-keys.ts"
import { bearsCredential } from "./validate.ts"
import { vendorAt } from "./vendors-domain.ts"

/** Reasoning models may send nothing for minutes; this is half of a call's time, so that another target has the rest. */
const timeoutSecondsDefault = 300
const maxConcurrencyDefault = 1000
/** The time limit for testing a provider. */
const testTimeoutSeconds = 15

/** A dialect is named after the vendor whose own service has all of its APIs. */
const apisOf = (
  { apis, dialect }: ConfiguredProvider,
  vendor: string | undefined,
  platform: Platform | undefined
): ReadonlySet<ProviderApi> => {
  const speaks = spoken[dialect]
  const usual = vendor === speaks.dialect ? speaks.apis : speaks.usualApis
  return apis === undefined ? (platform?.apis ?? usual) : new Set(apis)
}

/** Where a provider is, and how it serves its dialect. */
type ProviderPlace = Pick<
  ConfiguredProvider,
  "apiVersion" | "baseUrl" | "dialect" | "platform" | "project" | "region" | "surface"
>

/** The form in which the cloud of a provider serves its dialect. */
const platformOf = ({
  apiVersion,
  baseUrl,
  dialect,
  platform,
  project = "",
  region = vertexLocation(baseUrl) ?? "",
  surface
}: ProviderPlace): Platform | undefined => {
  switch (platform) {
    case "azure":
      return azurePlatform(apiVersion)
    case "bedrock":
      return bedrockPlatform(baseUrl, surface, dialect)
    case "vertex":
      return vertexPlatform(spoken[dialect].dialect, { apiVersion: apiVersion ?? "v1", location: region, project })
    default:
      return undefined
  }
}

const defaultPorts: Readonly<Record<string, number>> = { "http:": 80, "https:": 443 }

const serverAt = ({ hostname, port, protocol }: URL) => ({
  address: hostname.replace(/^\[|\]$/g, ""),
  port: port === "" ? (defaultPorts[protocol] ?? 443) : Number(port)
})

/** Connects the providers of a configuration. */
export class Connections extends Context.Service<
  Connections,
  {
    /** The provider that needs no account. */
    readonly loopback: ConnectedProvider
    /** The providers of a configuration, and what some of them lack. */
    open(
      document: GatewayDocument
    ): Effect.Effect<{ readonly providers: ReadonlyArray<ConnectedProvider>; readonly warnings: ReadonlyArray<string> }>
    /** A provider at an address of a caller's choice, with the caller's own key. */
    guarded(at: ProviderPlace & { readonly dialect: Dialect }, apiKey: Redacted.Redacted<string> | undefined): Provider
  }
>()("app/gateway/Connections") {
  static readonly layerNoDeps = Layer.effect(
    Connections,
    Effect.gen(function* () {
      const clients = yield* ProviderClients
      const keys = yield* ProviderKeys
      const credentials = yield* Credentials
      const loopback = yield* LoopbackProvider

      const openOne = Effect.fnUntraced(function* (configured: ConfiguredProvider) {
        const { apiKey: reference, dialect, id, maxConcurrency = maxConcurrencyDefault } = configured
        const url = URL.parse(configured.baseUrl)
        const vendor = vendorAt(configured.baseUrl)
        const { mcpServers = [] } = configured
        const sharedIds = new Set(configured.sharedIds)
        const requestMembers = new Set(configured.requestMembers)
        const platform = platformOf(configured)
        const apis = apisOf(configured, vendor, platform)
        const speaks = spoken[dialect]
        const running = {
          id,
          maxConcurrency,
          vendor: vendor ?? id,
          speaks,
          platform: configured.platform,
          apis,
          mcpServers,
          requestMembers,
          sharedIds,
          costPath: configured.reportsCost?.split(".")
        }
        if (dialect === "loopback") {
          return { running: { ...running, provider: loopback }, warnings: [] }
        }
        const read = reference === undefined ? undefined : yield* keys.read(reference, configured.baseUrl)
        const { credential: given } = configured
        const changing = given === undefined || given.type === "key" ? undefined : given
        const credential =
          changing &&
          (yield* credentials.open(
            {
              id,
              baseUrl: configured.baseUrl,
              credential: changing,
              isDeployment: configured.apiVersion !== undefined
            },
            (secret, holds) => keys.read(secret, configured.baseUrl, holds)
          ))
        const headers: Record<string, string> = {}
        const warnings = read !== undefined && read.key === undefined ? [`Provider ${id}: ${read.warning}`] : []
        for (const [name, value] of Object.entries(configured.headers ?? {})) {
          const header = bearsCredential(name)
            ? yield* keys.read(value, configured.baseUrl)
            : { key: Redacted.make(value) }
          if (header.key === undefined) warnings.push(`Provider ${id}, header ${name}: ${header.warning}`)
          else headers[name] = Redacted.value(header.key)
        }
        if (given?.type === "key") {
          const key = yield* keys.read(given.value, configured.baseUrl)
          if (key.key === undefined) warnings.push(`Provider ${id}: ${key.warning}`)
          else headers[given.header] = Redacted.value(key.key)
        }
        const provider = makeHttpProvider(yield* clients.configured(configured.tlsCa), speaks, {
          id,
          baseUrl: configured.baseUrl,
          apiKey: read?.key,
          credential,
          platform,
          headers,
          timeoutSeconds: configured.timeoutSeconds ?? timeoutSecondsDefault
        })
        return {
          running: { ...running, provider, credential, server: url === null ? undefined : serverAt(url) },
          warnings
        }
      })

      return Connections.of({
        loopback: loopbackProvider(loopback),
        open: Effect.fn("Connections.open")(function* ({ providers = [] }) {
          const opened = yield* Effect.forEach(providers, openOne)
          yield* credentials.keepOnly(providers.flatMap(({ credential, id }) => (credential === undefined ? [] : [id])))
          return {
            providers: opened.map(({ running }) => running),
            warnings: opened.flatMap(({ warnings }) => warnings)
          }
        }),
        guarded: (at, apiKey) =>
          makeHttpProvider(clients.guarded, dialects[at.dialect], {
            id: "tested",
            baseUrl: at.baseUrl,
            platform: platformOf(at),
            apiKey,
            headers: {},
            timeoutSeconds: testTimeoutSeconds
          })
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.mergeAll(ProviderClients.layer, ProviderKeys.layer, Credentials.layer))
  )
}
