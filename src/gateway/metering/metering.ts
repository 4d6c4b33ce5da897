import { Cause, Clock, Context, Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { CurrentPrincipal } from "../../kernel/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { ReservationTransfers } from "../../budgets/reservations/transfers.ts"
import { applicableCaps, type CapIndex, CapIndexes } from "../../budgets/ledger/cap-index.ts"
import { type BudgetSubject, type CloseItem, type Requester } from "../../budgets/ledger/protocol-domain.ts"
import { type ChargeId, type ReservationId } from "../../budgets/ledger/domain.ts"
import { requester } from "../../budgets/attribution/service.ts"
import { Ledger } from "../../budgets/ledger/service.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type Prepared } from "../authentication/callers.ts"
import { LiveHolds } from "./live-holds.ts"
import { budgetClosed, budgetHeld, budgetLeft } from "../telemetry/budget-metrics.ts"
import { type SettleMethod } from "../telemetry/metrics.ts"
import { leastRoom, type NoRoom, noRoom, unusable } from "./denials.ts"
import { refused, retryAfter } from "../errors/refusal.ts"

/** Who spends, and for what. */
export type Spender = BudgetSubject

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
  settle(settlement: Settlement, details: object): void
  /** Gives everything back: nothing that costs was done. */
  release(details: object): void
}

/** Which kinds of caps a call falls under. */
export interface Governed {
  /** Any cap in money: then a price must be known. */
  readonly byMoney: boolean
  /** A cap in money or tokens that refuses: then the cost must be bounded. */
  readonly byHard: boolean
  /** The copies of caps that say so, which may be old; the ledger has them read again where they are. */
  readonly books?: ReadonlyMap<TenantId, CapIndex>
}

/** Keeps free what a call may cost before it leaves, and charges what it did cost when it ends. */
export class Metering extends Context.Service<
  Metering,
  {
    governed(spender: Spender): Effect.Effect<Governed>
    /** Whether no cap was found to be another one since. */
    isGovernedStill(spender: Spender, governed: Governed): Effect.Effect<boolean>
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
      const transfers = yield* ReservationTransfers
      const capIndexes = yield* CapIndexes
      const ledger = yield* Ledger
      const live = yield* LiveHolds
      const newId = (yield* SecureRandom.SecureRandom).uuidV7()
      const ttlSeconds = (yield* Settings).llm.gateway.holdSeconds

      const governed = (spender: Spender) =>
        Effect.mapEager(capIndexes.of([spender]), (known): Governed => {
          const caps = applicableCaps(known, spender).filter(({ cap }) => cap.status === "active")
          return {
            byMoney: spender.plan !== undefined || caps.some(({ cap }) => cap.unit === "usd"),
            byHard:
              spender.plan !== undefined || caps.some(({ cap }) => cap.unit !== "requests" && cap.mode !== "soft"),
            books: known
          }
        })

      const isGovernedStill = (spender: Spender, { books: seen }: Governed) =>
        seen === undefined
          ? Effect.succeed(true)
          : Effect.mapEager(capIndexes.of([spender]), (known) =>
              [...known].every(([tenantId, book]) => seen.get(tenantId) === book)
            )

      const closing = (id: ReservationId, tenantId: TenantId, who: Requester, held: bigint, chargeId: ChargeId) => {
        let closed = false
        live.add(id, tenantId)
        budgetHeld(held)
        const close = (what: Pick<CloseItem, "kind" | "amount" | "tokens" | "call">) => {
          if (closed) return
          closed = true
          live.remove(id)
          budgetClosed(held, what.amount)
          ledger.enqueueSettlement({
            ...who,
            ...what,
            id,
            tenantId,
            origin: "gateway",
            canActForOthers: true,
            chargeId
          })
        }
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
        const id = (yield* newId) as ReservationId
        const chargeId = (yield* newId) as ChargeId
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
          budgetLeft(result.available)
          return {
            id,
            amountNanoUsd: amount,
            tokens,
            remainingNanoUsd: leastRoom(result.available, "usd"),
            ...closing(id, spender.tenantId, who, amount, chargeId)
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
        const { principal } = yield* requester
        const adopted = yield* transfers.transfer({ ...spender, id, reserved, amount, tokens, ttlSeconds }).pipe(
          Effect.catchDefect((defect) => unreachable(Cause.die(defect))),
          Effect.mapError((problem): NoRoom =>
            "refusal" in problem ? problem : { refusal: unusable(problem, id), room: undefined }
          )
        )
        return {
          id,
          amountNanoUsd: adopted.amount,
          tokens: adopted.tokens,
          remainingNanoUsd: adopted.remainingNanoUsd,
          ...closing(id, spender.tenantId, { principal }, adopted.amount, (yield* newId) as ChargeId)
        }
      })

      return Metering.of({ governed, isGovernedStill, hold, adopt })
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
