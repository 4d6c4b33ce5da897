import { type DateTime } from "effect"
import { type Refusal } from "../../audit/log/service.ts"
import { covers } from "../../kernel/authority/capability.ts"
import { Forbidden, type Principal } from "../../kernel/authority/principal.ts"
import { instantAt } from "../../kernel/instant.ts"
import {
  allTenants,
  BudgetDenied,
  type CapId,
  CounterFull,
  type Denial,
  type GoverningCap,
  type Origin,
  PlanId,
  PlanNotActive,
  PlanNotFound,
  type PlanStatus,
  RefundExceedsCharge,
  ReservationManaged,
  ReservationNotFound,
  ReservationNotHeld,
  ReservationNotOpen,
  ReservationSettled,
  type ReservationState,
  ReservationTooSmall,
  spendActions,
  StillNoHeadroom
} from "./domain.ts"
import { type AvailableBudget, type BudgetSubject, type Denied, type InsufficientBudget } from "./protocol-domain.ts"
import { quantityOf, totalOf, type Unit } from "./quantity-domain.ts"

/** What a request is answered with at its time limit, while it waits for the ledger. */
export const ledgerLate = "The ledger did not answer in time."

/** An applicable cap, as the ledger or a stored answer has it. */
interface NamedCap {
  readonly tenantId: string
  readonly id: string
  readonly name: string
  readonly unit: string
}

const momentOf = (millis: number | null) => (millis === null ? null : instantAt(millis))

/** Whether a caller may see the figures of a cap: it may read budgets, and the cap is its tenant's or it is a system caller. */
const sees = (principal: Principal, cap: Pick<NamedCap, "tenantId">): boolean =>
  principal.capabilities.some((held) => covers(held, "budgets:read")) &&
  (cap.tenantId !== allTenants || principal.tenantId === undefined)

export const toGoverningCap = (
  principal: Principal,
  cap: NamedCap,
  headroom: bigint,
  resetsAt: number | null
): GoverningCap => ({
  capId: cap.id as CapId,
  ...(sees(principal, cap) ? { name: cap.name, headroom: totalOf(cap.unit as Unit, headroom) } : {}),
  resetsAt: momentOf(resetsAt)
})

/** The same of a cap whose use was not read. */
export const toNamedCap = (
  principal: Principal,
  cap: Pick<NamedCap, "tenantId" | "id" | "name">,
  resetsAt: DateTime.Utc | null
): GoverningCap => ({
  capId: cap.id as CapId,
  ...(sees(principal, cap) ? { name: cap.name } : {}),
  resetsAt
})

export const toGoverningCaps = (
  principal: Principal,
  available: ReadonlyArray<AvailableBudget>
): ReadonlyArray<GoverningCap> =>
  available
    .filter(({ isPlan }) => isPlan !== true)
    .map(({ cap, headroom, resetsAt }) => toGoverningCap(principal, cap, headroom, resetsAt))

const zero = 0n
const positive = (amount: bigint): bigint => (amount > zero ? amount : zero)

const meanings = {
  exhausted: "what is left is less than the amount",
  "exceeds-limit": "the amount is more than it ever allows",
  "in-flight": "open reservations hold what is left; it may fit once they settle"
}

const reasonOf = ({ budget: { cap }, limit, requested, spent }: InsufficientBudget): Denial["reason"] => {
  const need = requested[cap.unit]
  return need > limit ? "exceeds-limit" : spent + need <= limit ? "in-flight" : "exhausted"
}

const detailOf = ({ budget: { cap, isPlan } }: InsufficientBudget, reason: Denial["reason"], isSeen: boolean): string =>
  isPlan === true
    ? `The plan has no room: ${meanings[reason]}.`
    : isSeen
      ? `The cap "${cap.name}" has no room: ${meanings[reason]}.`
      : `A budget cap has no room: ${meanings[reason]}.`

/**
 * What the audit log keeps of a denial: under the cap or plan that has no room, or under none where a cap is required and
 * none applies; of a cap over all tenants no figures.
 */
export const refusalOf = (
  { dimensions, tenantId }: Pick<BudgetSubject, "dimensions" | "tenantId">,
  denial: Pick<Denied, "insufficient"> | { readonly verdict: "uncovered" }
): Refusal => {
  const action = spendActions.SpendRefused
  if (!("insufficient" in denial)) {
    return {
      action,
      target: null,
      tenantId,
      reason: uncovered.detail,
      after: { reason: denial.verdict, ...dimensions }
    }
  }
  const { insufficient } = denial
  const { budget, limit, requested, reserved, spent } = insufficient
  const { cap } = budget
  const { unit } = cap
  const isSeen = cap.tenantId !== allTenants
  const reason = reasonOf(insufficient)
  const figures = {
    limit: quantityOf(unit, limit),
    spent: quantityOf(unit, spent),
    reserved: quantityOf(unit, reserved)
  }
  return {
    action,
    target: cap.id,
    tenantId,
    reason: detailOf(insufficient, reason, isSeen),
    after: { reason, unit, requested: quantityOf(unit, requested[unit]), ...(isSeen ? figures : {}), ...dimensions }
  }
}

/** The members of a denial, with the figures of the failing cap as far as the caller may see them. */
export const denialOf = (principal: Principal, { available, insufficient }: Denied): Denial => {
  const { budget, limit, reserved, spent } = insufficient
  const { cap } = budget
  const reason = reasonOf(insufficient)
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
    detail: detailOf(insufficient, reason, isSeen),
    reason,
    ...(budget.isPlan ? { capId: null, planId: PlanId.make(cap.id) } : { capId: cap.id }),
    ...figures,
    resetsAt: momentOf(budget.resetsAt),
    caps: toGoverningCaps(principal, available)
  }
}

/** The members of a denial where a cap is required and none applies. */
export const uncovered: Denial = {
  detail: "No budget cap applies to this reservation, and Budgets:RequireCap requires one.",
  reason: "exceeds-limit",
  capId: null,
  resetsAt: null,
  caps: []
}

const anotherPrincipal = "Another principal made this reservation."

/** The problem for each verdict of the ledger that refuses a request. */
const problems = {
  denied: (denied: Denied, principal: Principal) => new BudgetDenied(denialOf(principal, denied)),
  "no-room": ({ insufficient: { budget } }: Denied) =>
    new StillNoHeadroom({ capId: budget.isPlan ? null : budget.cap.id }),
  uncovered: () => new BudgetDenied(uncovered),
  gone: () => new ReservationNotHeld({}),
  missing: () => new ReservationNotFound({}),
  foreign: (_: object, { kind }: Principal) =>
    new Forbidden({ missing: kind === "agent" ? [] : ["budgets:write"], detail: anotherPrincipal }),
  "other-caller": (_: object, { kind }: Principal) =>
    kind === "agent"
      ? new ReservationNotFound({})
      : new Forbidden({ missing: [], detail: "The reservation is of another principal, or for another agent." }),
  managed: ({ origin = "gateway" }: { readonly origin?: Origin }) => new ReservationManaged({ origin }),
  "managed-by-plan": () => new ReservationManaged({ origin: "plan" }),
  conflict: () => new ReservationSettled({}),
  unopened: ({ state }: { readonly state: ReservationState }) => new ReservationNotOpen({ state }),
  full: () => new CounterFull({}),
  "too-small": ({ amount }: { readonly amount: bigint }) => new ReservationTooSmall({ estimateUsd: amount }),
  "other-plan": () => new PlanNotFound({ detail: "The reservation is under another plan, or under none." }),
  "plan-missing": () => new PlanNotFound({}),
  "plan-inactive": ({ planStatus }: { readonly planStatus: PlanStatus }) => new PlanNotActive({ planStatus }),
  own: () =>
    new Forbidden({
      missing: [],
      detail: "A charge cannot be refunded by the principal that made it, nor by one of the same holder."
    }),
  exceeds: ({ refundable = zero }: { readonly refundable?: bigint | undefined }) =>
    new RefundExceedsCharge({ refundableUsd: refundable })
}

type Problems = typeof problems
type DetailsOf<Make> = Make extends (...args: infer Args) => unknown ? (Args extends [] ? object : Args[0]) : never
type Refused = {
  [Verdict in keyof Problems]: { readonly verdict: Verdict } & DetailsOf<Problems[Verdict]>
}[keyof Problems]

/** The problem that a verdict of the ledger is answered with. */
export const problemOfRefusal = <R extends Refused>(
  principal: Principal,
  refusal: R
): ReturnType<Problems[R["verdict"]]> =>
  (problems[refusal.verdict] as (refusal: Refused, principal: Principal) => ReturnType<Problems[R["verdict"]]>)(
    refusal,
    principal
  )
