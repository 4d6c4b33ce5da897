import { type Principal } from "../../kernel/principal.ts"
import { type Quota } from "../translation/quota-headers.ts"
import { type TransferError } from "../../budgets/reservations/transfers.ts"
import { allTenants, BudgetDenied, PlanNotActive, type ReservationId } from "../../budgets/ledger/domain.ts"
import {
  type AvailableBudget,
  type InsufficientBudget,
  type ReserveResult
} from "../../budgets/ledger/protocol-domain.ts"
import { denialOf } from "../../budgets/ledger/problems.ts"
import { CallRefused, refused, refusedFor, retryAfter } from "../errors/refusal.ts"

/** What caps leave; null where none of the kind governs. */
export interface Room {
  readonly nanoUsd: bigint | null
  readonly tokens: bigint | null
}

/** A hold that was refused, and for how much there would have been room, where less would do. */
export interface NoRoom {
  readonly refusal: CallRefused
  readonly room: Room | undefined
}

/** Why a reservation is none for this call, in the words of a refusal. */
export const unusable = (problem: TransferError, id: ReservationId): CallRefused => {
  if (problem._tag === "ReservationNotOpen" && problem.state === "held") return awaited(id)
  if (problem._tag !== "BudgetDenied") return refusedFor(problem, hopeless)
  const { detail: message, reason } = problem
  if (reason === "in-flight") {
    return new CallRefused({
      error: { status: 429, code: "rate_limit_exceeded", message },
      headers: retryAfter(1),
      problem
    })
  }
  const code = reason === "exceeds-limit" ? "request_exceeds_budget" : "insufficient_quota"
  return new CallRefused({ error: { status: 402, code, message }, headers: hopeless, problem })
}

const awaited = (id: ReservationId): CallRefused =>
  refused(402, "approval_required", `Somebody has to approve the reservation ${id}.`, {
    ...hopeless,
    "x-reservation-id": id
  })

export const leastRoom = (available: ReadonlyArray<AvailableBudget>, unit: "usd" | "tokens"): bigint | null =>
  available
    .filter(({ cap }) => cap.unit === unit && cap.mode !== "soft")
    .reduce<bigint | null>((least, { headroom }) => (least === null || headroom < least ? headroom : least), null)

/** SDKs try again by themselves, unless they are told that it is of no use. */
const hopeless = { "x-should-retry": "false" }

/** Caps with periods up to this are rate limits. */
const longestRateSeconds = 3600

const isRate = ({ cap }: AvailableBudget): boolean =>
  cap.unit !== "usd" &&
  (cap.period === "minute" ||
    cap.period === "hour" ||
    (cap.period === "rolling" && (cap.windowSeconds ?? longestRateSeconds + 1) <= longestRateSeconds))

export const noRoom = (
  result: Exclude<ReserveResult, { readonly verdict: "open" }>,
  principal: Principal,
  id: ReservationId,
  amount: bigint,
  tokens: number,
  now: number
): NoRoom => {
  switch (result.verdict) {
    case "denied":
    case "no-room":
      return {
        refusal: denied(result.insufficient, result.available, principal, now),
        room:
          result.insufficient.budget.cap.unit === "requests"
            ? undefined
            : { nanoUsd: leastRoom(result.available, "usd"), tokens: leastRoom(result.available, "tokens") }
      }
    case "held":
      return {
        refusal: awaited(id),
        room: undefined
      }
    case "uncovered":
      return {
        refusal: refused(402, "insufficient_quota", "No budget cap governs this, and one is asked for.", hopeless),
        room: undefined
      }
    case "plan-missing":
      return { refusal: refused(404, "plan_not_found", "The agent has no plan with this id."), room: undefined }
    case "plan-inactive":
      return {
        refusal: refusedFor(new PlanNotActive({ planStatus: result.planStatus }), hopeless),
        room: undefined
      }
    default:
      return { refusal: refused(503, "overloaded", "The ledger gave no answer.", retryAfter(1)), room: undefined }
  }
}

const denied = (
  insufficient: InsufficientBudget,
  available: ReadonlyArray<AvailableBudget>,
  principal: Principal,
  now: number
): CallRefused => {
  const problem = new BudgetDenied(denialOf(principal, { insufficient, available }))
  const { detail, reason } = problem
  const refuse = (status: number, code: string, headers: Readonly<Record<string, string>>) => {
    const quota = status === 429 ? quotaOf(insufficient, principal, now) : undefined
    return new CallRefused({ error: { status, code, message: detail }, headers, quota, problem })
  }
  const { resetsAt } = insufficient.budget
  const secondsLeft = resetsAt === null ? 60 : (resetsAt - now) / 1000
  if (reason === "in-flight") return refuse(429, "rate_limit_exceeded", retryAfter(1))
  if (isRate(insufficient.budget)) return refuse(429, "rate_limit_exceeded", retryAfter(secondsLeft))
  const left = insufficient.limit - insufficient.spent
  return left > 0n ? refuse(402, "request_exceeds_budget", hopeless) : refuse(402, "insufficient_quota", hopeless)
}

/**
 * What a cap in requests or tokens leaves; of one over all tenants that is for none of them to know. A window that rolls has
 * let go of everything when it is over once.
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
