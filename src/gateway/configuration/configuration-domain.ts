import { Schema } from "effect"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { Uuid } from "../../kernel/identifier.ts"
import { described, HttpUrl, member, text } from "../../kernel/text.ts"
import { Prices } from "../catalog/rate-domain.ts"
import { ApiKey, ConfiguredCredential } from "../credentials/domain.ts"
import { Dialect, PromptCache, ProviderApi } from "../formats/domain.ts"
import { BaseUrl, ModelKind, ModelName, ProviderId, ProviderPlatform } from "./domain.ts"

export const SecretId = Uuid.pipe(Schema.brand("GatewaySecretId"))
export type SecretId = typeof SecretId.Type

/** The wire format of a configured provider; `loopback` is the provider within this process. */
export const ProviderDialect = Schema.Literals([...Dialect.literals, "loopback"]).annotate({ examples: ["openai"] })
export type ProviderDialect = typeof ProviderDialect.Type

const Apis = Schema.Array(ProviderApi).pipe(
  Schema.check(Schema.isMinLength(1), Schema.isMaxLength(ProviderApi.literals.length))
)

/** Headers that identify the caller, or that belong to the connection. */
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

const optional = Schema.optionalKey
const between = (minimum: number, maximum: number) =>
  Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum, maximum })))
const Tokens = between(1, 2_147_483_647)

const urlPrefix = "What the URL of the server begins with: its scheme, host and port, and whole segments of its path"

/** An MCP server that callers may have a provider use under hard caps. */
export const AllowedMcpServer = Schema.Struct({
  urlPrefix: member(described(HttpUrl, { description: urlPrefix }), urlPrefix),
  maxSteps: member(
    between(1, 1000),
    "The most uses of its tools in one call, each of which is held with the whole context: sent as `max_tool_calls`. Anthropic's API has no such limit, and stops after ten steps"
  )
}).annotate({ identifier: "AllowedMcpServer" })
export type AllowedMcpServer = typeof AllowedMcpServer.Type

const AccountIds = (example: string) =>
  optional(
    Schema.Array(
      Schema.String.pipe(
        Schema.check(
          Schema.isPattern(/^[A-Za-z0-9_-]{1,200}$/u, { expected: "an id of letters, digits, hyphens and underscores" })
        )
      )
    ).pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(100)))
  ).annotate({ examples: [[example]] })

/** How to ask a provider what it billed. */
export const ConfiguredBilling = Schema.Struct({
  adminKey: member(
    ApiKey,
    "A key of the account's administration API, given and kept as `apiKey` is: `sk-admin-…` of OpenAI, `sk-ant-admin…` of Anthropic"
  ),
  baseUrl: member(
    optional(BaseUrl),
    "Where that API is, written as the provider's `baseUrl`, which it is unless given"
  ),
  apiKeyIds: member(
    AccountIds("key_8fK2"),
    "The ids of the API keys that only this gateway has: what others used is set apart. All keys of the account unless given"
  ),
  projectIds: member(
    AccountIds("proj_1aQ"),
    "The projects of OpenAI, or workspaces of Anthropic, that are asked about; all unless given"
  )
}).annotate({ identifier: "ConfiguredBilling" })
export type ConfiguredBilling = typeof ConfiguredBilling.Type

export const ConfiguredProvider = Schema.Struct({
  id: member(ProviderId, "What targets, caps and reports call it"),
  dialect: member(ProviderDialect, "Which API it speaks; `loopback` echoes within the service"),
  baseUrl: member(BaseUrl, "As the vendor's SDK takes it: with `/v1` for OpenAI's dialect, without for Anthropic's"),
  apiKey: member(
    optional(ApiKey),
    "`env:NAME`, `file:NAME` below Llm:SecretsDirectory, or `secret:<id>`; a key given as it is gets sealed and replaced by the last. None is sent unless given"
  ),
  credential: member(
    optional(ConfiguredCredential),
    "What authorizes its requests in the place of `apiKey`: a token that is obtained when it is needed and renewed, or a key in a header of another name; `apiKey`, or nothing, unless given"
  ),
  platform: member(
    optional(ProviderPlatform),
    "The cloud that serves the dialect in its own way; `direct` is the vendor's own service and whatever has the same paths. `direct` unless given"
  ),
  apiVersion: member(
    optional(text(1, 40)).annotate({ examples: ["2024-10-21"] }),
    "Of Azure's addresses by deployment, which models are then called by: `api-version`; the addresses of `/openai/v1` unless given. Of Vertex AI the version of its API, `v1` unless given"
  ),
  project: member(
    optional(
      Schema.String.pipe(
        Schema.check(Schema.isPattern(/^[a-z0-9][a-z0-9.:-]{0,99}$/u, { expected: "the id of a project" }))
      ).annotate({ examples: ["my-project"] })
    ),
    "The project of Google Cloud that Vertex AI is used in, which the platform `vertex` needs"
  ),
  region: member(
    optional(
      Schema.String.pipe(
        Schema.check(Schema.isPattern(/^[a-z][a-z0-9-]{1,39}$/u, { expected: "the name of a region" }))
      ).annotate({ examples: ["us-central1"] })
    ),
    "The location of Vertex AI: `global`, `us`, `eu`, or a region; as the host's name says unless given"
  ),
  surface: member(
    optional(Schema.Literal("invoke")).annotate({ examples: ["invoke"] }),
    "With `invoke`, Bedrock is called by InvokeModel for Anthropic's dialect; by its paths in the vendor's own form unless given"
  ),
  headers: member(
    optional(Schema.Record(HeaderName, HeaderValue).annotate({ examples: [{ "openai-project": "main" }] })),
    "Sent with every request to it; a credential by its name (`…-key`, `…-token`, `…-auth`) is given and kept as `apiKey` is. None unless given"
  ),
  apis: member(
    optional(Apis),
    "What it speaks of OpenAI's dialect: `chat`, `responses`, `completions`, `embeddings`, `moderations`, `rerank`, `speech`, `images`, `transcriptions` (and translations of audio). Each call goes to an API of its own if there is one, and is translated for `chat` or `responses` otherwise. All for OpenAI's own host, and all but `responses` for others unless given"
  ),
  mcpServers: member(
    optional(Schema.Array(AllowedMcpServer).pipe(Schema.check(Schema.isMaxLength(100)))),
    "MCP servers that calls under hard caps may use, by where they are; such calls use none unless given"
  ),
  requestMembers: member(
    optional(Schema.Array(text(1, 200)).pipe(Schema.check(Schema.isMaxLength(1000)))).annotate({
      examples: [["chat_template_kwargs"]]
    }),
    "Members of requests that calls under hard caps may have besides those whose cost is known to be bounded, because it is with this provider; none unless given"
  ),
  sharedIds: member(
    optional(Schema.Array(text(1, 500)).pipe(Schema.check(Schema.isMaxLength(1000)))).annotate({
      examples: [["vs_68f1"]]
    }),
    "Ids of files, prompts and the like in its account that every tenant may use as they are; none unless given"
  ),
  reportsCost: member(
    optional(
      Schema.String.pipe(
        Schema.check(
          Schema.isPattern(/^[A-Za-z0-9_]{1,64}(?:\.[A-Za-z0-9_]{1,64}){0,7}$/u, {
            expected: "names of members with dots between them"
          })
        )
      ).annotate({ examples: ["usage.cost"] })
    ),
    "Where its answers report what they cost, in US dollars: that is charged, and the prices of tokens where it is missing. With `usage.cost`, which is OpenRouter's, `provider.max_price` is sent under hard caps in money. Prices of tokens are charged unless given"
  ),
  billing: member(
    optional(ConfiguredBilling),
    "What is needed to compare what the provider billed with what was charged, of OpenAI's and Anthropic's dialects; no comparison unless given"
  ),
  timeoutSeconds: member(
    optional(between(1, 3600)),
    "Until the first byte of an answer and between any two; 300 unless given"
  ),
  maxConcurrency: member(optional(between(1, 100_000)), "Calls at once; as many more wait; 1,000 unless given"),
  tlsCa: member(
    optional(text(1, 100_000)),
    "Certificate authorities (PEM) that are trusted in the place of the system's; the system's unless given"
  ),
  catalogue: member(
    optional(Schema.Boolean),
    "Serve each of its models that the catalogue knows, under its own name; `false` for those in `models` alone. True unless given"
  ),
  unlisted: member(
    optional(Schema.Struct({ prices: member(Prices, "What their tokens cost at most, in US dollars per million") })),
    "Serve any model of it, as `<provider>/<model>`, held and charged at these prices; only listed models unless given"
  )
}).annotate({ identifier: "ConfiguredProvider" })
export type ConfiguredProvider = typeof ConfiguredProvider.Type

export const ConfiguredTarget = Schema.Struct({
  provider: member(ProviderId, "The id of a provider of this configuration"),
  model: member(ModelName, "The provider's own name for the model"),
  apis: member(
    optional(Apis),
    "What the provider speaks for this model, such as `responses` alone; as the catalogue knows, or else all that the provider speaks unless given"
  ),
  weight: member(
    optional(between(0, 1_000_000)),
    "Its share of calls or sessions among targets of the same priority; 1 unless given"
  ),
  priority: member(optional(between(0, 1_000_000)), "The lowest goes first; 0 unless given")
}).annotate({ identifier: "ConfiguredTarget" })
export type ConfiguredTarget = typeof ConfiguredTarget.Type

export const ConfiguredModel = Schema.Struct({
  id: member(ModelName, "What callers ask for"),
  aliases: member(
    optional(Schema.Array(ModelName).pipe(Schema.check(Schema.isMaxLength(50)))),
    "Other names that it is asked for by; none unless given"
  ),
  targets: member(
    Schema.Array(ConfiguredTarget).pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(50))),
    "Where it can be had; a target is tried after another one that failed"
  ),
  kind: member(ModelKind, "What it does"),
  contextTokens: member(
    optional(Tokens),
    "The most that it can read, which its provider enforces: no step of a call reserves more. Requests with documents, MCP servers or searches need it under a hard cap; as the catalogue knows unless given"
  ),
  maxOutputTokens: member(optional(Tokens), "The longest answer that it gives; as the catalogue knows unless given"),
  maxTokensPerSecond: member(
    optional(between(1, 100_000)),
    "The most that it writes in a second: it bounds what is charged of thoughts and of unstreamed answers when the caller leaves; 500 unless given"
  ),
  maxTokensPerToolUse: member(
    optional(Tokens),
    "What the result of one use of a tool that the provider runs adds to what it reads, for estimates; hard caps hold `contextTokens`. 10,000 unless given"
  ),
  prices: member(
    optional(Prices),
    "What its tokens cost, in US dollars per million; as the catalogue knows unless given"
  ),
  capabilities: member(
    optional(Schema.Array(text(1, 100)).pipe(Schema.check(Schema.isMaxLength(50)))),
    "Listed by `GET /api/llm/models`; a chat model with `embeddings` embeds too, one with `moderations` moderates, one with `rerank` reranks, one with `speech` speaks, one with `images` makes images, one with `transcriptions` transcribes; none unless given"
  ),
  promptCache: member(
    optional(PromptCache),
    "Marks for Anthropic's cache, of five minutes or an hour, in requests without any; `auto` if translated, else `off`, unless given"
  ),
  cache: member(
    optional(Schema.Boolean),
    "Answer equal requests of a tenant from the response cache, also where callers do not ask for it; false unless given"
  )
}).annotate({ identifier: "ConfiguredModel" })
export type ConfiguredModel = typeof ConfiguredModel.Type

export const Strategy = Schema.Literals(["priority", "weighted", "least-latency", "cheapest", "subscription-first"])
export type Strategy = typeof Strategy.Type

const ConfiguredBreaker = Schema.Struct({
  failures: member(optional(between(1, 1000)), "So many in a row cut a provider's model off; 5 unless given"),
  openSeconds: member(
    optional(between(1, 3600)),
    "For so long, and longer each time that it fails again; then one call tries it; 30 unless given"
  )
})

export const ConfiguredRouting = Schema.Struct({
  retries: member(optional(between(0, 10)), "More tries at each target before the next one; 2 unless given"),
  timeoutSeconds: member(optional(between(1, 3600)), "For a call with all its attempts; 600 unless given"),
  breaker: member(optional(ConfiguredBreaker), "When a provider that fails is left alone"),
  strategy: member(
    optional(Strategy),
    "Which target of the same priority goes first: as written, drawn by weight, the fastest lately, the cheapest, or those with a prepaid quota left; `priority` unless given"
  ),
  affinity: member(
    optional(Schema.Literals(["session", "off"])),
    "Whether `strategy` decides for each session in the place of each call; `session` unless given"
  )
}).annotate({ identifier: "ConfiguredRouting" })

export const ConfiguredCache = Schema.Struct({
  ttlSeconds: member(optional(between(1, 86_400)), "How long an answer is given again; 300 unless given"),
  maxEntries: member(optional(between(1, 100_000)), "Answers that each replica keeps; 1,000 unless given")
}).annotate({ identifier: "ConfiguredCache" })

export const configurationActions = auditActions("GatewayConfiguration", [
  "GatewayConfigurationUpdated",
  "GatewayConfigurationRolledBack"
])

export const catalogueActions = auditActions("GatewayCatalogue", ["GatewayCatalogueUpdated"])

/** The whole configuration of the gateway. */
export const GatewayDocument = Schema.Struct({
  providers: member(
    optional(Schema.Array(ConfiguredProvider).pipe(Schema.check(Schema.isMaxLength(200)))),
    "Who is called; `loopback` is there in any case"
  ),
  models: member(
    optional(Schema.Array(ConfiguredModel).pipe(Schema.check(Schema.isMaxLength(2000)))),
    "What can be asked for, beside what the catalogue knows of the providers"
  ),
  routing: member(optional(ConfiguredRouting), "How calls find their way"),
  cache: member(optional(ConfiguredCache), "The response cache")
}).annotate({
  identifier: "GatewayConfiguration",
  description: "Which providers there are, which models lead to them, and how"
})
export type GatewayDocument = typeof GatewayDocument.Type

/** The outcome of reading the configuration. */
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
