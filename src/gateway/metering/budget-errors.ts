import { BigDecimal, DateTime, Struct } from "effect"
import { type Refusal } from "../../audit/log/service.ts"
import { allTenants, type BudgetDenied, denial, type ReservationId } from "../../budgets/ledger/domain.ts"
import { learns, problemOfRefusal, refusalOf } from "../../budgets/ledger/problems.ts"
import {
  type AvailableBudget,
  type BudgetSubject,
  type Denied,
  type InsufficientBudget,
  type ReserveResult
} from "../../budgets/ledger/protocol-domain.ts"
import { amountText, quantityOf } from "../../budgets/ledger/quantity-domain.ts"
import { type TransferError } from "../../budgets/reservations/transfers.ts"
import { type Principal } from "../../kernel/authority/principal.ts"
import { instantAt } from "../../kernel/instant.ts"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { ApprovalRequired, BudgetRateLimited, ProviderRefused } from "../configuration/domain.ts"
import {
  gatewayError,
  type GatewayError,
  notRetryable,
  overloaded,
  rateLimited,
  retryAfter
} from "../errors/gateway-error.ts"
import { type Quota } from "../formats/errors.ts"

/** What the caps leave; null if no cap of that kind applies. */
export interface RemainingBudget {
  readonly nanoUsd: bigint | null
  readonly tokens: bigint | null
}

/** A denied reservation, and what the caps leave if a smaller one may fit. */
export interface AdmissionDenied {
  readonly error: GatewayError
  readonly remaining: RemainingBudget | undefined
  /** Whether the reservation could wait for an approval. */
  readonly couldWait: boolean
}

/** Why a call may not use an existing reservation. */
export const transferError = (problem: TransferError, id: ReservationId): GatewayError => {
  if (problem._tag === "ReservationNotOpen" && problem.state === "held") return approvalRequired(id)
  if (problem._tag === "ReservationManaged") {
    return gatewayError(problem, {
      message: `The reservation ${id} is used by a call, or was: make this call without x-reservation-id, or reserve again.`,
      headers: notRetryable
    })
  }
  if (problem._tag !== "BudgetDenied") return gatewayError(problem, { headers: notRetryable })
  if (problem.reason === "in-flight") return rateLimitReached(problem, { headers: retryAfter(1) })
  return budgetExhausted(problem, problem.reason === "exceeds-limit")
}

const approvalRequired = (
  id: ReservationId,
  waiting?: { readonly text: string; readonly details: Json }
): GatewayError => {
  const detail = `The reservation ${id} needs an approval${waiting === undefined ? "" : `: ${waiting.text}`}. Repeat the call with the header x-reservation-id: ${id} once it has one.`
  return gatewayError(new ApprovalRequired({ reservationId: id, detail }), {
    details: { reservationId: id, ...waiting?.details },
    headers: { ...notRetryable, "x-reservation-id": id }
  })
}

/** A reservation that was asked for, in each unit. */
interface AskedReservation {
  readonly id: ReservationId
  readonly amounts: InsufficientBudget["requested"]
}

/** The cap whose approval a held reservation needs, as far as the caller may see it. */
const waitingFor = (
  available: ReadonlyArray<AvailableBudget>,
  principal: Principal,
  amounts: AskedReservation["amounts"]
) => {
  const short = available.find(
    ({ cap, headroom }) => cap.mode === "approval" && headroom < amounts[cap.unit] && learns(principal, cap)
  )
  if (short === undefined) return undefined
  const { cap, headroom, resetsAt } = short
  const [asked, left] = [amountText(cap.unit, amounts[cap.unit]), amountText(cap.unit, headroom)]
  return {
    text: `the cap "${cap.name}" has ${left} left of the ${asked} asked for`,
    details: {
      capId: cap.id,
      capName: cap.name,
      unit: cap.unit,
      requested: quantityOf(cap.unit, amounts[cap.unit]),
      headroom: quantityOf(cap.unit, headroom),
      resetsAt: resetsAt === null ? null : DateTime.formatIso(instantAt(resetsAt))
    }
  }
}

const denialMembers = ["detail", ...Struct.keys(denial)] as const

/** A denial that resolves itself with time: vendors' SDKs treat it as a rate limit. */
const rateLimitReached = (
  denied: BudgetDenied,
  about: Pick<GatewayError, "headers" | "refusal"> & Partial<Pick<GatewayError, "quota">>
): GatewayError => {
  const { retryAfterSeconds } = rateLimited(about.headers)
  const problem = new BudgetRateLimited({ ...Struct.pick(denied, denialMembers), retryAfterSeconds })
  return gatewayError(problem, { details: detailsOf(denied), ...about })
}

const budgetExhausted = (problem: BudgetDenied, isTooLarge: boolean, refusal?: Refusal): GatewayError =>
  gatewayError(problem, {
    code: isTooLarge ? "request_exceeds_budget" : "insufficient_quota",
    details: detailsOf(problem),
    headers: notRetryable,
    refusal
  })

const numberOf = (total: BigDecimal.BigDecimal | undefined) =>
  total === undefined ? undefined : BigDecimal.toNumberUnsafe(total)

/** The members of a denial that vendors' bodies have beside the message; what the caller may not see is left out of JSON. */
const detailsOf = (denied: BudgetDenied): Json => ({
  reason: denied.reason,
  capId: denied.capId,
  planId: denied.planId,
  capName: denied.capName,
  unit: denied.unit,
  requested: numberOf(denied.requested),
  limit: numberOf(denied.limit),
  spent: numberOf(denied.spent),
  reserved: numberOf(denied.reserved),
  headroom: numberOf(denied.headroom),
  resetsAt: denied.resetsAt === null ? null : DateTime.formatIso(denied.resetsAt)
})

/** The least that caps have left, of those of which the caller may know it. */
export const leastAvailable = (
  available: ReadonlyArray<AvailableBudget>,
  principal: Principal,
  unit: "usd" | "tokens"
): bigint | null =>
  available
    .filter(({ cap }) => cap.unit === unit && cap.mode !== "soft" && learns(principal, cap))
    .reduce<bigint | null>((least, { headroom }) => (least === null || headroom < least ? headroom : least), null)

/** Caps with periods up to this are rate limits. */
const longestRateSeconds = 3600

const isRate = ({ cap }: AvailableBudget): boolean =>
  cap.unit !== "usd" &&
  (cap.period === "minute" ||
    cap.period === "hour" ||
    (cap.period === "rolling" && (cap.windowSeconds ?? longestRateSeconds + 1) <= longestRateSeconds))

/** Maps the ledger's denial of a reservation to an error. */
export const admissionDenied = (
  result: Exclude<ReserveResult, { readonly verdict: "open" }>,
  principal: Principal,
  subject: BudgetSubject,
  asked: AskedReservation,
  now: number
): AdmissionDenied => {
  switch (result.verdict) {
    case "denied":
    case "no-room":
      return {
        error: budgetDenied(result, principal, subject, now),
        remaining:
          result.insufficient.budget.cap.unit === "requests"
            ? undefined
            : {
                nanoUsd: leastAvailable(result.available, principal, "usd"),
                tokens: leastAvailable(result.available, principal, "tokens")
              },
        couldWait: result.verdict === "no-room"
      }
    case "held":
      return {
        error: approvalRequired(asked.id, waitingFor(result.available, principal, asked.amounts)),
        remaining: undefined,
        couldWait: false
      }
    case "uncovered":
      return { error: uncovered(refusalOf(subject, result)), remaining: undefined, couldWait: false }
    case "plan-missing":
      return { error: gatewayError(problemOfRefusal(principal, result)), remaining: undefined, couldWait: false }
    case "plan-inactive":
      return {
        error: gatewayError(problemOfRefusal(principal, result), { headers: notRetryable }),
        remaining: undefined,
        couldWait: false
      }
    default:
      return { error: overloaded("The ledger gave no answer.", 1), remaining: undefined, couldWait: false }
  }
}

const uncovered = (refusal: Refusal): GatewayError =>
  gatewayError(new ProviderRefused({ detail: "No budget cap governs this, and one is asked for." }), {
    status: 402,
    code: "insufficient_quota",
    headers: notRetryable,
    refusal
  })

const budgetDenied = (denied: Denied, principal: Principal, subject: BudgetSubject, now: number): GatewayError => {
  const { insufficient } = denied
  const refusal = refusalOf(subject, denied)
  const problem = problemOfRefusal(principal, { ...denied, verdict: "denied" })
  const { resetsAt } = insufficient.budget
  const quota = () => quotaOf(insufficient, principal, now)
  if (problem.reason === "in-flight") {
    return rateLimitReached(problem, { headers: retryAfter(1), quota: quota(), refusal })
  }
  if (isRate(insufficient.budget)) {
    const headers = retryAfter(resetsAt === null ? 60 : (resetsAt - now) / 1000)
    return rateLimitReached(problem, { headers, quota: quota(), refusal })
  }
  return budgetExhausted(problem, insufficient.limit > insufficient.spent, refusal)
}

/**
 * What remains of a cap in requests or tokens; a cap over all tenants is not disclosed to any of them. A rolling window is
 * empty again after its full length.
 */
const quotaOf = (
  { limit, reserved, spent, budget: { cap, resetsAt } }: InsufficientBudget,
  { tenantId }: Principal,
  now: number
): Quota | undefined => {
  const { unit, windowSeconds } = cap
  if (unit === "usd" || (cap.tenantId === allTenants && tenantId !== undefined)) return undefined
  const left = limit - spent - reserved
  return {
    unit,
    limit,
    remaining: left > 0n ? left : 0n,
    resetsAt: resetsAt ?? (windowSeconds === null ? null : now + windowSeconds * 1000)
  }
}
