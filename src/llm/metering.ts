import { Cause, Clock, Context, Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { CurrentPrincipal, type Principal } from "../auth/domain.ts"
import { type TenantId } from "../kernel/identifier.ts"
import { type AdoptionRefused, Adoptions } from "../ledger/adoptions.ts"
import { CapBooks } from "../ledger/cap-books.ts"
import { asker, type Spending } from "../ledger/askers.ts"
import { ChargeId, ReservationId } from "../ledger/domain.ts"
import { BudgetDenied, PlanNotActive } from "../ledger/problem-domain.ts"
import { type Asker, type CloseItem, type ReserveResult, type Shortage, type Standing } from "../ledger/request.ts"
import { booksOf, governingIn } from "../ledger/reserve-batch.ts"
import { Ledger } from "../ledger/service.ts"
import { denialOf } from "../ledger/views.ts"
import { Settings } from "../platform/settings.ts"
import { type Prepared } from "./callers.ts"
import { LiveHolds } from "./live-holds.ts"
import { budgetClosed, budgetHeld, budgetLeft } from "./budget-metrics.ts"
import { type SettleMethod } from "./metrics.ts"
import { CallRefused, refused, refusedFor, retryAfter } from "./refusal.ts"

/** Who spends, and for what. */
export type Spender = Spending

/** What a call did cost. */
export interface Settlement {
  readonly costNanoUsd: bigint
  readonly tokens: number
  readonly method: SettleMethod
}

/** What is kept free for one call until it ends, once, however it ends. */
export interface Hold {
  readonly id: ReservationId
  readonly amountNanoUsd: bigint
  readonly tokens: number
  /** What the caps in money leave beside it; null where none governs. */
  readonly remainingNanoUsd: bigint | null
  /** `details` are everything else that the call's row keeps; never what was said in it. */
  settle(settlement: Settlement, details: object): Effect.Effect<void>
  /** Gives everything back: nothing that costs was done. */
  release(details: object): Effect.Effect<void>
}

/** Which kinds of caps a call falls under. */
export interface Governed {
  /** Any cap in money: then a price must be known. */
  readonly byMoney: boolean
  /** A cap in money or tokens that refuses: then the cost must be bounded. */
  readonly byHard: boolean
}

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

/** Keeps free what a call may cost before it leaves, and charges what it did cost when it ends. */
export class Metering extends Context.Service<
  Metering,
  {
    governed(spender: Spender): Effect.Effect<Governed>
    hold(
      spender: Spender,
      amountNanoUsd: bigint,
      tokens: number,
      metadata?: Readonly<Record<string, string>>
    ): Effect.Effect<Hold, NoRoom>
    /** Calls with what was reserved before, by the same caller. */
    adopt(spender: Spender, prepared: Prepared, amountNanoUsd: bigint, tokens: number): Effect.Effect<Hold, NoRoom>
  }
>()("app/llm/Metering") {
  static readonly layer = Layer.effect(
    Metering,
    Effect.gen(function* () {
      const adoptions = yield* Adoptions
      const books = yield* CapBooks
      const ledger = yield* Ledger
      const live = yield* LiveHolds
      const random = yield* SecureRandom.SecureRandom
      const ttlSeconds = (yield* Settings).llm.gateway.holdSeconds

      const governed = Effect.fnUntraced(function* (spender: Spender) {
        const known = yield* booksOf(books.get, [spender])
        const caps = governingIn(known, spender).filter(({ cap }) => cap.status === "active")
        return {
          byMoney: spender.plan !== undefined || caps.some(({ cap }) => cap.unit === "usd"),
          byHard: spender.plan !== undefined || caps.some(({ cap }) => cap.unit !== "requests" && cap.mode !== "soft")
        }
      })

      const closing = (id: ReservationId, tenantId: TenantId, who: Asker, held: bigint) => {
        let closed = false
        live.add(id, tenantId)
        budgetHeld(held)
        const close = (what: Pick<CloseItem, "kind" | "amount" | "tokens" | "call">) =>
          Effect.suspend(() => {
            if (closed) return Effect.void
            closed = true
            live.remove(id)
            budgetClosed(held, what.amount)
            return Effect.flatMap(Effect.orDie(random.uuidV7()), (chargeId) =>
              ledger.close({
                ...who,
                ...what,
                id,
                tenantId,
                origin: "gateway",
                unrestricted: true,
                chargeId: ChargeId.make(chargeId)
              })
            )
          }).pipe(
            // What stays open is settled by the sweeper at what was kept free: nothing that was spent is lost.
            Effect.catchCause((cause) => Effect.logError("A call could not be settled", cause)),
            Effect.asVoid,
            Effect.uninterruptible
          )
        return {
          settle: ({ costNanoUsd, method, tokens }: Settlement, details: object) =>
            close({ kind: "settle", amount: costNanoUsd, tokens, call: { ...details, method } }),
          release: (details: object) => close({ kind: "release", amount: 0n, call: { ...details, method: "released" } })
        }
      }

      const hold = Effect.fnUntraced(function* (
        spender: Spender,
        amount: bigint,
        tokens: number,
        metadata?: Readonly<Record<string, string>>
      ) {
        const principal = yield* CurrentPrincipal
        const who = { principal: principal.name }
        const id = ReservationId.make(yield* Effect.orDie(random.uuidV7()))
        const result = yield* ledger
          .reserve({
            ...who,
            kind: "reserve",
            id,
            tenantId: spender.tenantId,
            origin: "gateway",
            dimensions: spender.dimensions,
            plan: spender.plan,
            amount,
            tokens,
            ttlSeconds,
            metadata
          })
          .pipe(Effect.catchCause(unreachable))
        if (result.verdict === "open") {
          budgetLeft(result.standings)
          return {
            id,
            amountNanoUsd: amount,
            tokens,
            remainingNanoUsd: leastRoom(result.standings, "usd"),
            ...closing(id, spender.tenantId, who, amount)
          }
        }
        const now = yield* Clock.currentTimeMillis
        return yield* Effect.fail(noRoom(result, principal, id, amount, tokens, now))
      })

      const adopt = Effect.fnUntraced(function* (
        spender: Spender,
        { amountNanoUsd: reserved, id }: Prepared,
        amount: bigint,
        tokens: number
      ) {
        const { principal } = yield* asker
        const adopted = yield* adoptions.adopt({ ...spender, id, reserved, amount, tokens, ttlSeconds }).pipe(
          Effect.catchDefect((defect) => unreachable(Cause.die(defect))),
          Effect.mapError((problem): NoRoom =>
            "refusal" in problem ? problem : { refusal: unusable(problem, id), room: undefined }
          )
        )
        return {
          id,
          amountNanoUsd: adopted.amount,
          tokens: adopted.tokens,
          remainingNanoUsd: adopted.roomNanoUsd,
          ...closing(id, spender.tenantId, { principal }, adopted.amount)
        }
      })

      return Metering.of({ governed, hold, adopt })
    })
  )
}

const unreachable = (cause: Cause.Cause<never>): Effect.Effect<never, NoRoom> =>
  Effect.andThen(
    Effect.logError("The ledger cannot be asked", cause),
    Effect.fail({
      refusal: refused(503, "overloaded", "The ledger cannot be reached.", retryAfter(2)),
      room: undefined
    })
  )

/** Why a reservation is none for this call, in the words of a refusal. */
const unusable = (problem: AdoptionRefused, id: ReservationId): CallRefused => {
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

const leastRoom = (standings: ReadonlyArray<Standing>, unit: "usd" | "tokens"): bigint | null =>
  standings
    .filter(({ cap }) => cap.unit === unit && cap.mode !== "soft")
    .reduce<bigint | null>((least, { headroom }) => (least === null || headroom < least ? headroom : least), null)

/** SDKs try again by themselves, unless they are told that it is of no use. */
const hopeless = { "x-should-retry": "false" }

/** Caps with periods up to this are rate limits. */
const longestRateSeconds = 3600

const isRate = ({ cap }: Standing): boolean =>
  cap.unit !== "usd" &&
  (cap.period === "minute" ||
    cap.period === "hour" ||
    (cap.period === "rolling" && (cap.windowSeconds ?? longestRateSeconds + 1) <= longestRateSeconds))

const noRoom = (
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
        refusal: denied(result.shortage, result.standings, principal, { amount, tokens }, now),
        room:
          result.shortage.standing.cap.unit === "requests"
            ? undefined
            : { nanoUsd: leastRoom(result.standings, "usd"), tokens: leastRoom(result.standings, "tokens") }
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
  shortage: Shortage,
  standings: ReadonlyArray<Standing>,
  principal: Principal,
  { amount, tokens }: { readonly amount: bigint; readonly tokens: number },
  now: number
): CallRefused => {
  const asked = { usd: amount, tokens: BigInt(tokens), requests: 1n }
  const problem = new BudgetDenied(denialOf(principal, shortage, standings, asked))
  const { detail, reason } = problem
  const refuse = (status: number, code: string, headers: Readonly<Record<string, string>>) =>
    new CallRefused({ error: { status, code, message: detail }, headers, problem })
  const { resetsAt } = shortage.standing
  const secondsLeft = resetsAt === null ? 60 : (resetsAt - now) / 1000
  if (reason === "in-flight") return refuse(429, "rate_limit_exceeded", retryAfter(1))
  if (isRate(shortage.standing)) return refuse(429, "rate_limit_exceeded", retryAfter(secondsLeft))
  const left = shortage.limit - shortage.spent
  return left > 0n ? refuse(402, "request_exceeds_budget", hopeless) : refuse(402, "insufficient_quota", hopeless)
}
