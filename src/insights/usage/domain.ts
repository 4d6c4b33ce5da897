import { type DateTime, Option, Schema } from "effect"
import { AgentId } from "../../agents/agents/domain.ts"
import { ApiKeyId } from "../../agents/api-keys/domain.ts"
import { ApplicationId } from "../../applications/applications/domain.ts"
import { TimeZone } from "../../budgets/caps/domain.ts"
import {
  CapId,
  CapMode,
  ChargeId,
  Label,
  Metadata,
  Origin,
  Period,
  PlanId,
  ReservationId,
  ReservationState
} from "../../budgets/ledger/domain.ts"
import { Unit } from "../../budgets/ledger/quantity-domain.ts"
import { booleanParameter, integerParameter, numberParameter } from "../../kernel/http/parameter.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { exactNumber } from "../../kernel/json/exact-number.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { described, name } from "../../kernel/text.ts"
import { UsdOrZero } from "../../kernel/usd.ts"

/** What usage can be grouped by beside time and tenant: its number in roll-ups, its column, and the filter on it. */
export const usageDimensions = {
  agent: { code: 1, column: "agent_id", filter: "agentId" },
  model: { code: 2, column: "model", filter: "model" },
  provider: { code: 3, column: "provider", filter: "provider" },
  "task-type": { code: 4, column: "task_type", filter: "taskType" },
  application: { code: 5, column: "application_id", filter: "applicationId" },
  plan: { code: 6, column: "plan_id", filter: "planId" },
  user: { code: 7, column: "user_id", filter: "userId" },
  "api-key": { code: 8, column: "api_key_id", filter: "apiKeyId" }
} as const
export type UsageDimension = keyof typeof usageDimensions

/** Filters on usage; those that are given must all match. */
export const usageFilters = {
  agentId: Schema.optionalKey(AgentId),
  model: Schema.optionalKey(Label),
  provider: Schema.optionalKey(Label),
  taskType: Schema.optionalKey(Label),
  applicationId: Schema.optionalKey(integerParameter(ApplicationId)),
  planId: Schema.optionalKey(PlanId),
  userId: Schema.optionalKey(Label),
  apiKeyId: Schema.optionalKey(ApiKeyId),
  tenantId: Schema.optionalKey(TenantId)
}
/** Whether sums have the usage of synthetic principals, too. */
export const withSynthetic = {
  includeSynthetic: Schema.optionalKey(booleanParameter).annotate({
    description: "Whether the usage of synthetic principals counts, too; by default it does not"
  })
}
const UsageFilter = Schema.Struct({ ...usageFilters, ...withSynthetic })
export type UsageFilter = typeof UsageFilter.Type

const between = (minimum: number, maximum: number) =>
  Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum, maximum })))

/** Filters on requests alone, which no sum of usage has. */
export const requestFilters = {
  status: Schema.optionalKey(integerParameter(between(100, 599))).annotate({
    description: "The HTTP status that the call ended with"
  }),
  failed: Schema.optionalKey(booleanParameter).annotate({
    description: "Whether it failed: what the reports count as `errors`"
  }),
  minCostUsd: Schema.optionalKey(numberParameter(UsdOrZero)).annotate({ description: "It cost as much, or more" }),
  minLatencyMs: Schema.optionalKey(integerParameter(between(1, 2_147_483_647))).annotate({
    description: "It took as long, or longer"
  })
}
const RequestFilter = Schema.Struct({ ...usageFilters, ...requestFilters })
export type RequestFilter = typeof RequestFilter.Type

/** By when requests were booked, the newest first unless asked otherwise. */
export const RequestSort = Schema.Literals(["occurredAt", "-occurredAt"])
export type RequestSort = typeof RequestSort.Type

/** In the place of a dimension's value: what has none passes. */
export const noValue = ""

/** What rows of usage are searched for. */
export const UsageSearch = name(200, {
  description:
    "Text in the model, the provider, the task type, the user or the trace id, without regard to case; a part of the name of an agent, an API key or an account; or the whole id of a charge or a reservation. A search reads so many rows a page that a page may be short although the next one has more.",
  examples: ["gpt-5"]
})

/** The range of time that a report is about, and the zone of its days. */
export const usageRange = {
  from: Schema.optionalKey(Instant).annotate({ description: "Inclusive; by default 30 days before `to`" }),
  to: Schema.optionalKey(Instant).annotate({ description: "Exclusive; by default now" }),
  timeZone: Schema.optionalKey(described(TimeZone, { description: "The zone that days begin in; by default UTC" }))
}
/** A range as it was asked for. */
export interface UsageRange {
  readonly from: DateTime.Utc | undefined
  readonly to: DateTime.Utc | undefined
  readonly timeZone: string | undefined
}

/** A range with everything decided, in epoch milliseconds. */
export interface Range {
  readonly from: number
  readonly to: number
  readonly timeZone: string
}

export const dayMillis = 86_400_000
const maxDays = 400
const defaultDays = 30

/** The range that a request is about, or what is wrong with it. */
export const rangeOf = (
  { from, timeZone = "UTC", to }: UsageRange,
  now: DateTime.Utc
): Range | { readonly path: ReadonlyArray<string>; readonly message: string } => {
  const closes = (to ?? now).epochMilliseconds
  const opens = from?.epochMilliseconds ?? closes - defaultDays * dayMillis
  if (opens >= closes) return { path: ["query", "from"], message: "Expected a moment before `to`" }
  if (closes - opens > maxDays * dayMillis) {
    return { path: ["query", "to"], message: `Expected at most ${maxDays} days after \`from\`` }
  }
  return { from: opens, to: closes, timeZone }
}

/** Dollars with all digits; below zero where refunds exceed charges. */
export const NetUsd = exactNumber({ component: "NetUsd", examples: [12.5], minimum: -(2 ** 63) })

const Count = Schema.Int.pipe(
  Schema.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))
).annotate({ component: "Count", examples: [1180] })
const Name = Schema.String

/** How many units of one kind; seconds have fractions. */
const Quantity = Schema.Finite.pipe(
  Schema.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))
).annotate({ examples: [1] })

export const UsageMethod = Schema.Literals([
  "provider_usage",
  "aborted",
  "estimated",
  "unanswered",
  "expired",
  "reported",
  "released"
]).annotate({
  component: "UsageMethod",
  description:
    "Where the cost comes from: `provider_usage` the provider's own count, `estimated` and `aborted` the gateway's, `unanswered` and `expired` the whole reservation, `reported` the caller of /api/spend, `released` that the providers failed",
  examples: ["provider_usage"]
})

/** What decided the price of a call besides its rates and tokens of text. */
const PriceTerms = Schema.Struct({
  tier: Schema.optionalKey(Name).annotate({ examples: ["flex"] }),
  speed: Schema.optionalKey(Name).annotate({ examples: ["fast"] }),
  geo: Schema.optionalKey(Name).annotate({ examples: ["us"] }),
  isUnpriced: Schema.optionalKey(Schema.Boolean).annotate({
    description: "Whether one of these has no price, so that the dearest known one was charged"
  }),
  tokens: Schema.optionalKey(Schema.Record(Schema.String, Count)).annotate({
    description: "Tokens with a price of their own within the input, the cached input and the output",
    examples: [{ audioInput: 375 }]
  }),
  units: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        unit: Name.annotate({ examples: ["searchUnits"] }),
        quantity: Quantity,
        usdPerUnit: UsdOrZero,
        costUsd: UsdOrZero
      })
    )
  ).annotate({
    description:
      "What was billed by other units than tokens: `requests`, `searchUnits`, `characters`, `audioSeconds`, `pages`, `images`"
  }),
  gpu: Schema.optionalKey(
    Schema.Struct({
      upstreamMs: Count,
      slots: Count
    })
  ).annotate({ description: "Of a charge by the time of a GPU" }),
  hold: Schema.optionalKey(Schema.Literal("over")).annotate({
    description: "More was charged than a hard cap held"
  }),
  cost: Schema.optionalKey(Schema.Literals(["reported", "unreported"])).annotate({
    description: "Of a provider that is to report its cost: whether it did, and that was charged"
  }),
  models: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        model: Name.annotate({ examples: ["claude-opus-5"] }),
        inputTokens: Count,
        cachedInputTokens: Count,
        cacheWriteTokens: Count,
        cacheWrite1hTokens: Count,
        outputTokens: Count,
        reasoningTokens: Count,
        costUsd: UsdOrZero
      })
    )
  ).annotate({
    description:
      "The parts of the row's tokens that other models of the provider read and wrote (advisors, fallbacks), and what these cost"
  })
}).annotate({ identifier: "PriceTerms" })

/** Why a request failed. */
const UsageError = Schema.Struct({
  code: Name.annotate({
    description: "The provider's code where it sent one, such as `context_length_exceeded`, or the gateway's own",
    examples: ["provider-timeout"]
  }),
  message: Name.annotate({ examples: ["The provider did not answer in time."] })
}).annotate({
  identifier: "UsageError",
  description: "In the gateway's own words: what a provider says is not stored, since it may repeat the prompt"
})

/** A request: a gateway call that was sent, or a reservation that was reconciled. */
export const UsageRow = Schema.Struct({
  id: described(ChargeId, { description: "The charge; of a call that failed and has none, its reservation" }),
  tenantId: TenantId,
  occurredAt: Instant,
  costUsd: NetUsd,
  agentId: Schema.NullOr(AgentId),
  planId: Schema.NullOr(PlanId),
  applicationId: Schema.NullOr(ApplicationId),
  apiKeyId: Schema.NullOr(ApiKeyId),
  userId: Schema.NullOr(Name),
  taskType: Schema.NullOr(Name),
  model: Schema.NullOr(Name),
  modelServed: Schema.NullOr(Name),
  provider: Schema.NullOr(Name),
  operation: Schema.NullOr(Name),
  inputTokens: Schema.NullOr(Count),
  outputTokens: Schema.NullOr(Count),
  cachedInputTokens: Schema.NullOr(Count),
  cacheWriteTokens: Schema.NullOr(Count),
  reasoningTokens: Schema.NullOr(Count),
  method: UsageMethod,
  status: Schema.NullOr(Schema.Int).annotate({ description: "The HTTP status of the call", examples: [200] }),
  latencyMs: Schema.NullOr(Count),
  timeToFirstTokenMs: Schema.NullOr(Count),
  late: Schema.Boolean.annotate({ description: "Settled after the reservation had expired or was released" }),
  reservationId: ReservationId,
  createdBy: Schema.String.annotate({ examples: ["service-account"] }),
  servedTier: Schema.NullOr(Name).annotate({
    description: "The tier that the answer named, where it is not the usual one; it decided the price",
    examples: ["flex"]
  }),
  priceTerms: Schema.NullOr(PriceTerms).annotate({
    description: "What was charged by besides rates and tokens of text; null where there is nothing"
  }),
  synthetic: Schema.Boolean.annotate({
    description: "Of a synthetic principal, or of an agent that one registered: reports count it if asked to"
  }),
  eventTime: Schema.NullOr(Instant).annotate({
    description: "`time` of the event that reported it"
  }),
  traceId: Schema.NullOr(Name).annotate({ examples: ["0af7651916cd43dd8448eb211c80319c"] }),
  error: Schema.NullOr(UsageError).annotate({ description: "Why it failed; null where it did not" })
}).annotate({ identifier: "UsageRow" })
export type UsageRow = typeof UsageRow.Type

/** A class of tokens or a unit, and what it was charged; what no price explains, such as tools, has a cost alone. */
const UsageCharge = Schema.Struct({
  meter: Name.annotate({
    description:
      "A class of tokens, such as `input`, `cached-input`, `output` or `reasoning`, a unit of `priceTerms.units`, or `gpu-time` in hours of a GPU; `spend` is the rest",
    examples: ["input"]
  }),
  tokens: Schema.NullOr(Count),
  usdPerMTok: Schema.NullOr(NetUsd).annotate({ description: "The price of a million tokens" }),
  units: Schema.NullOr(Quantity).annotate({ description: "How many units" }),
  usdPerUnit: Schema.NullOr(NetUsd).annotate({ description: "The price of a unit" }),
  costUsd: NetUsd
}).annotate({ identifier: "UsageCharge" })

/** A cap that counted a request. */
const UsageCap = Schema.Struct({
  capId: CapId,
  name: Name.annotate({ examples: ["All agents, monthly"] }),
  unit: Unit,
  mode: CapMode,
  period: Period
}).annotate({ identifier: "UsageCap" })

export const UsageReservation = Schema.Struct({
  state: ReservationState,
  origin: Origin,
  amountUsd: UsdOrZero,
  createdAt: Instant,
  expiresAt: Instant
}).annotate({ identifier: "UsageReservation" })

/** How a price was found. */
export const Pricing = Schema.Literals(["tokens", "units", "gpu-time", "free", "reported", "unknown"]).annotate({
  description:
    "`tokens`: prices of tokens, and of other units where there are some; `units`: of those alone; `gpu-time`: the hour of a GPU; `free`: all prices are zero; `reported`: what the provider reported; `unknown`: no price is known",
  examples: ["tokens"]
})

/** Everything that is stored about a request. */
export const UsageDetail = Schema.Struct({
  ...UsageRow.fields,
  modelAsked: Schema.NullOr(Name).annotate({ description: "The model or alias that the caller named" }),
  dialect: Schema.NullOr(Name).annotate({ examples: ["openai"] }),
  cacheWrite1hTokens: Schema.NullOr(Count),
  upstreamLatencyMs: Schema.NullOr(Count).annotate({ description: "Milliseconds of it that the providers took" }),
  savedUsd: NetUsd.annotate({ description: "What the provider's cache saved" }),
  catalogueVersion: Schema.NullOr(Name),
  metadata: Schema.NullOr(Metadata),
  toolUses: Schema.NullOr(Schema.Record(Schema.String, Count)).annotate({
    description: "How often it used each tool that its provider runs and bills",
    examples: [{ webSearch: 2 }]
  }),
  attempts: Schema.Array(
    Schema.Struct({
      provider: Name,
      model: Name,
      status: Schema.Int,
      durationMs: Count,
      error: Schema.optionalKey(UsageError)
    }).annotate({ identifier: "UsageAttempt" })
  ).annotate({
    description: "Every request to a provider, in their order; the last one answered unless it has an error"
  }),
  pricing: Pricing,
  charges: Schema.Array(UsageCharge).annotate({
    description: "Its cost by class of tokens or unit, with their prices"
  }),
  caps: Schema.Array(UsageCap).annotate({ description: "The caps that counted it, of those that the caller may see" }),
  reservation: Schema.NullOr(UsageReservation).annotate({ description: "What was reserved for it" }),
  hasTranscript: Schema.Boolean.annotate({
    description: "Whether `/api/llm/admin/contents/{reservationId}` has its prompt and its answer"
  })
}).annotate({ identifier: "UsageDetail" })
export type UsageDetail = typeof UsageDetail.Type

export class UsageNotFound extends Problem<UsageNotFound>()("UsageNotFound", {
  slug: "usage-not-found",
  status: 404,
  meaning: "No request that the caller may see has this id, or its row was dropped after Usage:RetentionDays."
}) {}

/** The members of a row that text in CSV is quoted in. */
export const usageTexts: ReadonlySet<string> = new Set([
  "userId",
  "taskType",
  "model",
  "modelServed",
  "provider",
  "operation",
  "servedTier",
  "createdBy",
  "traceId"
])

const readInstant = Schema.decodeOption(Instant)

/** The place of a row in a list: its moment as PostgreSQL writes it, and its id. */
export const UsagePlace = Schema.Tuple([
  Schema.String.pipe(
    Schema.check(
      Schema.isPattern(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?\+00$/u),
      Schema.makeFilter((moment) => Option.isSome(readInstant(moment.replace(" ", "T").replace("+00", "Z"))))
    )
  ),
  Uuid
])
export type UsagePlace = typeof UsagePlace.Type
