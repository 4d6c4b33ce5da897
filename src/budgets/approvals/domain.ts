import { Schema } from "effect"
import { name } from "../../kernel/text.ts"
import { Usd } from "../../kernel/usd.ts"
import { GoverningCap } from "../ledger/domain.ts"
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

/** A reservation that waits for an approval, with the caps that govern it. */
export const PendingApproval = Schema.Struct({
  reservation: Reservation,
  caps: Schema.Array(GoverningCap),
  mayDecide: Schema.Boolean.annotate({
    description: "False where the caller has made the request, or is of the same holder as the one that did"
  })
}).annotate({ identifier: "PendingApproval" })
export type PendingApproval = typeof PendingApproval.Type
