import { DateTime } from "effect"
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
  StillNoHeadroom,
  type StoredCap
} from "./domain.ts"
import { type AvailableBudget, type BudgetSubject, type Denied, type InsufficientBudget } from "./protocol-domain.ts"
import { amountText, quantityOf, totalOf, type Unit } from "./quantity-domain.ts"

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

/** Whether a caller that a cap refused learns why: those of the tenant, whatever they may read. */
export const learns = (principal: Principal, cap: Pick<NamedCap, "tenantId">): boolean =>
  cap.tenantId !== allTenants || sees(principal, cap)

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

/** Why it has no room; where its figures are not seen whatever the amount, by which they could be searched for. */
const reasonOf = (
  { budget: { cap }, limit, requested, reserved, spent }: InsufficientBudget,
  isSeen: boolean
): Denial["reason"] => {
  if (!isSeen) return reserved > zero ? "in-flight" : "exhausted"
  const need = requested[cap.unit]
  return need > limit ? "exceeds-limit" : spent + need <= limit ? "in-flight" : "exhausted"
}

/** What has no room and why, without its figures. */
const summaryOf = (
  { budget: { cap, isPlan } }: InsufficientBudget,
  reason: Denial["reason"],
  isSeen: boolean
): string =>
  isPlan === true
    ? `The plan has no room: ${meanings[reason]}.`
    : isSeen
      ? `The cap "${cap.name}" has no room: ${meanings[reason]}.`
      : `A budget cap has no room: ${meanings[reason]}.`

/** When something is left of a cap again. */
const resetText = ({ cap: { windowSeconds }, resetsAt }: AvailableBudget): string =>
  resetsAt !== null
    ? `resets: ${DateTime.formatIso(instantAt(resetsAt))}`
    : windowSeconds !== null
      ? `counts: the last ${amountText("seconds", BigInt(windowSeconds))}`
      : "never resets"

/** The same with the figures, where the caller may see them. */
const detailOf = (insufficient: InsufficientBudget, reason: Denial["reason"], isSeen: boolean): string => {
  const summary = summaryOf(insufficient, reason, isSeen)
  if (!isSeen) return summary
  const { budget, limit, requested, reserved, spent } = insufficient
  const { unit } = budget.cap
  const figures = { "asked for": requested[unit], limit, spent, reserved }
  const texts = Object.entries(figures).map(([name, amount]) => `${name}: ${amountText(unit, amount)}`)
  const [first = "", ...others] = budget.isPlan === true ? texts : [...texts, resetText(budget)]
  return `${summary} ${[first.replace("asked", "Asked"), ...others].join("; ")}.`
}

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
  const isSeen = budget.isPlan === true || cap.tenantId !== allTenants
  const reason = reasonOf(insufficient, isSeen)
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
    alike: summaryOf(insufficient, reason, isSeen),
    after: { reason, unit, requested: quantityOf(unit, requested[unit]), ...(isSeen ? figures : {}), ...dimensions }
  }
}

/** The figures of the failing cap, as far as the caller may see them. */
const figuresOf = (principal: Principal, { budget, limit, requested, reserved, spent }: InsufficientBudget) => {
  const { cap, isPlan } = budget
  const { unit } = cap
  if (isPlan !== true && !learns(principal, cap)) return {}
  return {
    ...(isPlan === true ? {} : { capName: cap.name }),
    unit,
    requested: totalOf(unit, requested[unit]),
    limit: totalOf(unit, limit),
    spent: totalOf(unit, spent),
    reserved: totalOf(unit, reserved),
    headroom: totalOf(unit, positive(limit - spent - reserved))
  }
}

/** The members of a denial. */
export const denialOf = (principal: Principal, { available, insufficient }: Denied): Denial => {
  const { budget } = insufficient
  const { cap } = budget
  const isSeen = budget.isPlan === true || learns(principal, cap)
  const reason = reasonOf(insufficient, isSeen)
  return {
    detail: detailOf(insufficient, reason, isSeen),
    reason,
    ...(budget.isPlan ? { capId: null, planId: PlanId.make(cap.id) } : { capId: cap.id }),
    ...figuresOf(principal, insufficient),
    resetsAt: momentOf(budget.resetsAt),
    caps: toGoverningCaps(principal, available)
  }
}

/** What an approver can do about a cap that still has no room. */
const remedyOf = (principal: Principal, { cap, isPlan }: AvailableBudget): string =>
  isPlan === true
    ? "Extend the plan, or approve less with `ceilingUsd`."
    : mayBeRaised(principal, cap)
      ? "Approve with `override` to raise it by what is short, or approve less with `ceilingUsd`."
      : "No approval raises it: raise the cap itself, or approve less with `ceilingUsd`."

/** Whether an approval with `override` raises a cap. */
export const mayBeRaised = (principal: Principal, { mode, tenantId }: Pick<StoredCap, "mode" | "tenantId">): boolean =>
  mode === "approval" && (tenantId !== allTenants || principal.tenantId === undefined)

const stillNoHeadroom = ({ insufficient }: Denied, principal: Principal) => {
  const { budget } = insufficient
  const isSeen = budget.isPlan === true || learns(principal, budget.cap)
  return new StillNoHeadroom({
    detail: `${detailOf(insufficient, reasonOf(insufficient, isSeen), isSeen)} ${remedyOf(principal, budget)}`,
    capId: budget.isPlan ? null : budget.cap.id,
    ...figuresOf(principal, insufficient),
    resetsAt: momentOf(budget.resetsAt)
  })
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
  "no-room": stillNoHeadroom,
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
