import { type Principal } from "../../kernel/authority/principal.ts"
import { type Quota } from "../translation/errors.ts"
import { type TransferError } from "../../budgets/reservations/transfers.ts"
import { allTenants, type BudgetDenied, type ReservationId } from "../../budgets/ledger/domain.ts"
import {
  type AvailableBudget,
  type Denied,
  type InsufficientBudget,
  type ReserveResult
} from "../../budgets/ledger/protocol-domain.ts"
import { problemOf } from "../../budgets/ledger/problems.ts"
import { ApprovalRequired, ProviderRefused } from "../configuration/domain.ts"
import {
  gatewayError,
  type GatewayError,
  notRetryable,
  overloaded,
  rateLimited,
  retryAfter
} from "../errors/gateway-error.ts"

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
  if (problem._tag !== "BudgetDenied") return gatewayError(problem, { headers: notRetryable })
  if (problem.reason === "in-flight") return rateLimitReached(problem, retryAfter(1))
  return budgetExhausted(problem, problem.reason === "exceeds-limit")
}

const approvalRequired = (id: ReservationId): GatewayError =>
  gatewayError(new ApprovalRequired({ reservationId: id }), {
    message: `The reservation ${id} needs an approval.`,
    headers: { ...notRetryable, "x-reservation-id": id }
  })

/** A denial that resolves itself with time: vendors' SDKs treat it as a rate limit. */
const rateLimitReached = (
  { detail }: BudgetDenied,
  headers: Readonly<Record<string, string>>,
  quota?: Quota | undefined
): GatewayError => gatewayError(rateLimited(headers), { message: detail, headers, quota })

const budgetExhausted = (problem: BudgetDenied, isTooLarge: boolean): GatewayError =>
  gatewayError(problem, {
    code: isTooLarge ? "request_exceeds_budget" : "insufficient_quota",
    headers: notRetryable
  })

export const leastAvailable = (available: ReadonlyArray<AvailableBudget>, unit: "usd" | "tokens"): bigint | null =>
  available
    .filter(({ cap }) => cap.unit === unit && cap.mode !== "soft")
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
  id: ReservationId,
  now: number
): AdmissionDenied => {
  switch (result.verdict) {
    case "denied":
    case "no-room":
      return {
        error: budgetDenied(result, principal, now),
        remaining:
          result.insufficient.budget.cap.unit === "requests"
            ? undefined
            : { nanoUsd: leastAvailable(result.available, "usd"), tokens: leastAvailable(result.available, "tokens") },
        couldWait: result.verdict === "no-room"
      }
    case "held":
      return { error: approvalRequired(id), remaining: undefined, couldWait: false }
    case "uncovered":
      return { error: uncovered, remaining: undefined, couldWait: false }
    case "plan-missing":
      return { error: gatewayError(problemOf(principal, result)), remaining: undefined, couldWait: false }
    case "plan-inactive":
      return {
        error: gatewayError(problemOf(principal, result), { headers: notRetryable }),
        remaining: undefined,
        couldWait: false
      }
    default:
      return { error: overloaded("The ledger gave no answer.", 1), remaining: undefined, couldWait: false }
  }
}

const uncovered = gatewayError(new ProviderRefused({ detail: "No budget cap governs this, and one is asked for." }), {
  status: 402,
  code: "insufficient_quota",
  headers: notRetryable
})

const budgetDenied = (denied: Denied, principal: Principal, now: number): GatewayError => {
  const { insufficient } = denied
  const problem = problemOf(principal, { ...denied, verdict: "denied" })
  const { resetsAt } = insufficient.budget
  const quota = () => quotaOf(insufficient, principal, now)
  if (problem.reason === "in-flight") return rateLimitReached(problem, retryAfter(1), quota())
  if (isRate(insufficient.budget)) {
    return rateLimitReached(problem, retryAfter(resetsAt === null ? 60 : (resetsAt - now) / 1000), quota())
  }
  return budgetExhausted(problem, insufficient.limit > insufficient.spent)
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
