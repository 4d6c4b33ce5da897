import { Clock, Context, Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { CurrentPrincipal, type Principal } from "../auth/domain.ts"
import { type TenantId } from "../kernel/identifier.ts"
import { type Dimensions } from "../ledger/cap-book.ts"
import { CapBooks } from "../ledger/cap-books.ts"
import { ChargeId, ReservationId } from "../ledger/domain.ts"
import { BudgetDenied } from "../ledger/problem-domain.ts"
import { type Asker, type ReserveResult, type Shortage, type Standing } from "../ledger/request.ts"
import { booksOf, governingIn } from "../ledger/reserve-batch.ts"
import { Ledger } from "../ledger/service.ts"
import { denialOf } from "../ledger/views.ts"
import { denied as countDenial, type SettleMethod } from "./metrics.ts"
import { CallRefused, refused, retryAfter } from "./refusal.ts"

/** Who spends, and for what. */
export interface Spender {
  readonly tenantId: TenantId
  readonly dimensions: Dimensions
}

/** What a call did cost, as its row keeps it. */
export interface Settlement {
  readonly costNanoUsd: bigint
  readonly tokens: number
  readonly method: SettleMethod
  /** Everything else that is known of the call; never what was said in it. */
  readonly details: object
}

/** What is kept free for one call until it ends, once, however it ends. */
export interface Hold {
  readonly id: ReservationId
  readonly amountNanoUsd: bigint
  /** What the caps in money leave beside it; null where none governs. */
  readonly remainingNanoUsd: bigint | null
  settle(settlement: Settlement): Effect.Effect<void>
  /** Gives everything back: nothing that costs was done. */
  readonly release: Effect.Effect<void>
}

/** Which kinds of caps a call falls under. */
export interface Governed {
  /** Any cap in money: then a price must be known. */
  readonly byMoney: boolean
  /** A cap in money or tokens that refuses: then the cost must be bounded. */
  readonly byHard: boolean
}

/** A hold that was refused, and for which amount there would have been room. */
export interface NoRoom {
  readonly refusal: CallRefused
  readonly roomNanoUsd: bigint | null
}

/** Keeps free what a call may cost before it leaves, and charges what it did cost when it ends. */
export class Metering extends Context.Service<
  Metering,
  {
    governed(spender: Spender): Effect.Effect<Governed>
    hold(spender: Spender, amountNanoUsd: bigint, tokens: number, ttlSeconds: number): Effect.Effect<Hold, NoRoom>
  }
>()("app/llm/Metering") {
  static readonly layer = Layer.effect(
    Metering,
    Effect.gen(function* () {
      const books = yield* CapBooks
      const ledger = yield* Ledger
      const random = yield* SecureRandom.SecureRandom

      const governed = Effect.fnUntraced(function* (spender: Spender) {
        const known = yield* booksOf(books.get, [spender])
        const caps = governingIn(known, spender).filter(({ cap }) => cap.status === "active")
        return {
          byMoney: caps.some(({ cap }) => cap.unit === "usd"),
          byHard: caps.some(({ cap }) => cap.unit !== "requests" && cap.mode !== "soft")
        }
      })

      const closing = (id: ReservationId, tenantId: TenantId, who: Asker) => {
        let closed = false
        const close = (kind: "settle" | "release", settlement: Settlement | undefined) =>
          Effect.suspend(() => {
            if (closed) return Effect.void
            closed = true
            return Effect.flatMap(Effect.orDie(random.uuidV7()), (chargeId) =>
              ledger.close({
                ...who,
                kind,
                id,
                tenantId,
                origin: "gateway",
                unrestricted: true,
                amount: settlement?.costNanoUsd ?? 0n,
                tokens: settlement?.tokens ?? 0,
                chargeId: ChargeId.make(chargeId),
                usage: settlement && { ...settlement.details, method: settlement.method }
              })
            )
          }).pipe(
            // What stays open is settled by the sweeper at what was kept free: nothing that was spent is lost.
            Effect.catchCause((cause) => Effect.logError("A call could not be settled", cause)),
            Effect.asVoid,
            Effect.uninterruptible
          )
        return {
          settle: (settlement: Settlement) => close("settle", settlement),
          release: close("release", undefined)
        }
      }

      const hold = Effect.fnUntraced(function* (spender: Spender, amount: bigint, tokens: number, ttlSeconds: number) {
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
            amount,
            tokens,
            ttlSeconds
          })
          .pipe(
            Effect.catchCause((cause) =>
              Effect.andThen(
                Effect.logError("The ledger cannot be asked", cause),
                Effect.fail({
                  refusal: refused(503, "overloaded", "The ledger cannot be reached.", retryAfter(2)),
                  roomNanoUsd: null
                })
              )
            )
          )
        if (result.verdict === "open") {
          return {
            id,
            amountNanoUsd: amount,
            remainingNanoUsd: leastRoom(result.standings),
            ...closing(id, spender.tenantId, who)
          }
        }
        const now = yield* Clock.currentTimeMillis
        const refusal = noRoom(result, principal, id, amount, tokens, now)
        yield* countDenial(refusal.refusal.error.code ?? "unknown")
        return yield* Effect.fail(refusal)
      })

      return Metering.of({ governed, hold })
    })
  )
}

const leastRoom = (standings: ReadonlyArray<Standing>): bigint | null =>
  standings
    .filter(({ cap }) => cap.unit === "usd" && cap.mode !== "soft")
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
        roomNanoUsd: leastRoom(result.standings)
      }
    case "held":
      return {
        refusal: refused(402, "approval_required", `Somebody has to approve the reservation ${id}.`, {
          ...hopeless,
          "x-reservation-id": id
        }),
        roomNanoUsd: null
      }
    case "uncovered":
      return {
        refusal: refused(402, "insufficient_quota", "No budget cap governs this, and one is asked for.", hopeless),
        roomNanoUsd: null
      }
    case "plan-missing":
      return { refusal: refused(404, "plan_not_found", "The agent has no plan with this id."), roomNanoUsd: null }
    case "plan-inactive":
      return {
        refusal: refused(409, "plan_not_active", `The plan is ${result.planStatus}.`, hopeless),
        roomNanoUsd: null
      }
    default:
      return { refusal: refused(503, "overloaded", "The ledger gave no answer.", retryAfter(1)), roomNanoUsd: null }
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
