import { type DateTime } from "effect"
import { type Principal } from "../../kernel/principal.ts"
import { covers } from "../../kernel/capability.ts"
import { instantAt } from "../../kernel/instant.ts"
import { allTenants, type CapId } from "../ledger/cap-domain.ts"
import { type Charge, type GoverningCap, PlanId, type Refund, type Reservation } from "../ledger/domain.ts"
import { type Denial } from "../ledger/problem-domain.ts"
import { totalOf, type Unit } from "../ledger/quantity-domain.ts"
import { type StoredEntry, type StoredReservation } from "../ledger/repository.ts"
import { type InsufficientBudget, type AvailableBudget } from "../ledger/request.ts"

/** A governing cap, as far as it is known of either kind. */
interface Shown {
  readonly tenantId: string
  readonly id: string
  readonly name: string
  readonly unit: string
}

const momentOf = (millis: number | null) => (millis === null ? null : instantAt(millis))

/** Whether a caller sees what a cap says: it may read budgets, and the cap is not over all tenants unless the caller is. */
const sees = (principal: Principal, cap: Pick<Shown, "tenantId">): boolean =>
  principal.capabilities.some((held) => covers(held, "budgets:read")) &&
  (cap.tenantId !== allTenants || principal.tenantId === undefined)

export const capView = (principal: Principal, cap: Shown, headroom: bigint, resetsAt: number | null): GoverningCap => ({
  capId: cap.id as CapId,
  ...(sees(principal, cap) ? { name: cap.name, headroom: totalOf(cap.unit as Unit, headroom) } : {}),
  resetsAt: momentOf(resetsAt)
})

/** The same of a cap that nothing was asked of yet. */
export const namedCapView = (
  principal: Principal,
  cap: Pick<Shown, "tenantId" | "id" | "name">,
  resetsAt: DateTime.Utc | null
): GoverningCap => ({
  capId: cap.id as CapId,
  ...(sees(principal, cap) ? { name: cap.name } : {}),
  resetsAt
})

export const capViews = (
  principal: Principal,
  available: ReadonlyArray<AvailableBudget>
): ReadonlyArray<GoverningCap> =>
  available
    .filter(({ isPlan }) => isPlan !== true)
    .map(({ cap, headroom, resetsAt }) => capView(principal, cap, headroom, resetsAt))

const zero = 0n
const positive = (amount: bigint): bigint => (amount > zero ? amount : zero)

/** A refusal, with as much of the first cap without room as the caller may see. */
export const denialOf = (
  principal: Principal,
  { limit, reserved, spent, budget }: InsufficientBudget,
  available: ReadonlyArray<AvailableBudget>,
  asked: Readonly<Record<Unit, bigint>>
): Denial => {
  const { cap } = budget
  const need = asked[cap.unit]
  const reason = need > limit ? "exceeds-limit" : spent + need <= limit ? "in-flight" : "exhausted"
  const isSeen = budget.isPlan === true || sees(principal, cap)
  const figures = isSeen
    ? {
        limit: totalOf(cap.unit, limit),
        spent: totalOf(cap.unit, spent),
        reserved: totalOf(cap.unit, reserved),
        headroom: totalOf(cap.unit, positive(limit - spent - reserved))
      }
    : {}
  return {
    detail: budget.isPlan
      ? `The plan has no room: ${reason}.`
      : isSeen
        ? `The cap "${cap.name}" has no room: ${reason}.`
        : `A budget cap has no room: ${reason}.`,
    reason,
    ...(budget.isPlan ? { capId: null, planId: PlanId.make(cap.id) } : { capId: cap.id }),
    ...figures,
    resetsAt: momentOf(budget.resetsAt),
    caps: capViews(principal, available)
  }
}

/** The refusal where no cap governs and one must. */
export const uncovered: Denial = {
  detail: "No budget cap governs this, and Budgets:RequireCap asks for one.",
  reason: "exceeds-limit",
  capId: null,
  resetsAt: null,
  caps: []
}

/** A reservation as callers see it. */
export const reservationView = (stored: StoredReservation): Reservation => {
  const { actual, amount, answer: _, counterIds: __, ...reservation } = stored
  return { ...reservation, amountUsd: amount, actualUsd: actual }
}

export const chargeView = (entry: StoredEntry): Charge => ({
  id: entry.id,
  reservationId: entry.reservationId,
  amountUsd: entry.amount,
  tokens: entry.tokens,
  overrunUsd: entry.overrun,
  late: entry.late,
  metadata: entry.metadata,
  occurredAt: entry.occurredAt,
  createdBy: entry.createdBy
})

export const refundView = (entry: StoredEntry): Refund => ({
  id: entry.id,
  chargeId: entry.chargeId,
  reservationId: entry.reservationId,
  amountUsd: -entry.amount,
  reason: entry.reason ?? "",
  occurredAt: entry.occurredAt,
  createdBy: entry.createdBy
})
