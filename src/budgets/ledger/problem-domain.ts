import { Schema } from "effect"
import { Instant } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problem.ts"
import { UsdOrZero } from "../../kernel/usd.ts"
import { CapId } from "./cap-domain.ts"
import { GoverningCap, Origin, PlanId, PlanStatus, ReservationState } from "./domain.ts"
import { Total } from "./quantity-domain.ts"

/** Why a cap or a plan lets nothing more in. */
export const denial = {
  reason: Schema.Literals(["exhausted", "exceeds-limit", "in-flight"]),
  capId: Schema.NullOr(CapId),
  planId: Schema.optionalKey(PlanId).annotate({ description: "The plan, where it is that which has no room" }),
  limit: Schema.optionalKey(Total),
  spent: Schema.optionalKey(Total),
  reserved: Schema.optionalKey(Total),
  headroom: Schema.optionalKey(Total),
  resetsAt: Schema.NullOr(Instant),
  caps: Schema.Array(GoverningCap)
}

export type Denial = { readonly detail: string } & Schema.Struct<typeof denial>["Type"]

export class BudgetDenied extends Problem<BudgetDenied>()(
  "BudgetDenied",
  {
    slug: "budget-denied",
    status: 402,
    meaning:
      "A budget cap has no room. `exhausted`: it is spent. `exceeds-limit`: the amount is more than the cap ever allows. `in-flight`: it would fit once open reservations settle."
  },
  denial
) {}

export class ReservationNotFound extends Problem<ReservationNotFound>()("ReservationNotFound", {
  slug: "reservation-not-found",
  status: 404,
  meaning: "No reservation that the caller may see has this id."
}) {}

export class PlanNotFound extends Problem<PlanNotFound>()("PlanNotFound", {
  slug: "plan-not-found",
  status: 404,
  meaning: "The agent has no plan with this id."
}) {}

export class PlanNotActive extends Problem<PlanNotActive>()(
  "PlanNotActive",
  {
    slug: "plan-not-active",
    status: 409,
    meaning:
      "The plan is not active: `planStatus` says what it is. A heartbeat revives one that is suspended; what has ended stays ended."
  },
  { planStatus: PlanStatus }
) {}

export class ChargeNotFound extends Problem<ChargeNotFound>()("ChargeNotFound", {
  slug: "charge-not-found",
  status: 404,
  meaning: "No charge that the caller may see has this id."
}) {}

export class ReservationManaged extends Problem<ReservationManaged>()(
  "ReservationManaged",
  {
    slug: "reservation-managed",
    status: 409,
    meaning: "The gateway or a plan looks after this reservation; it is not settled, released or extended by hand."
  },
  { origin: Origin }
) {}

export class ReservationSettled extends Problem<ReservationSettled>()("ReservationSettled", {
  slug: "reservation-settled",
  status: 409,
  meaning: "The reservation is settled, with another actual or for good."
}) {}

export class ReservationNotOpen extends Problem<ReservationNotOpen>()(
  "ReservationNotOpen",
  {
    slug: "reservation-not-open",
    status: 409,
    meaning: "The reservation is not, or no longer, open."
  },
  { state: ReservationState }
) {}

export class CounterFull extends Problem<CounterFull>()("CounterFull", {
  slug: "counter-full",
  status: 409,
  meaning:
    "A cap that governs the reservation can count no more in its period: about nine billion US dollars, or nine billion billions of tokens. What was reserved can always be settled."
}) {}

export class ReservationTooSmall extends Problem<ReservationTooSmall>()(
  "ReservationTooSmall",
  {
    slug: "reservation-too-small",
    status: 409,
    meaning: "The call may cost more than the reservation has."
  },
  { estimateUsd: UsdOrZero.annotate({ description: "What the call may cost" }) }
) {}

export class ReservationNotHeld extends Problem<ReservationNotHeld>()("ReservationNotHeld", {
  slug: "reservation-not-held",
  status: 409,
  meaning: "The reservation does not, or no longer, wait for an approval."
}) {}

export class StillNoHeadroom extends Problem<StillNoHeadroom>()(
  "StillNoHeadroom",
  {
    slug: "still-no-headroom",
    status: 409,
    meaning:
      "A cap still has no room for the reservation; `override` raises caps of mode approval, and no hard one, nor for a tenant's caller one over all tenants."
  },
  { capId: Schema.NullOr(CapId) }
) {}

export class RefundExceedsCharge extends Problem<RefundExceedsCharge>()(
  "RefundExceedsCharge",
  {
    slug: "refund-exceeds-charge",
    status: 409,
    meaning: "All refunds of a charge together are at most the charge; `refundableUsd` is what is left."
  },
  { refundableUsd: UsdOrZero }
) {}

export class PriceUnknown extends Problem<PriceUnknown>()(
  "PriceUnknown",
  {
    slug: "price-unknown",
    status: 400,
    meaning: "The catalogue has no price for this model; name the amount in US dollars instead."
  },
  { model: Schema.String }
) {}
