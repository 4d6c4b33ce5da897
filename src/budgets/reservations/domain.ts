import { Schema } from "effect"
import { AgentId } from "../../agents/agents/domain.ts"
import { ApiKeyId } from "../../agents/api-keys/domain.ts"
import { ApplicationId } from "../../applications/applications/domain.ts"
import { listing } from "../../kernel/http/listing.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { name } from "../../kernel/text.ts"
import { Usd, UsdOrZero } from "../../kernel/usd.ts"
import {
  ChargeId,
  GoverningCap,
  Label,
  Metadata,
  Origin,
  PlanId,
  ReservationId,
  ReservationState
} from "../ledger/domain.ts"

/** How they are listed. */
export const reservationListing = listing(
  ReservationId,
  { createdAt: "id" },
  {
    searches:
      "the model, the provider, the task type, the user, who made it, or the name of the account, the agent or the API key that made it"
  }
)

const maxTokens = 1_000_000_000_000
const Tokens = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: maxTokens }))).annotate({
  examples: [1200]
})
/** Input and output together. */
const AllTokens = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 2 * maxTokens }))).annotate({
  examples: [1200]
})
const TtlSeconds = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 5, maximum: 86_400 }))).annotate({
  examples: [300]
})
export const ttlSecondsDefault = 300

const Count = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000_000 })))
/** A day of audio is 86,400 seconds. */
const Seconds = Schema.Finite.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 31_536_000 })))

/** What is billed by another unit than tokens. */
const Units = Schema.Struct({
  searchUnits: Schema.optionalKey(Count.annotate({ examples: [1] })),
  characters: Schema.optionalKey(Count.annotate({ examples: [400] })),
  audioSeconds: Schema.optionalKey(Seconds.annotate({ examples: [61.5] })),
  pages: Schema.optionalKey(Count.annotate({ examples: [3] })),
  images: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        count: Count.annotate({ examples: [2] }),
        size: Schema.optionalKey(Label.annotate({ examples: ["1024x1024"] })),
        quality: Schema.optionalKey(Label.annotate({ examples: ["standard"] }))
      })
    )
      .pipe(Schema.check(Schema.isMaxLength(16)))
      .annotate({ description: "The images that are made; the dearest price of those that may be meant counts" })
  )
}).annotate({
  identifier: "SpendUnits",
  description: "Units that a model has a price of besides its tokens; one that it has a price of is needed"
})
export type Units = typeof Units.Type

/** What a call may cost, by the catalogue's prices. */
const Estimate = Schema.Struct({
  model: Label,
  inputTokens: Tokens,
  maxOutputTokens: Tokens,
  units: Schema.optionalKey(Units)
}).annotate({
  identifier: "SpendEstimate",
  examples: [{ model: "gpt-5", inputTokens: 1200, maxOutputTokens: 400 }]
})
export type Estimate = typeof Estimate.Type

/** What a call did use, priced by the catalogue. */
const Usage = Schema.Struct({
  model: Label,
  inputTokens: Tokens,
  outputTokens: Tokens,
  cacheReadTokens: Schema.optionalKey(Tokens),
  cacheWriteTokens: Schema.optionalKey(Tokens),
  reasoningTokens: Schema.optionalKey(Tokens),
  units: Schema.optionalKey(Units)
})
  .pipe(
    Schema.check(
      Schema.makeFilter(
        ({ cacheReadTokens = 0, cacheWriteTokens = 0, inputTokens, outputTokens, reasoningTokens = 0 }) => [
          ...(cacheReadTokens + cacheWriteTokens > inputTokens
            ? [
                {
                  path: ["inputTokens"],
                  issue: "Expected at least cacheReadTokens and cacheWriteTokens, which are among them"
                }
              ]
            : []),
          ...(reasoningTokens > outputTokens
            ? [{ path: ["outputTokens"], issue: "Expected at least reasoningTokens, which are among them" }]
            : [])
        ]
      )
    )
  )
  .annotate({ identifier: "SpendUsage", examples: [{ model: "gpt-5", inputTokens: 1180, outputTokens: 212 }] })
export type Usage = typeof Usage.Type

const isPriced = Schema.makeFilter(
  ({ amountUsd, estimate, model }: { amountUsd?: bigint; estimate?: Estimate; model?: string }) => [
    ...(amountUsd !== undefined && estimate !== undefined
      ? [{ path: ["estimate"], issue: "Expected only one of amountUsd and estimate" }]
      : []),
    ...(estimate !== undefined && model !== undefined && model !== estimate.model
      ? [{ path: ["model"], issue: "Expected the model of the estimate" }]
      : [])
  ]
)

export const ReserveRequest = Schema.Struct({
  agentId: Schema.optionalKey(AgentId),
  planId: Schema.optionalKey(PlanId),
  model: Schema.optionalKey(Label),
  provider: Schema.optionalKey(Label),
  taskType: Schema.optionalKey(Label),
  applicationId: Schema.optionalKey(ApplicationId),
  userId: Schema.optionalKey(Label),
  amountUsd: Schema.optionalKey(Usd),
  estimate: Schema.optionalKey(Estimate),
  tokens: Schema.optionalKey(Tokens),
  ttlSeconds: Schema.optionalKey(TtlSeconds),
  metadata: Schema.optionalKey(Metadata)
})
  .pipe(Schema.check(isPriced))
  .annotate({
    identifier: "ReserveRequest",
    examples: [{ amountUsd: 250_000_000n, tokens: 1600, taskType: "summarize" }]
  })
export type ReserveRequest = typeof ReserveRequest.Type

const RemainingSeconds = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 31_536_000 }))).annotate({
  examples: [300]
})

const reserved = {
  id: ReservationId,
  amountUsd: UsdOrZero,
  tokens: AllTokens,
  expiresAt: Instant,
  remainingTtlSeconds: RemainingSeconds,
  caps: Schema.Array(GoverningCap),
  planId: Schema.NullOr(PlanId)
}

/** The answer to a reserve that was admitted. */
export const OpenedReservation = Schema.Struct({ ...reserved, state: Schema.tag("open") }).annotate({
  identifier: "OpenedReservation"
})
/** The response to a reserve that needs an approval: it takes no headroom until it is approved. */
export const HeldReservation = Schema.Struct({ ...reserved, state: Schema.tag("held") }).annotate({
  identifier: "HeldReservation"
})

/** A reservation with its current state and, once settled, its charge. */
export const Reservation = Schema.Struct({
  id: ReservationId,
  tenantId: TenantId,
  state: ReservationState,
  origin: Origin,
  agentId: Schema.NullOr(AgentId),
  planId: Schema.NullOr(PlanId),
  applicationId: Schema.NullOr(ApplicationId),
  apiKeyId: Schema.NullOr(ApiKeyId),
  userId: Schema.NullOr(Label),
  model: Schema.NullOr(Label),
  provider: Schema.NullOr(Label),
  taskType: Schema.NullOr(Label),
  amountUsd: UsdOrZero,
  tokens: AllTokens,
  ttlSeconds: TtlSeconds,
  expiresAt: Instant,
  createdAt: Instant,
  createdBy: Schema.String.annotate({ examples: ["service-account"] }),
  metadata: Schema.NullOr(Metadata),
  decidedAt: Schema.NullOr(Instant),
  decidedBy: Schema.NullOr(Schema.String.annotate({ examples: ["account:0198a5b0-7c00-7000-8000-00000000002a"] })),
  decisionReason: Schema.NullOr(Schema.String.annotate({ examples: ["Month-end close"] })),
  closedAt: Schema.NullOr(Instant),
  chargeId: Schema.NullOr(ChargeId),
  actualUsd: Schema.NullOr(UsdOrZero),
  actualTokens: Schema.NullOr(AllTokens),
  late: Schema.Boolean.annotate({ description: "Settled after it had expired or was released" })
}).annotate({ identifier: "Reservation" })
export type Reservation = typeof Reservation.Type

/** The actual cost that a settlement charged. */
export const Charge = Schema.Struct({
  id: ChargeId,
  reservationId: ReservationId,
  amountUsd: UsdOrZero,
  tokens: AllTokens,
  overrunUsd: UsdOrZero.annotate({ description: "How much of it is more than was reserved" }),
  late: Schema.Boolean,
  metadata: Schema.NullOr(Metadata),
  occurredAt: Instant,
  createdBy: Schema.String.annotate({ examples: ["service-account"] })
}).annotate({ identifier: "Charge" })
export type Charge = typeof Charge.Type

const isCharged = Schema.makeFilter(({ actualUsd, usage }: { actualUsd?: bigint; usage?: Usage }) =>
  (actualUsd === undefined) === (usage === undefined)
    ? { path: ["actualUsd"], issue: "Expected one of actualUsd and usage" }
    : undefined
)

export const ReconcileRequest = Schema.Struct({
  reservationId: ReservationId,
  actualUsd: Schema.optionalKey(UsdOrZero),
  usage: Schema.optionalKey(Usage),
  metadata: Schema.optionalKey(Metadata)
})
  .pipe(Schema.check(isCharged))
  .annotate({
    identifier: "ReconcileRequest",
    examples: [{ reservationId: ReservationId.make("0198a5b0-7c00-7000-8000-00000000002a"), actualUsd: 180_000_000n }]
  })
export type ReconcileRequest = typeof ReconcileRequest.Type

/** What was spent without a reservation. */
export const SpentUsage = Schema.Struct({
  actualUsd: ReconcileRequest.fields.actualUsd,
  usage: ReconcileRequest.fields.usage,
  agentId: ReserveRequest.fields.agentId,
  planId: ReserveRequest.fields.planId,
  model: ReserveRequest.fields.model,
  provider: ReserveRequest.fields.provider,
  taskType: ReserveRequest.fields.taskType,
  userId: ReserveRequest.fields.userId
}).pipe(Schema.check(isCharged))
export type SpentUsage = typeof SpentUsage.Type

export const Reconciled = Schema.Struct({ reservation: Reservation, charge: Charge }).annotate({
  identifier: "Reconciled"
})
export type Reconciled = typeof Reconciled.Type

export const ExtendRequest = Schema.Struct({ ttlSeconds: TtlSeconds }).annotate({
  identifier: "ExtendRequest",
  examples: [{ ttlSeconds: 600 }]
})

const Reason = name(500, { examples: ["Provider credited the call"] })

export const RefundRequest = Schema.Struct({ chargeId: ChargeId, amountUsd: Usd, reason: Reason }).annotate({
  identifier: "RefundRequest",
  examples: [
    {
      chargeId: ChargeId.make("0198a5b0-7c00-7000-8000-00000000002a"),
      amountUsd: 50_000_000n,
      reason: "Provider credited the call"
    }
  ]
})
export type RefundRequest = typeof RefundRequest.Type

/** A refund of a charge, whole or in part. */
export const Refund = Schema.Struct({
  id: ChargeId,
  chargeId: ChargeId,
  reservationId: ReservationId,
  amountUsd: Usd,
  reason: Reason,
  occurredAt: Instant,
  createdBy: Schema.String.annotate({ examples: ["service-account"] })
}).annotate({ identifier: "Refund" })
export type Refund = typeof Refund.Type
