import { Schema } from "effect"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { serverSet } from "../../kernel/http/server-set.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { name } from "../../kernel/text.ts"
import { NetUsd } from "../usage/domain.ts"

export const AnomalyId = Uuid.pipe(Schema.brand("AnomalyId"))
export type AnomalyId = typeof AnomalyId.Type

/**
 * What an anomaly is of: an agent, a model or a task type whose cost is odd, a plan that is dear, a cap that burns fast, a provider
 * that billed something else than was charged.
 */
export const AnomalyDimension = Schema.Literals(["agent", "model", "task-type", "plan", "cap", "provider"])
export type AnomalyDimension = typeof AnomalyDimension.Type

export const AnomalyKind = Schema.Literals(["spike", "level-shift", "loop", "burn-rate", "new", "bill"])
export type AnomalyKind = typeof AnomalyKind.Type

export const AnomalyStatus = Schema.Literals(["open", "acknowledged", "dismissed"])
export type AnomalyStatus = typeof AnomalyStatus.Type

/** Who else was charged in the episode, by cost. */
export const Contributor = Schema.Struct({
  dimension: Schema.Literals(["agent", "model", "task-type"]),
  key: Schema.String,
  costUsd: Schema.Finite.pipe(Schema.check(Schema.isBetween({ minimum: -(2 ** 63), maximum: 2 ** 63 })))
})
export type Contributor = typeof Contributor.Type

const Reason = name(500)

/** Above it an anomaly cannot be more certain. */
export const maxScore = 99

export const Anomaly = Schema.Struct({
  id: AnomalyId,
  tenantId: Schema.NullOr(TenantId).annotate({
    description: "Null for the bill of a provider, which is of the installation"
  }),
  detectedAt: Instant,
  dimension: AnomalyDimension,
  key: Schema.String,
  start: Instant,
  end: Instant.annotate({ description: "Exclusive; it moves while the episode lasts" }),
  expectedUsd: NetUsd,
  actualUsd: NetUsd,
  impactUsd: NetUsd.annotate({ description: "What was spent beyond what is usual; below zero for a drop" }),
  score: Schema.Finite.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: maxScore }))).annotate({
    description: "Minus the decimal logarithm of the probability; of burn-rate how many times faster than usual"
  }),
  kind: AnomalyKind,
  contributors: Schema.Array(Contributor),
  status: AnomalyStatus,
  reason: Schema.NullOr(Reason)
}).annotate({ identifier: "Anomaly" })
export type Anomaly = typeof Anomaly.Type

/** Another status needs a reason; what the server sets may be sent back. */
export const AnomalyPatch = Schema.Struct({
  status: Schema.optionalKey(AnomalyStatus),
  reason: Schema.optionalKey(Schema.NullOr(Reason)),
  ...serverSet(
    "id",
    "tenantId",
    "detectedAt",
    "dimension",
    "key",
    "start",
    "end",
    "expectedUsd",
    "actualUsd",
    "impactUsd",
    "score",
    "kind",
    "contributors"
  )
}).annotate({ identifier: "AnomalyPatch" })
export type AnomalyPatch = typeof AnomalyPatch.Type

export const anomalyActions = auditActions("Anomaly", [
  "AnomalyDetected",
  "AnomalyAcknowledged",
  "AnomalyDismissed",
  "AnomalyReopened"
])

export class AnomalyNotFound extends Problem<AnomalyNotFound>()("AnomalyNotFound", {
  slug: "anomaly-not-found",
  status: 404,
  meaning: "No anomaly has this id."
}) {}
