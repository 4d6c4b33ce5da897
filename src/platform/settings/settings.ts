import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Context, Effect, FileSystem, Layer, Option } from "effect"
import {
  address,
  base,
  bucket,
  choice,
  databaseSecret,
  flag,
  headerListSecret,
  headerSecret,
  integer,
  keySecret,
  list,
  network,
  origin,
  text,
  urlSecret,
  variable
} from "./setting-kinds.ts"
import {
  type EnvironmentName,
  nested,
  optional,
  type ProcessSources,
  readSettings,
  type Setting,
  setting,
  SettingsError,
  type SettingsTable
} from "./settings-reader.ts"

const inDevelopment = { Development: "true", Production: "false" } as const
const day = 86_400
const year = 365 * day
/** Half of what a text of JSON can have. */
const maxStoredBytes = 2 ** 28

/** Every setting of the service by its key. */
const settings = {
  "Api:Port": setting(integer(0, 65_535), "11402", "Port to listen on; 0 takes any free one"),
  "Api:Host": setting(text, { Development: "127.0.0.1", Production: "0.0.0.0" }, "Address to listen on"),
  "Api:ApiKey": optional(headerSecret, "Key of the service account"),
  "Api:PublicUrl": setting(
    base,
    "http://127.0.0.1:<Api:Port>",
    "URL at which clients reach the service; the token issuer"
  ),
  "Api:Swagger:Enabled": setting(flag, inDevelopment, "Serve the OpenAPI document and its page"),
  "Api:MaxBodyBytes": setting(integer(1024, 2 ** 30), "1048576", "Largest request body in bytes"),
  "Api:RequestTimeoutSeconds": setting(
    integer(1, 3600),
    "60",
    "Seconds that a request may take; a client that takes nothing of its answer for half a minute longer is disconnected"
  ),
  "Api:DrainSeconds": setting(
    integer(0, 3600),
    { Development: "0", Production: "5" },
    "Seconds for which new requests are served after SIGTERM, while /health/ready is 503 so that load balancers turn away"
  ),
  "Api:ShutdownSeconds": setting(
    integer(0, 3600),
    "20",
    "Seconds that requests in progress get after that, when the process ends"
  ),
  "Api:TrustedProxies": setting(list(network), [], "Proxies whose forwarded client address and scheme are trusted"),
  "Api:Cors:AllowedOrigins": setting(list(origin), [], "Origins whose pages may call the API"),
  "Api:WebSockets:Enabled": setting(
    flag,
    "true",
    "Accept WebSockets, at /v1/responses and /v1/realtime; clients that are refused send requests"
  ),
  "Api:WebSockets:MaxPerPrincipal": setting(integer(1, 1e6), "1000", "Open WebSockets of one principal on a replica"),
  "Api:WebSockets:MaxPerReplica": setting(integer(1, 1e6), "10000", "Open WebSockets on a replica"),
  "Api:WebSockets:IdleSeconds": setting(
    integer(1, day),
    "900",
    "Seconds after which a WebSocket is closed on which nothing is asked for"
  ),
  "Api:RateLimit:Enabled": setting(flag, "true", "Limit the rate of requests"),
  "Api:RateLimit:PerMinute": setting(integer(1, 1e9), "6000", "Requests a minute of one principal"),
  "Api:RateLimit:AnonymousPerMinute": setting(integer(1, 1e9), "60", "Requests a minute of one anonymous address"),
  "Database:Url": optional(
    databaseSecret("read-write", "primary"),
    "PostgreSQL to use instead of the embedded one; of several hosts the one that accepts writes"
  ),
  "Database:PoolUrl": optional(
    databaseSecret("read-write", "primary"),
    "Pooler of transactions (PgBouncer) before Database:Url, which the connection pool uses"
  ),
  "Database:ReadUrl": optional(
    databaseSecret("any"),
    "Read replica for reports, large lists and exports; of several hosts the first that answers"
  ),
  "Database:Directory": setting(text, ".data", "Data directory of the embedded PostgreSQL"),
  "Database:Migrate": setting(
    flag,
    "true",
    "Apply missing migrations at the start; false: wait until `npm run migrate` has applied them"
  ),
  "Database:MaxConnections": setting(
    integer(2, 1000),
    "10",
    "Size of the connection pool; a tenant has all but two of it at most"
  ),
  "Database:StatementTimeoutSeconds": setting(integer(1, day), "30", "Seconds that a statement may take"),
  "Database:AcquireTimeoutSeconds": setting(
    integer(1, 60),
    "10",
    "Seconds within which credentials are checked, and budget reserved, settled or read; then the answer is 503"
  ),
  "Redis:Url": optional(urlSecret("redis", "rediss"), "Redis in which replicas share rate limits and breakers"),
  "Security:EncryptionKey": optional(
    keySecret,
    "Encrypts private keys and secrets at rest; created beside the embedded database when absent, required in Production with an external one"
  ),
  "Security:AcceptLostKey": setting(
    flag,
    "false",
    "Start although stored secrets cannot be decrypted, and discard them"
  ),
  "Security:TokenKeyDays": setting(
    integer(0, 3650),
    "90",
    "Days between rotations of the token signing key; 0: no rotation"
  ),
  "Auth:SessionLifetimeSeconds": setting(integer(1, year), "43200", "Seconds after which a sign-in ends"),
  "Auth:SessionIdleSeconds": setting(integer(1, year), "1800", "Seconds without a request after which a sign-in ends"),
  "Agents:StrictAudience": setting(
    flag,
    "false",
    "Accept only the issuer as the audience of assertions, no endpoint URL"
  ),
  "Agents:MaxDelegationDepth": setting(integer(1, 32), "5", "Longest chain of agents acting on behalf of one another"),
  "Agents:RequireKeyProof": setting(flag, "false", "Register an agent's key only with a proof of its private key"),
  "IdentityProviders:AllowPrivateAddresses": setting(
    flag,
    "false",
    "Let identity providers resolve to private addresses, over https still"
  ),
  "Applications:OpenRegistration": setting(
    flag,
    "false",
    "Let applications register without a registration token; each still waits for an approval"
  ),
  "Applications:MaxOpenRegistrations": setting(
    integer(1, 1_000_000),
    "1000",
    "Applications that registered without a token and may wait for an approval at a time"
  ),
  "Llm:ConfigFile": optional(text, "Gateway configuration (JSON) to import when none is stored"),
  "Llm:ConfigFileWins": setting(flag, "false", "Import Llm:ConfigFile and Llm:CatalogueFile at every start and reload"),
  "Llm:CatalogueFile": optional(
    text,
    "Catalogue of models (JSON) to import at a start or reload if it changed and none was written through the API"
  ),
  "Llm:EnvironmentKeys": setting(
    list(variable),
    [
      "OPENAI_API_KEY",
      "ANTHROPIC_API_KEY",
      "AZURE_OPENAI_API_KEY",
      "GEMINI_API_KEY",
      "GOOGLE_API_KEY",
      "XAI_API_KEY",
      "MISTRAL_API_KEY",
      "GROQ_API_KEY",
      "COHERE_API_KEY",
      "MOONSHOT_API_KEY",
      "CEREBRAS_API_KEY",
      "DEEPSEEK_API_KEY",
      "OPENROUTER_API_KEY",
      "TOGETHER_API_KEY",
      "FIREWORKS_API_KEY",
      "PERPLEXITY_API_KEY"
    ],
    "Environment variables that the gateway's configuration may name as keys, as env:NAME"
  ),
  "Llm:SecretsDirectory": optional(text, "Directory from which provider keys may be read, as file:NAME"),
  "Llm:Gateway:Auth": setting(
    choice("ApiKey", "AgentToken", "ApiKeyOrAgentToken", "ApiKeyAndAgentToken", "None"),
    "ApiKeyOrAgentToken",
    "Credentials that the gateway accepts; None (Development only) accepts any caller and charges the default tenant"
  ),
  "Llm:Gateway:HoldSeconds": setting(
    integer(5, day),
    "900",
    "Seconds after which an unfinished call is settled at its reserved amount"
  ),
  "Llm:Gateway:DefaultMaxOutputTokens": setting(
    integer(1, 1_000_000),
    "16384",
    "Output limit of calls that set none where a hard cap applies"
  ),
  "Llm:Gateway:DefaultMaxToolUses": setting(
    integer(1, 1000),
    "5",
    "Uses of tools that a provider runs, for calls that set no limit where a hard cap applies"
  ),
  "Llm:Gateway:MaxBodyBytes": setting(integer(1024, 2 ** 30), "33554432", "Largest body of a gateway call in bytes"),
  "Llm:Gateway:MaxUploadBytes": setting(
    integer(1024, 2 ** 30),
    "33554432",
    "Largest form with files of a gateway call, and largest file that a provider is to keep, in bytes"
  ),
  "Llm:Gateway:MaxUploadsBytes": setting(
    integer(1024, 2 ** 40),
    "1073741824",
    "Bytes of such forms that a replica keeps at once, on disk but for their beginnings, half of them for one tenant"
  ),
  "Llm:Gateway:UploadDirectory": optional(
    text,
    "Directory for the files of such forms while their calls run; the system's temporary directory unless given"
  ),
  "Llm:Gateway:MaxBatchBytes": setting(
    integer(1024, 2 ** 30),
    "67108864",
    "Largest input of a batch in bytes; the provider's own limit holds besides"
  ),
  "Llm:Gateway:BatchPollSeconds": setting(
    integer(1, 3600),
    "60",
    "Seconds after which a provider is asked again how a batch stands"
  ),
  "Llm:Gateway:LogContent": setting(flag, "false", "Store prompts and completions, encrypted, for administrators"),
  "Llm:Gateway:LogContentRetentionDays": setting(integer(1, 3650), "30", "Days that prompts and completions are kept"),
  "Llm:Gateway:StoreResponses": setting(
    flag,
    "true",
    "Store responses of /v1/responses, encrypted, so that callers can refer to them; callers turn it off by store: false"
  ),
  "Llm:Gateway:ResponsesRetentionHours": setting(integer(1, 8760), "24", "Hours that responses are stored"),
  "Llm:Gateway:StoredResponses:MaxReferences": setting(
    integer(1, 100_000),
    "1000",
    "Stored responses and items that one request may refer to"
  ),
  "Llm:Gateway:StoredResponses:MaxTurns": setting(
    integer(1, 100_000),
    "1000",
    "Stored responses that are read for one request: those of a conversation, and those that items are taken from"
  ),
  "Llm:Gateway:StoredResponses:MaxBytes": setting(
    integer(1024, maxStoredBytes),
    "33554432",
    "Bytes of stored responses that are read for one request"
  ),
  "Llm:Gateway:StoredResponses:MaxTurnBytes": setting(
    integer(1024, maxStoredBytes),
    "16777216",
    "Largest response that is stored, with its input, in bytes"
  ),
  "Llm:Gateway:StoredResponses:MaxTenantBytes": setting(
    integer(0, Number.MAX_SAFE_INTEGER),
    "4294967296",
    "Bytes of stored responses of a tenant, above which no more are stored"
  ),
  "Llm:Gateway:MaxSocketStateBytes": setting(
    integer(0, maxStoredBytes),
    "268435456",
    "Bytes of memory of a replica for what WebSockets keep of turns with store: false, to go on from; the oldest are dropped"
  ),
  "Llm:Gateway:AllowPrivateAddresses": setting(flag, "false", "Let tested providers resolve to private addresses"),
  "Budgets:HoldSeconds": setting(
    integer(60, 30 * day),
    "86400",
    "Seconds until a reservation awaiting approval expires"
  ),
  "Budgets:MaxCaps": setting(integer(1, 100_000), "1000", "Caps that a tenant may have, and caps across all tenants"),
  "Budgets:RequireCap": setting(flag, "false", "Reject reservations to which no cap applies"),
  "TrialUsers:TrialDays": setting(integer(1, 3650), "30", "Days that a trial lasts"),
  "Sessions:IdleTimeoutSeconds": setting(integer(1, year), "1800", "Seconds after which an idle session ends"),
  "Audit:RetentionDays": setting(
    integer(0, 36_500),
    "0",
    "Days that a past month of audit entries is kept; 0: forever"
  ),
  "Usage:RetentionDays": setting(
    integer(0, 36_500),
    "0",
    "Days that a past month of usage rows is kept; their sums stay; 0: forever"
  ),
  "Usage:LateDays": setting(
    integer(0, 90),
    "7",
    "Days for which usage that an event reports is booked as of its `time`; what is older is booked as of now"
  ),
  "Usage:Export:Bucket": optional(bucket, "Bucket that usage is exported to, in S3 or what speaks its protocol"),
  "Usage:Export:Prefix": setting(text, "usage", "What the paths of exported files begin with"),
  "Usage:Export:Region": setting(text, "us-east-1", "Region of the bucket"),
  "Usage:Export:Endpoint": optional(address, "Server of the bucket; without it, S3 of the region"),
  "Usage:Export:Addressing": optional(
    choice("path", "virtual-host"),
    "Where requests have the bucket; without it, in the path of an endpoint and for a name with dots, and in the host of S3"
  ),
  "Usage:Export:AccessKeyId": optional(headerSecret, "Id of the key that may write to the bucket"),
  "Usage:Export:SecretAccessKey": optional(headerSecret, "Secret of that key"),
  "Usage:Export:EverySeconds": setting(integer(1, day), "900", "Seconds that rows wait until they make files"),
  "Usage:Export:MaxRows": setting(integer(1, 1_000_000), "100000", "Rows of a file, from which on another one begins"),
  "Usage:Export:Stop": setting(flag, "false", "End the export, and drop what waits for it"),
  "Insights:MinAnomalyUsd": setting(integer(0, 1_000_000), "1", "Dollars that an anomaly has to be worth"),
  "Integrations:AllowPrivateAddresses": setting(
    flag,
    "false",
    "Deliver events to private addresses too, for development"
  ),
  "Insights:InvoiceIssuer": setting(text, "Application Manager", "Who invoices what billing reports contain"),
  "Telemetry:ServiceName": setting(text, "application-manager", "Name of the service in telemetry"),
  "Telemetry:Otlp:Endpoint": optional(address, "OpenTelemetry collector (OTLP over HTTP)"),
  "Telemetry:Otlp:Headers": optional(headerListSecret, "Headers for the collector"),
  "Telemetry:SemconvStabilityOptIn": setting(
    list(text),
    [],
    "Opt-ins of OpenTelemetry's conventions: `gen_ai_latest_experimental` for the names of the gateway's telemetry in the first release of those for generative AI; others have no effect"
  ),
  "Telemetry:Prometheus:Enabled": setting(flag, inDevelopment, "Serve /metrics"),
  "Logging:Level": setting(
    choice("Trace", "Debug", "Info", "Warn", "Error", "None"),
    "Info",
    "Least severe level to log"
  ),
  "Logging:Format": setting(
    choice("pretty", "json"),
    { Development: "pretty", Production: "json" },
    "Format of a log line"
  ),
  "Logging:Requests": setting(flag, "false", "Log every request at Info; else at Debug")
} as const

export const settingsTable: SettingsTable = settings

/** Well-known environment variables, used when the variable of the full name is not set. */
export const settingAliases: Readonly<Record<string, keyof typeof settings>> = {
  APPLICATION_MANAGER_API_KEY: "Api:ApiKey",
  DATABASE_URL: "Database:Url",
  OTEL_EXPORTER_OTLP_ENDPOINT: "Telemetry:Otlp:Endpoint",
  OTEL_SEMCONV_STABILITY_OPT_IN: "Telemetry:SemconvStabilityOptIn"
}

type Head<Key> = Key extends `${infer Section}:${string}` ? Section : Key
type Below<Table, Section extends string> = {
  readonly [Key in keyof Table as Key extends `${Section}:${infer Rest}` ? Rest : never]: Table[Key]
}
type Tree<Table> = {
  readonly [Section in Head<keyof Table> & string as Uncapitalize<Section>]: Section extends keyof Table
    ? Table[Section] extends Setting<infer A>
      ? A
      : never
    : Tree<Below<Table, Section>>
}

/** A setting for display: a secret is `***`, an absent value `null`. */
export interface SettingDescription {
  readonly key: string
  readonly value: string | null
  readonly source: string
  readonly description: string
}

/** Typed values under their sections: `settings.api.rateLimit.perMinute`. */
export interface SettingsValues extends Tree<typeof settings> {
  readonly environment: EnvironmentName
  /** Where each key was set: `default`, `appsettings.json`, `environment Api__Port`, `command line`. */
  readonly sources: ReadonlyMap<string, string>
  readonly describe: () => ReadonlyArray<SettingDescription>
}

const load = Effect.fnUntraced(function* (
  sources: ProcessSources
): Effect.fn.Return<SettingsValues, SettingsError, FileSystem.FileSystem> {
  const { entries, environment } = yield* readSettings(settingsTable, settingAliases, sources)
  const members = entries.map(
    ({ key, value }) => [key.replace(/(?:^|:)./g, (start) => start.toLowerCase()), value] as const
  )
  return {
    // The compiler cannot follow keys that are split at run time; the table gives both this shape and its type.
    ...(nested(members) as Tree<typeof settings>),
    environment,
    sources: new Map(entries.map(({ key, source }) => [key, source])),
    describe: () =>
      entries.map(({ key, value, source, secret, description }) => {
        const text = shown(value)
        return { key, value: secret && text !== null ? "***" : text, source, description }
      })
  }
})

const shown = (value: unknown): string | null => {
  if (Option.isOption(value)) return Option.isSome(value) ? shown(value.value) : null
  return Array.isArray(value) ? value.map(String).join(", ") : String(value)
}

/** All that settings are read from; `files` holds the content of files by path. */
export interface SettingsSources extends Partial<ProcessSources> {
  readonly files?: Readonly<Record<string, string>>
}

/** Reads settings from these sources only; without any, the defaults of Development. */
export const settingsFrom = ({ arguments: args = [], environment = {}, files = {} }: SettingsSources = {}) =>
  load({ arguments: args, environment }).pipe(
    Effect.provide(
      FileSystem.layerNoop({
        readFileString: (path) =>
          Effect.fromNullishOr(files[path]).pipe(Effect.catch(() => FileSystem.makeNoop({}).readFileString(path)))
      })
    )
  )

/** The settings that the service runs with, read once at the start. */
export class Settings extends Context.Service<Settings, SettingsValues>()("app/platform/Settings") {
  /** From the command line, the environment and `appsettings*.json` in the working directory. */
  static readonly layer = Layer.unwrap(Effect.sync(() => Settings.layerWith(process.argv.slice(2))))

  /** Like {@link Settings.layer}, with these arguments instead of the command line. */
  static readonly layerWith = (args: ReadonlyArray<string>) =>
    Layer.effect(
      Settings,
      Effect.suspend(() => load({ arguments: args, environment: process.env }))
    ).pipe(Layer.provide(NodeFileSystem.layer))

  /** From these sources only: see {@link settingsFrom}. */
  static readonly layerMemory = (sources?: SettingsSources) => Layer.effect(Settings, settingsFrom(sources))
}

/** Without this setting, secrets in an external database would be encrypted under a key in a local file, which its backup lacks. */
export const noEncryptionKey = {
  name: "Security:EncryptionKey",
  source: "not set",
  reason: "required in Production with an external database: 32 random bytes in base64"
}

/** Refuses settings with which the service must not answer requests; commands beside it may run with them. */
export const requireServable = Effect.gen(function* () {
  const { database, environment, llm, security, sources, usage } = yield* Settings
  const { accessKeyId, bucket, secretAccessKey } = usage.export
  const missing = Object.entries({ AccessKeyId: accessKeyId, SecretAccessKey: secretAccessKey })
    .filter(([, value]) => Option.isSome(bucket) && Option.isNone(value))
    .map(([name]) => ({ name: `Usage:Export:${name}`, source: "not set", reason: "required with Usage:Export:Bucket" }))
  if (missing.length > 0) return yield* new SettingsError({ faults: missing })
  if (environment !== "Production") return
  const auth = "Llm:Gateway:Auth"
  const faults = [
    ...(llm.gateway.auth === "None"
      ? [{ name: auth, source: sources.get(auth) ?? "default", reason: "None is for Development only" }]
      : []),
    ...(Option.isSome(database.url) && Option.isNone(security.encryptionKey) ? [noEncryptionKey] : [])
  ]
  if (faults.length > 0) return yield* new SettingsError({ faults })
})

/** How many days back usage may be booked: no month is written to that retention may drop. */
export const lateDaysOf = ({ lateDays, retentionDays }: SettingsValues["usage"]): number =>
  retentionDays === 0 ? lateDays : Math.min(lateDays, retentionDays)

/** Where replicas on one host are, of which each has a port of its own. */
const onLoopback = /^https?:\/\/(?:127\.\d+\.\d+\.\d+|localhost|\[::1\])(?::\d+)?(?:\/|$)/

/**
 * What keys in Redis begin with: several installations may share a Redis, and differ by their address. Replicas on
 * loopback addresses share what they count.
 */
export const redisPrefix = ({ api }: Pick<SettingsValues, "api">, use: "rate-limit" | "breaker"): string =>
  `application-manager:${onLoopback.test(api.publicUrl) ? "" : `${api.publicUrl}:`}${use}:`
