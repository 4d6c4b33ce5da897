import { Schema } from "effect"
import { denial } from "../../budgets/ledger/domain.ts"
import { RateLimited } from "../../kernel/authority/principal.ts"
import { Uuid } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { text } from "../../kernel/text.ts"
import { Prices } from "../catalog/rate-domain.ts"
import { ApiKey } from "../credentials/domain.ts"
import { Dialect, modelKinds } from "../formats/domain.ts"

/** The name of a provider in the gateway's configuration. */
export const ProviderId = Schema.String.pipe(
  Schema.check(Schema.isPattern(/^[a-z0-9][a-z0-9._-]{0,62}$/u, { expected: "1 to 63 of a-z, 0-9, '.', '_' and '-'" }))
).annotate({ component: "ProviderId", examples: ["openai"] })

const isBaseUrl = (written: string): boolean => {
  const url = URL.parse(written)
  return (
    url !== null && /^https?:\/\/[^/]/i.test(written) && `${url.username}${url.password}${url.search}${url.hash}` === ""
  )
}

/** The base URL of a provider, as the vendor's SDK expects it: with `/v1` for OpenAI, without for Anthropic. */
export const BaseUrl = text(1, 2000)
  .pipe(
    Schema.check(Schema.makeFilter(isBaseUrl, { expected: "an http or https URL without user, query and fragment" }))
  )
  .annotate({ examples: ["https://api.openai.com/v1"] })

/** The name by which callers request a model. */
export const ModelName = text(1, 200).annotate({ component: "ModelName", examples: ["gpt-4o"] })

export const ModelKind = Schema.Literals(modelKinds).annotate({ examples: ["chat"] })

const TokenLimit = Schema.NullOr(
  Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))
).annotate({ examples: [16_384] })

/** A model that callers can request. */
export const GatewayModel = Schema.Struct({
  id: ModelName,
  kind: ModelKind,
  aliases: Schema.Array(ModelName).annotate({ examples: [["default"]] }),
  providers: Schema.Array(ProviderId).annotate({ examples: [["openai"]] }),
  contextTokens: TokenLimit,
  maxOutputTokens: TokenLimit,
  prices: Schema.NullOr(Prices).annotate({ description: "Null where none is known" }),
  capabilities: Schema.Array(Schema.String).annotate({ examples: [["tools"]] }),
  status: Schema.Literals(["available", "degraded", "unavailable"]).annotate({
    description: "`degraded` when some of its targets are cut off by their breakers, `unavailable` when all are",
    examples: ["available"]
  })
}).annotate({ identifier: "GatewayModel" })
export type GatewayModel = typeof GatewayModel.Type

const Milliseconds = Schema.NullOr(Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 3_600_000 }))))

export const BreakerState = Schema.Literals(["closed", "open", "half-open"]).annotate({ examples: ["closed"] })
export type BreakerState = typeof BreakerState.Type

/** The state of a provider's credential, as this replica knows it. */
export const CredentialHealth = Schema.Struct({
  status: Schema.Literals(["unused", "valid", "stale", "failed"]).annotate({
    description:
      "`unused` until it is first needed; `valid`; `stale` while it is valid but could not be renewed; `failed` without a valid one",
    examples: ["valid"]
  }),
  obtainedAt: Schema.NullOr(Instant),
  expiresAt: Schema.NullOr(Instant),
  failures: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 2_147_483_647 }))).annotate({
    description: "Attempts in a row that failed since",
    examples: [0]
  }),
  lastError: Schema.NullOr(Schema.String).annotate({ examples: [null] })
}).annotate({ identifier: "CredentialHealth" })
export type CredentialHealth = typeof CredentialHealth.Type

/** The health of a provider, as this replica last observed it. */
export const ProviderHealthReport = Schema.Struct({
  id: ProviderId,
  dialect: Dialect,
  reachable: Schema.NullOr(Schema.Boolean).annotate({
    description: "Whether its last answer or check came; null before the first",
    examples: [true]
  }),
  breaker: BreakerState.annotate({ description: "The worst of its models" }),
  latencyMs: Milliseconds.annotate({ examples: [412] }),
  lastError: Schema.NullOr(Schema.String).annotate({ examples: [null] }),
  checkedAt: Schema.NullOr(Instant),
  brokenBounds: Schema.Array(
    Schema.Struct({
      id: Uuid,
      model: Schema.String.annotate({ examples: ["gpt-4o"] }),
      operation: Schema.String.annotate({ examples: ["chat"] }),
      since: Instant
    }).annotate({ identifier: "ProviderBrokenBound" })
  ).annotate({
    description: "Kinds of calls that are refused under hard caps, since one was charged more than was held",
    examples: [[]]
  }),
  credential: Schema.NullOr(CredentialHealth).annotate({
    description: "Null where it has a key, or nothing",
    examples: [null]
  })
}).annotate({ identifier: "ProviderHealth" })
export type ProviderHealthReport = typeof ProviderHealthReport.Type

export const GatewayHealth = Schema.Struct({
  status: Schema.Literals(["healthy", "degraded", "unhealthy"]).annotate({ examples: ["healthy"] }),
  providers: Schema.Array(ProviderHealthReport)
}).annotate({ identifier: "GatewayHealth" })
export type GatewayHealth = typeof GatewayHealth.Type

export const ProviderPlatform = Schema.Literals(["direct", "azure", "bedrock", "vertex"]).annotate({
  examples: ["direct"]
})
export type ProviderPlatform = typeof ProviderPlatform.Type

/** A provider that a caller specifies: a configured one, or one at its own address with its own key. */
export const NamedProvider = Schema.Union([
  Schema.Struct({
    providerId: ProviderId.annotate({ examples: ["loopback"] }),
    model: Schema.optionalKey(ModelName.annotate({ examples: ["loopback-1"] }))
  }),
  Schema.Struct({
    id: Schema.optionalKey(ProviderId).pipe(
      Schema.annotateKey({
        description:
          "What it is to be called, by which the catalogue may know its models where the address tells nothing"
      })
    ),
    dialect: Dialect,
    baseUrl: BaseUrl,
    platform: Schema.optionalKey(ProviderPlatform),
    apiVersion: Schema.optionalKey(text(1, 40).annotate({ examples: ["2024-10-21"] })),
    apiKey: Schema.optionalKey(ApiKey),
    model: Schema.optionalKey(ModelName)
  })
]).annotate({ identifier: "NamedProvider" })
export type NamedProvider = typeof NamedProvider.Type

/** The result of requesting a provider's list of models. */
export const ProviderTest = Schema.Struct({
  ok: Schema.Boolean.annotate({ examples: [true] }),
  latencyMs: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 3_600_000 }))).annotate({
    examples: [231]
  }),
  status: Schema.NullOr(Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 100, maximum: 599 })))).annotate({
    description: "Null where no answer came",
    examples: [200]
  }),
  detail: Schema.String.annotate({ examples: ["The provider lists 42 models."] })
}).annotate({ identifier: "ProviderTest" })
export type ProviderTest = typeof ProviderTest.Type

export const ListedModel = Schema.Struct({
  id: Schema.String.annotate({ examples: ["gpt-4o"] }),
  ownedBy: Schema.NullOr(Schema.String).annotate({ examples: ["openai"] }),
  createdAt: Schema.NullOr(Instant),
  kind: Schema.NullOr(ModelKind).annotate({ description: "Null where the catalogue does not know the model" }),
  contextTokens: TokenLimit,
  prices: Schema.NullOr(Prices).annotate({ description: "Those of the catalogue; null where it knows none" })
}).annotate({ identifier: "ListedModel" })
export type ListedModel = typeof ListedModel.Type

export class ProviderNotFound extends Problem<ProviderNotFound>()("ProviderNotFound", {
  slug: "provider-not-found",
  status: 404,
  meaning: "The gateway's configuration has no provider of this id."
}) {}

export class ProviderUnavailable extends Problem<ProviderUnavailable>()("ProviderUnavailable", {
  slug: "provider-unavailable",
  status: 502,
  meaning: "The provider cannot be reached, or gave no usable answer."
}) {}

export class ProviderTimeout extends Problem<ProviderTimeout>()("ProviderTimeout", {
  slug: "provider-timeout",
  status: 504,
  meaning: "The provider did not answer in time."
}) {}

export class ModelNotFound extends Problem<ModelNotFound>()("ModelNotFound", {
  slug: "model-not-found",
  status: 404,
  meaning: "The gateway has no model of this name."
}) {}

export class ModelUnpriced extends Problem<ModelUnpriced>()("ModelUnpriced", {
  slug: "model-unpriced",
  status: 403,
  meaning: "The model has no price, and a cap in money applies."
}) {}

export class CostUnbounded extends Problem<CostUnbounded>()("CostUnbounded", {
  slug: "cost-unbounded",
  status: 403,
  meaning: "What the request may cost has no bound, and a hard cap applies."
}) {}

export class TurnBudgetExceeded extends Problem<TurnBudgetExceeded>()("TurnBudgetExceeded", {
  slug: "turn-budget-exceeded",
  status: 402,
  meaning: "The call may cost more than its agent may spend in one turn."
}) {}

export class ApprovalRequired extends Problem<ApprovalRequired>()(
  "ApprovalRequired",
  {
    slug: "approval-required",
    status: 402,
    meaning: "A cap has no room, and an approver may still approve the reservation."
  },
  { reservationId: Uuid }
) {}

/** A cap that counts requests or tokens has no room, and has some again soon. */
export class BudgetRateLimited extends Problem<BudgetRateLimited>()(
  "BudgetRateLimited",
  {
    slug: "rate-limited",
    status: 429,
    meaning: "The caller has reached its rate limit; retry after the seconds in Retry-After."
  },
  { retryAfterSeconds: RateLimited.fields.retryAfterSeconds, ...denial }
) {}

export class ProviderRefused extends Problem<ProviderRefused>()("ProviderRefused", {
  slug: "provider-refused",
  status: 400,
  meaning: "The provider does not take the request."
}) {}
