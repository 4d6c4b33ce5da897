import { Schema } from "effect"
import { name } from "../../kernel/text.ts"
import { Usd } from "../../kernel/usd.ts"
import { CountedScope } from "../caps/domain.ts"
import { CapMode, GoverningCap } from "../ledger/domain.ts"
import { Total, Unit } from "../ledger/quantity-domain.ts"
import { Reservation } from "../reservations/domain.ts"

const Reason = name(500, { examples: ["Provider credited the call"] })

export const Approval = Schema.Struct({
  reason: Schema.optionalKey(Reason),
  ceilingUsd: Schema.optionalKey(Usd).annotate({ description: "Approves at most this much of it" }),
  override: Schema.optionalKey(Schema.Boolean).annotate({
    description: "Raises caps of mode `approval` by what is short; needs budgets:write too"
  })
}).annotate({ identifier: "Approval", examples: [{ reason: "Month-end close", override: true }] })
export type Approval = typeof Approval.Type

export const Denial = Schema.Struct({ reason: Reason }).annotate({
  identifier: "Denial",
  examples: [{ reason: "Not this month" }]
})

/** A cap that governs a held reservation: what it has left, and what it is short of. Callers that may not see its figures get the rest. */
export const PendingCap = Schema.Struct({
  ...GoverningCap.fields,
  mode: Schema.optionalKey(CapMode),
  scope: Schema.optionalKey(CountedScope),
  unit: Schema.optionalKey(Unit),
  limit: Schema.optionalKey(Total).annotate({ description: "With its grants" }),
  spent: Schema.optionalKey(Total),
  reserved: Schema.optionalKey(Total),
  requested: Schema.optionalKey(Total),
  short: Schema.optionalKey(Total).annotate({ description: "How much it lacks to admit all of the reservation" }),
  hasRoom: Schema.Boolean.annotate({ description: "Whether an approval of all of it needs no raise" }),
  mayRaise: Schema.Boolean.annotate({
    description: "Whether an approval with `override` raises it by what is short, for a caller with budgets:write"
  })
}).annotate({ identifier: "PendingCap" })

/** A reservation that waits for an approval, with the caps that govern it. */
export const PendingApproval = Schema.Struct({
  reservation: Reservation,
  caps: Schema.Array(PendingCap),
  mayDecide: Schema.Boolean.annotate({
    description: "False where the caller has made the request, or is of the same holder as the one that did"
  })
}).annotate({ identifier: "PendingApproval" })
export type PendingCap = typeof PendingCap.Type
export type PendingApproval = typeof PendingApproval.Type
