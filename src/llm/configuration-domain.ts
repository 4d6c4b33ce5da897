import { Schema } from "effect"
import { auditActions } from "../kernel/audit-action.ts"
import { Uuid } from "../kernel/identifier.ts"
import { text } from "../kernel/text.ts"
import { ApiKey, BaseUrl, ModelKind, ModelName, ProviderId } from "./domain.ts"
import { Prices } from "./rate-domain.ts"

export const SecretId = Uuid.pipe(Schema.brand("GatewaySecretId"))
export type SecretId = typeof SecretId.Type

/** Which wire format a configured provider speaks; `loopback` is the one within this process. */
export const ProviderDialect = Schema.Literals(["openai", "anthropic", "loopback"]).annotate({ examples: ["openai"] })
export type ProviderDialect = typeof ProviderDialect.Type

/** Headers that say who calls, or that belong to the connection. */
const reserved =
  /^(?:authorization|x-api-key|cookie|set-cookie|host|connection|content-length|content-type|transfer-encoding|te|upgrade|proxy-.*|keep-alive|trailer|expect)$/i

const HeaderName = Schema.String.pipe(
  Schema.check(
    Schema.makeFilter((name: string) => /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/.test(name) && !reserved.test(name), {
      expected: "the name of a header that is neither the connection's nor a credential's (that is apiKey)"
    })
  )
)
const HeaderValue = Schema.String.pipe(
  Schema.check(Schema.isPattern(/^[\x20-\x7e]{0,4096}$/u, { expected: "visible ASCII" }))
)

const between = (minimum: number, maximum: number) =>
  Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum, maximum })))
const optional = Schema.optionalKey
const Tokens = between(1, 2_147_483_647)

export const ConfiguredProvider = Schema.Struct({
  id: ProviderId,
  dialect: ProviderDialect,
  baseUrl: BaseUrl,
  apiKey: optional(ApiKey),
  headers: optional(Schema.Record(HeaderName, HeaderValue).annotate({ examples: [{ "openai-project": "main" }] })),
  timeoutSeconds: optional(between(1, 3600)).pipe(
    Schema.annotateKey({ description: "Until the first byte of an answer and between any two; 120 unless given" })
  ),
  maxConcurrency: optional(between(1, 100_000)).pipe(
    Schema.annotateKey({ description: "Calls at once; as many more wait; 1,000 unless given" })
  ),
  tlsCa: optional(
    text(1, 100_000).annotate({ description: "Certificate authorities (PEM) in the place of the system's" })
  )
}).annotate({ identifier: "ConfiguredProvider" })
export type ConfiguredProvider = typeof ConfiguredProvider.Type

export const ConfiguredTarget = Schema.Struct({
  provider: ProviderId,
  model: ModelName.annotate({ description: "The provider's own name for it" }),
  weight: optional(between(0, 1_000_000)).pipe(Schema.annotateKey({ description: "1 unless given" })),
  priority: optional(between(0, 1_000_000)).pipe(
    Schema.annotateKey({ description: "The lowest goes first; 0 unless given" })
  )
}).annotate({ identifier: "ConfiguredTarget" })
export type ConfiguredTarget = typeof ConfiguredTarget.Type

export const ConfiguredModel = Schema.Struct({
  id: ModelName,
  aliases: optional(Schema.Array(ModelName).pipe(Schema.check(Schema.isMaxLength(50)))).pipe(
    Schema.annotateKey({ description: "Other names that it is asked for by" })
  ),
  targets: Schema.Array(ConfiguredTarget).pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(50))),
  kind: ModelKind,
  contextTokens: optional(Tokens),
  maxOutputTokens: optional(Tokens),
  prices: optional(Prices),
  capabilities: optional(Schema.Array(text(1, 100)).pipe(Schema.check(Schema.isMaxLength(50)))),
  cache: optional(Schema.Boolean).pipe(
    Schema.annotateKey({ description: "Answer equal requests of a tenant from the response cache" })
  )
}).annotate({ identifier: "ConfiguredModel" })
export type ConfiguredModel = typeof ConfiguredModel.Type

export const Strategy = Schema.Literals(["priority", "weighted", "least-latency", "cheapest", "subscription-first"])
export type Strategy = typeof Strategy.Type

export const ConfiguredRouting = Schema.Struct({
  retries: optional(between(0, 10)).pipe(Schema.annotateKey({ description: "At each target; 2 unless given" })),
  timeoutSeconds: optional(between(1, 3600)).pipe(
    Schema.annotateKey({ description: "For a call with all its attempts; 600 unless given" })
  ),
  breaker: optional(
    Schema.Struct({
      failures: optional(between(1, 1000)).pipe(Schema.annotateKey({ description: "In a row; 5 unless given" })),
      openSeconds: optional(between(1, 3600)).pipe(Schema.annotateKey({ description: "30 unless given" }))
    })
  ),
  strategy: optional(Strategy).pipe(Schema.annotateKey({ description: "`priority` unless given" }))
}).annotate({ identifier: "ConfiguredRouting" })

export const ConfiguredCache = Schema.Struct({
  ttlSeconds: optional(between(1, 86_400)).pipe(Schema.annotateKey({ description: "300 unless given" })),
  maxEntries: optional(between(1, 100_000)).pipe(Schema.annotateKey({ description: "1,000 unless given" }))
}).annotate({ identifier: "ConfiguredCache" })

export const configurationActions = auditActions("GatewayConfiguration", [
  "GatewayConfigurationUpdated",
  "GatewayConfigurationRolledBack"
])

/** The whole configuration of the gateway. */
export const GatewayDocument = Schema.Struct({
  providers: optional(Schema.Array(ConfiguredProvider).pipe(Schema.check(Schema.isMaxLength(200)))),
  models: optional(Schema.Array(ConfiguredModel).pipe(Schema.check(Schema.isMaxLength(2000)))),
  routing: optional(ConfiguredRouting),
  cache: optional(ConfiguredCache)
}).annotate({
  identifier: "GatewayConfiguration",
  description: "Which providers there are, which models lead to them, and how"
})
export type GatewayDocument = typeof GatewayDocument.Type

/** What came of reading the configuration. */
export const GatewayReload = Schema.Struct({
  version: Schema.NullOr(between(1, 2_147_483_647)).annotate({
    description: "Of the configuration that runs; null where none was ever written",
    examples: [1]
  }),
  providers: Schema.Array(ProviderId),
  models: Schema.Array(ModelName),
  warnings: Schema.Array(Schema.String).annotate({
    examples: [["Provider openai: the environment variable OPENAI_API_KEY is not set."]]
  })
}).annotate({ identifier: "GatewayReload" })
export type GatewayReload = typeof GatewayReload.Type
