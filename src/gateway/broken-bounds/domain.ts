import { Schema } from "effect"
import { ReservationId } from "../../budgets/ledger/domain.ts"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { serverSet } from "../../kernel/http/server-set.ts"
import { Uuid } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { name } from "../../kernel/text.ts"
import { UsdOrZero } from "../../kernel/usd.ts"
import { ProviderId } from "../configuration/domain.ts"

export const BrokenBoundId = Uuid.pipe(Schema.brand("BrokenBoundId"))
export type BrokenBoundId = typeof BrokenBoundId.Type

/** `over` refuses calls under hard caps, and `acknowledged` takes them again. */
export const BrokenBoundStatus = Schema.Literals(["over", "acknowledged"]).annotate({ examples: ["over"] })
export type BrokenBoundStatus = typeof BrokenBoundStatus.Type

const Reason = name(500).annotate({ examples: ["The provider has refunded it."] })
const Count = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })))
const Tokens = Schema.NullOr(Count).annotate({ examples: [1180] })

/** A kind of calls of a target, one of which was charged more than was held for it under a hard cap. */
export const BrokenBound = Schema.Struct({
  id: BrokenBoundId,
  provider: ProviderId,
  model: Schema.String.annotate({ examples: ["gpt-4o"] }),
  operation: Schema.String.annotate({ examples: ["chat"] }),
  status: BrokenBoundStatus,
  reservationId: ReservationId,
  reservedUsd: UsdOrZero,
  chargedUsd: UsdOrZero,
  reservedTokens: Tokens,
  chargedTokens: Tokens,
  times: Count.annotate({ description: "How many charges until then", examples: [1] }),
  brokenAt: Instant,
  acknowledgedAt: Schema.NullOr(Instant),
  acknowledgedBy: Schema.NullOr(Schema.String).annotate({ examples: ["service-account"] }),
  reason: Schema.NullOr(Reason)
}).annotate({ identifier: "BrokenBound" })
export type BrokenBound = typeof BrokenBound.Type

/** An acknowledgement, with its reason; what the server sets may be sent back. */
export const BrokenBoundPatch = Schema.Struct({
  status: Schema.optionalKey(BrokenBoundStatus),
  reason: Schema.optionalKey(Schema.NullOr(Reason)),
  ...serverSet(
    "id",
    "provider",
    "model",
    "operation",
    "reservationId",
    "reservedUsd",
    "chargedUsd",
    "reservedTokens",
    "chargedTokens",
    "times",
    "brokenAt",
    "acknowledgedAt",
    "acknowledgedBy"
  )
}).annotate({ identifier: "BrokenBoundPatch" })
export type BrokenBoundPatch = typeof BrokenBoundPatch.Type

export const brokenBoundActions = auditActions("GatewayTarget", [
  "GatewayTargetBoundBroken",
  "GatewayTargetBoundAcknowledged"
])

export class BrokenBoundNotFound extends Problem<BrokenBoundNotFound>()("BrokenBoundNotFound", {
  slug: "broken-bound-not-found",
  status: 404,
  meaning: "No charge that exceeded what was held for it has this id."
}) {}
