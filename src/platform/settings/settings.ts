import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Context, Effect, FileSystem, Layer, Option, Record, String as Text } from "effect"
import {
  address,
  base,
  choice,
  flag,
  headerListSecret,
  headerSecret,
  integer,
  keySecret,
  list,
  network,
  origin,
  text,
  urlSecret
} from "./setting-kinds.ts"
import {
  type Default,
  type EnvironmentName,
  optional,
  type ProcessSources,
  type ReadSettings,
  readSettings,
  type Setting,
  setting,
  type SettingsError
} from "./settings-reader.ts"

const inDevelopment = { Development: "true", Production: "false" } as const
const day = 86_400
const year = 365 * day

/** Every setting of the service by its key. */
const settings = {
  "Api:Port": setting(integer(0, 65_535), "11402", "Port to listen on; 0 takes any free one"),
  "Api:Host": setting(text, { Development: "127.0.0.1", Production: "0.0.0.0" }, "Address to listen on"),
  "Api:ApiKey": optional(headerSecret, "Key of the service account"),
  "Api:PublicUrl": setting(base, "http://127.0.0.1:<Api:Port>", "Where clients reach the service; the token issuer"),
  "Api:Swagger:Enabled": setting(flag, inDevelopment, "Serve the OpenAPI document and its page"),
  "Api:MaxBodyBytes": setting(integer(1024, 2 ** 30), "1048576", "Largest request body in bytes"),
  "Api:RequestTimeoutSeconds": setting(integer(1, 3600), "60", "Seconds that a request may take"),
  "Api:ShutdownSeconds": setting(integer(0, 3600), "20", "Seconds that open requests get when the process ends"),
  "Api:TrustedProxies": setting(list(network), [], "Proxies that may say the client's address and scheme"),
  "Api:Cors:AllowedOrigins": setting(list(origin), [], "Origins whose pages may call the API"),
  "Api:RateLimit:Enabled": setting(flag, "true", "Limit the rate of requests"),
  "Api:RateLimit:PerMinute": setting(integer(1, 1e9), "6000", "Requests a minute of one principal"),
  "Api:RateLimit:AnonymousPerMinute": setting(integer(1, 1e9), "60", "Requests a minute of one anonymous address"),
  "Database:Url": optional(urlSecret("postgres", "postgresql"), "PostgreSQL to use instead of the embedded one"),
  "Database:Directory": setting(text, ".data", "Where the embedded PostgreSQL keeps its data"),
  "Database:MaxConnections": setting(integer(2, 1000), "10", "Size of the connection pool"),
  "Database:StatementTimeoutSeconds": setting(integer(1, day), "30", "Seconds that a statement may take"),
  "Redis:Url": optional(urlSecret("redis", "rediss"), "Redis that replicas share rate limits and breakers in"),
  "Security:EncryptionKey": optional(
    keySecret,
    "Seals private keys and secrets at rest; made and kept beside the embedded database when absent, required in Production with another"
  ),
  "Security:AcceptLostKey": setting(flag, "false", "Start although sealed secrets cannot be opened: they are given up"),
  "Security:TokenKeyDays": setting(
    integer(0, 3650),
    "90",
    "Days after which another key signs the tokens; 0: never by itself"
  ),
  "Auth:SessionLifetimeSeconds": setting(integer(1, year), "43200", "Seconds after which a sign-in ends"),
  "Auth:SessionIdleSeconds": setting(integer(1, year), "1800", "Seconds without a request after which a sign-in ends"),
  "Agents:StrictAudience": setting(flag, "false", "Take assertions for the issuer only, not for an endpoint's URL"),
  "Agents:MaxDelegationDepth": setting(integer(1, 32), "5", "Agents that may act one on behalf of another in a chain"),
  "Agents:RequireKeyProof": setting(flag, "false", "Register no agent's key without a proof of its private half"),
  "Llm:ConfigFile": optional(text, "Gateway configuration (JSON) that is taken on where there is none yet"),
  "Llm:ConfigFileWins": setting(flag, "false", "Take Llm:ConfigFile on at every start and reload"),
  "Llm:SecretsDirectory": optional(text, "Where keys of providers may be read from, as file:NAME"),
  "Llm:Gateway:Auth": setting(
    choice("ApiKey", "AgentToken", "ApiKeyOrAgentToken", "ApiKeyAndAgentToken", "None"),
    "ApiKeyOrAgentToken",
    "Credentials that the gateway takes; None (Development only) takes everybody, and the default tenant is charged"
  ),
  "Llm:Gateway:HoldSeconds": setting(
    integer(5, 86_400),
    "900",
    "Seconds after which a call that nobody ended is settled at what was kept free for it"
  ),
  "Llm:Gateway:DefaultMaxOutputTokens": setting(
    integer(1, 1_000_000),
    "16384",
    "Output limit of calls that ask for none where a hard cap applies"
  ),
  "Llm:Gateway:MaxBodyBytes": setting(integer(1024, 2 ** 30), "33554432", "Largest body of a gateway call in bytes"),
  "Llm:Gateway:LogContent": setting(flag, "false", "Keep what is said in calls, encrypted, for administrators to read"),
  "Llm:Gateway:LogContentRetentionDays": setting(integer(1, 3650), "30", "Days that what was said in calls is kept"),
  "Llm:Gateway:AllowPrivateAddresses": setting(
    flag,
    "false",
    "Let a tested provider's address lead into private networks"
  ),
  "Budgets:HoldSeconds": setting(
    integer(60, 30 * day),
    "86400",
    "Seconds that a reservation waits for an approval before it expires"
  ),
  "Budgets:MaxCaps": setting(
    integer(1, 100_000),
    "1000",
    "Budget caps that a tenant may have, and those over all tenants together"
  ),
  "Budgets:RequireCap": setting(flag, "false", "Refuse reservations that no budget cap governs"),
  "TrialUsers:TrialDays": setting(integer(1, 3650), "30", "Days that a trial lasts"),
  "Sessions:IdleTimeoutSeconds": setting(integer(1, year), "1800", "Seconds after which an idle session ends"),
  "Audit:RetentionDays": setting(
    integer(0, 36_500),
    "0",
    "Days that audit entries are kept: a month that is over for so long is dropped, signed for; 0 keeps them for ever"
  ),
  "Telemetry:ServiceName": setting(text, "application-manager", "Name of the service in telemetry"),
  "Telemetry:Otlp:Endpoint": optional(address, "OpenTelemetry collector (OTLP over HTTP)"),
  "Telemetry:Otlp:Headers": optional(headerListSecret, "Headers for the collector"),
  "Telemetry:Prometheus:Enabled": setting(flag, inDevelopment, "Serve /metrics"),
  "Logging:Level": setting(choice("Trace", "Debug", "Info", "Warn", "Error", "None"), "Info", "Least level to log"),
  "Logging:Format": setting(
    choice("pretty", "json"),
    { Development: "pretty", Production: "json" },
    "Form of a log line"
  )
} as const

const table: Readonly<Record<string, Setting<unknown>>> = settings

/** Well-known environment variables that set a key when the variable of its full name does not. */
const aliases: Readonly<Record<string, keyof typeof settings>> = {
  APPLICATION_MANAGER_API_KEY: "Api:ApiKey",
  DATABASE_URL: "Database:Url",
  OTEL_EXPORTER_OTLP_ENDPOINT: "Telemetry:Otlp:Endpoint"
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

/** A setting as a page may show it: secrets are `***`, and what is absent is `null`. */
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

const settingsOf = ({ environment, sources, values }: ReadSettings): SettingsValues => ({
  ...treeOf(values),
  environment,
  sources,
  describe: () =>
    Object.entries(table).map(([key, { secret, description }]) => {
      const value = shown(values.get(key))
      return {
        key,
        value: secret && value !== null ? "***" : value,
        source: sources.get(key) ?? "default",
        description
      }
    })
})

const treeOf = (values: ReadonlyMap<string, unknown>) => {
  const nest = (members: ReadonlyArray<readonly [path: ReadonlyArray<string>, value: unknown]>): unknown =>
    members[0]?.[0].length === 0
      ? members[0][1]
      : Object.fromEntries(
          [...Map.groupBy(members, ([path]) => Text.uncapitalize(path[0] ?? ""))].map(([name, below]) => [
            name,
            nest(below.map(([path, value]) => [path.slice(1), value]))
          ])
        )
  // The compiler cannot follow keys that are cut at run time; the table gives both this shape and its type.
  return nest([...values].map(([key, value]) => [key.split(":"), value])) as Tree<typeof settings>
}

const shown = (value: unknown): string | null => {
  if (Option.isOption(value)) return Option.isSome(value) ? shown(value.value) : null
  return Array.isArray(value) ? value.map(String).join(", ") : String(value)
}

const load = (sources: ProcessSources) => Effect.map(readSettings(table, aliases, sources), settingsOf)

/** All that settings are read from; `files` holds the content of files by path. */
export interface SettingsSources extends Partial<ProcessSources> {
  readonly files?: Readonly<Record<string, string>>
}

/** Reads settings from what is given alone; nothing given means the defaults of Development. */
export const settingsFrom = (sources: SettingsSources = {}): Effect.Effect<SettingsValues, SettingsError> => {
  const none = FileSystem.makeNoop({})
  const readFileString = (path: string) =>
    Option.match(Record.get(sources.files ?? {}, path), {
      onNone: () => none.readFileString(path),
      onSome: Effect.succeed
    })
  return load({ arguments: sources.arguments ?? [], environment: sources.environment ?? {} }).pipe(
    Effect.provide(FileSystem.layerNoop({ readFileString }))
  )
}

/** The settings that the service runs with, read once at the start. */
export class Settings extends Context.Service<Settings, SettingsValues>()("app/platform/Settings") {
  /** From the command line, the environment and `appsettings*.json` in the working directory. */
  static readonly layer = Layer.unwrap(Effect.sync(() => Settings.layerWith(process.argv.slice(2))))

  /** Like {@link Settings.layer}, with these words in the place of the command line. */
  static readonly layerWith = (words: ReadonlyArray<string>) =>
    Layer.effect(
      Settings,
      Effect.suspend(() => load({ arguments: words, environment: process.env }))
    ).pipe(Layer.provide(NodeFileSystem.layer))

  /** From what is given alone: see {@link settingsFrom}. */
  static readonly layerMemory = (sources?: SettingsSources) => Layer.effect(Settings, settingsFrom(sources))
}

const defaultMarkdown = (fallback: Default | undefined): string => {
  if (fallback === undefined || Array.isArray(fallback)) return "none"
  return typeof fallback === "object" && "Development" in fallback
    ? `\`${fallback.Development}\` (Development), \`${fallback.Production}\` (Production)`
    : `\`${fallback.toString()}\``
}

/** A Markdown table of every setting: key, form, default and meaning. */
export const settingsMarkdown: string = [
  "| Setting | Value | Default | Meaning |",
  "| --- | --- | --- | --- |",
  ...Object.entries(table).map(([key, { expected, secret, default: fallback, description }]) => {
    const also = Object.keys(aliases).filter((variable) => aliases[variable] === key)
    const meaning = [description, ...also.map((variable) => `also \`${variable}\``)].join("; ")
    return `| \`${key}\` | ${secret ? "secret: " : ""}${expected} | ${defaultMarkdown(fallback)} | ${meaning} |`
  })
].join("\n")
