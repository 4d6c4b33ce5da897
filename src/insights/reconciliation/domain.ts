import { Schema } from "effect"
import { BillFailureReason } from "../../gateway/bills/domain.ts"
import { ProviderId } from "../../gateway/configuration/domain.ts"
import { Instant } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { NetUsd } from "../usage/domain.ts"
import { explanationKinds } from "./comparison-domain.ts"

/** A day in UTC. */
const Day = Schema.String.annotate({ format: "date", examples: ["2026-11-24"] })
const Count = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })))

const Counted = Schema.Struct({ billed: Count, charged: Count }).annotate({
  identifier: "ReconciledCount",
  description: "As the provider reports it, and as the gateway counted it"
})

export const ReconciliationExplanation = Schema.Struct({
  kind: Schema.Literals(explanationKinds).annotate({
    description:
      "`other-keys` and `other-clients` that others use the account or the keys, `batch` and `tier` that calls were served otherwise than they were charged, `discount` what the provider billed below its list prices, `late` that the day is not settled, `estimated` charges of calls without a count; `price` that the same tokens cost otherwise, and `unknown`, which are findings"
  }),
  amountUsd: NetUsd.annotate({
    description: "The part of the difference, below zero where less was billed than charged"
  }),
  detail: Schema.String.annotate({ examples: ["The provider counts 120 requests, and the gateway 100."] })
}).annotate({ identifier: "ReconciliationExplanation" })

const ReconciledKey = Schema.Struct({
  keyId: Schema.NullOr(Schema.String).annotate({ examples: ["key_8fK2"] }),
  projectId: Schema.NullOr(Schema.String).annotate({
    description: "OpenAI's project, Anthropic's workspace",
    examples: ["proj_1aQ"]
  }),
  isOwn: Schema.Boolean.annotate({ description: "Whether it counts as the gateway's own key" }),
  billedUsd: NetUsd,
  requests: Count
}).annotate({ identifier: "ReconciledKey" })

/** A day of a provider's model, as the provider bills it and as it was charged. */
export const Reconciliation = Schema.Struct({
  day: Day,
  provider: ProviderId,
  model: Schema.NullOr(Schema.String).annotate({
    description: "The provider's name of it, as targets have it; null for what is billed without a model",
    examples: ["gpt-5"]
  }),
  billedModels: Schema.Array(Schema.String).annotate({ examples: [["gpt-5-2025-08-07"]] }),
  billedUsd: NetUsd.annotate({ description: "What the provider says that it billed" }),
  chargedUsd: NetUsd.annotate({ description: "What was charged for calls, without refunds" }),
  differenceUsd: NetUsd.annotate({ description: "Billed less charged" }),
  unexplainedUsd: NetUsd.annotate({ description: "What `price` and `unknown` amount to" }),
  isFinding: Schema.Boolean.annotate({
    description: "Whether that is more than 1 % of what was billed, and than a dollar, on a settled day"
  }),
  isSettled: Schema.Boolean.annotate({ description: "Whether the day was read three days after its end, or later" }),
  readAt: Instant,
  requests: Counted,
  inputTokens: Counted,
  outputTokens: Counted,
  keys: Schema.Array(ReconciledKey).annotate({ description: "By what they were billed, the highest first" }),
  explanations: Schema.Array(ReconciliationExplanation).annotate({ description: "They add up to the difference" })
}).annotate({ identifier: "Reconciliation" })
export type Reconciliation = typeof Reconciliation.Type

/** What is known of the bill of a provider. */
export const BillState = Schema.Struct({
  provider: ProviderId,
  state: Schema.Literals(["unread", "read", "failed"]).annotate({
    description: "`failed`: the last reading failed, and the figures are those of the one before"
  }),
  readAt: Schema.NullOr(Instant),
  failedAt: Schema.NullOr(Instant),
  reason: Schema.NullOr(BillFailureReason).annotate({ examples: ["forbidden"] }),
  detail: Schema.NullOr(Schema.String).annotate({
    examples: ["The provider does not let the admin key read usage and costs."]
  })
}).annotate({ identifier: "BillState" })
export type BillState = typeof BillState.Type

export const ReconciliationTotals = Schema.Struct({
  billedUsd: NetUsd,
  chargedUsd: NetUsd,
  differenceUsd: NetUsd,
  unexplainedUsd: NetUsd,
  findings: Count
}).annotate({ identifier: "ReconciliationTotals" })

/** The order of the list: days downwards, then providers and models. */
export const ReconciliationPosition = Schema.Tuple([Schema.String, Schema.String, Schema.String])
export type ReconciliationPosition = typeof ReconciliationPosition.Type

export const RefreshRequest = Schema.Struct({
  provider: Schema.optionalKey(ProviderId).annotate({ description: "All that have an admin key unless given" })
}).annotate({ identifier: "ReconciliationRefresh" })

export const RefreshResult = Schema.Struct({ providers: Schema.Array(BillState) }).annotate({
  identifier: "ReconciliationRefreshed"
})

export class NoBilling extends Problem<NoBilling>()("NoBilling", {
  slug: "provider-billing-not-found",
  status: 404,
  meaning: "The gateway's configuration has no provider with this id and an admin key (`billing`)."
}) {}
