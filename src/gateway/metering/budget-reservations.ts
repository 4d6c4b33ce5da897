import { Clock, Context, Effect, Exit, Fiber, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { ReservationTransfers } from "../../budgets/reservations/transfers.ts"
import { applicableCaps, CapIndexes, type CapIndexesByTenant } from "../../budgets/ledger/cap-index.ts"
import { type ChargeId, type ReservationId } from "../../budgets/ledger/domain.ts"
import {
  type BudgetSubject,
  type CallDetails,
  type CloseItem,
  releaseOf,
  type Requester
} from "../../budgets/ledger/protocol-domain.ts"
import { requester } from "../../budgets/attribution/service.ts"
import { Ledger } from "../../budgets/ledger/service.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type ExistingReservation } from "../authentication/gateway-authentication.ts"
import { budgetClosed, budgetHeld, budgetLeft } from "../telemetry/metrics.ts"
import { leastAvailable, type AdmissionDenied, admissionDenied, transferError } from "./budget-errors.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { overloaded } from "../errors/gateway-error.ts"

/** The actual cost of a call. */
export interface Settlement {
  readonly costNanoUsd: bigint
  readonly tokens: number
}

/** Budget that is reserved for one call, until the call ends, exactly once. */
export interface BudgetReservation {
  readonly id: ReservationId
  readonly amountNanoUsd: bigint
  readonly tokens: number
  /** What the caps in money leave besides it; null if none applies. */
  readonly remainingNanoUsd: bigint | null
  settle(settlement: Settlement, details: CallDetails): void
  /** Releases the whole reservation: nothing billable was done; without details, nothing that is a request. */
  release(details?: CallDetails): void
}

/** Which kinds of caps apply to a call. */
export interface CapConstraints {
  /** Any cap in money: the price must be known. */
  readonly byMoney: boolean
  /** A cap in money or tokens that denies calls: the cost must be bounded. */
  readonly byHard: boolean
  /** A cap in money that denies calls: every fee must be known. */
  readonly byHardMoney: boolean
  /** Whether a cap in tokens denies calls; unknown where limits of the call itself apply. */
  readonly byHardTokens?: boolean | undefined
  /** The copies of caps that this is based on, which may be stale; the ledger then has them read again. */
  readonly books?: CapIndexesByTenant
}

/** A reservation may miss this many renewals, less one, before its call is considered dead. */
const renewalsPerHold = 3
const maxTogether = 1000

/**
 * Renews the reservations of this process's calls in one batch. After a crash they are no longer renewed, and the sweeper
 * settles them when they expire.
 */
export class ReservationRenewal extends Context.Service<
  ReservationRenewal,
  {
    add(id: ReservationId, tenantId: TenantId): void
    remove(id: ReservationId): void
  }
>()("app/gateway/ReservationRenewal") {
  static readonly layer = Layer.effect(
    ReservationRenewal,
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const { holdSeconds } = (yield* Settings).llm.gateway
      const live = new Map<ReservationId, { readonly tenantId: TenantId; readonly id: ReservationId }>()
      const renew = Effect.suspend(() => {
        const calls = [...live.values()]
        const batches = Array.from({ length: Math.ceil(calls.length / maxTogether) }, (_, index) =>
          calls.slice(index * maxTogether, (index + 1) * maxTogether)
        )
        return Effect.forEach(batches, (batch) => ledger.renew(batch, holdSeconds), { discard: true })
      })
      yield* repeatJob("renew what running calls hold", `${(holdSeconds * 1000) / renewalsPerHold} millis`, renew)
      return ReservationRenewal.of({
        add: (id, tenantId) => {
          live.set(id, { tenantId, id })
        },
        remove: (id) => {
          live.delete(id)
        }
      })
    })
  )
}

/** Reserves the maximum cost of a call before it is sent, and charges the actual cost when it ends. */
export class BudgetReservations extends Context.Service<
  BudgetReservations,
  {
    constraintsOf(subject: BudgetSubject): Effect.Effect<CapConstraints>
    /** Whether the caps, as they are known now, constrain a subject as before. */
    areCurrent(subject: BudgetSubject, constraints: CapConstraints): Effect.Effect<boolean>
    /** `mayWait`: whether it waits for an approval, where a cap asks for one. */
    reserve(
      subject: BudgetSubject,
      amountNanoUsd: bigint,
      tokens: number,
      mayWait: boolean,
      metadata?: Readonly<Record<string, string>>
    ): Effect.Effect<BudgetReservation, AdmissionDenied>
    /** Uses an existing reservation of the same caller. */
    transfer(
      subject: BudgetSubject,
      existing: ExistingReservation,
      amountNanoUsd: bigint,
      tokens: number
    ): Effect.Effect<BudgetReservation, AdmissionDenied>
  }
>()("app/gateway/BudgetReservations") {
  static readonly layer = Layer.effect(
    BudgetReservations,
    Effect.gen(function* () {
      const transfers = yield* ReservationTransfers
      const capIndexes = yield* CapIndexes
      const ledger = yield* Ledger
      const live = yield* ReservationRenewal
      const newId = (yield* SecureRandom.SecureRandom).uuidV7()
      const ttlSeconds = (yield* Settings).llm.gateway.holdSeconds

      const constraintsOf = (subject: BudgetSubject) =>
        Effect.mapEager(capIndexes.of([subject]), (known): CapConstraints => {
          let byMoney = subject.plan !== undefined
          let byHard = byMoney
          let byHardMoney = byMoney
          let byHardTokens = false
          for (const { cap } of applicableCaps(known, subject)) {
            if (cap.status !== "active") continue
            byMoney ||= cap.unit === "usd"
            byHard ||= cap.unit !== "requests" && cap.mode !== "soft"
            byHardMoney ||= cap.unit === "usd" && cap.mode !== "soft"
            byHardTokens ||= cap.unit === "tokens" && cap.mode !== "soft"
          }
          return { byMoney, byHard, byHardMoney, byHardTokens, books: known }
        })

      const areCurrent = (subject: BudgetSubject, before: CapConstraints) =>
        before.books === undefined
          ? Effect.succeed(true)
          : Effect.flatMapEager(capIndexes.areCurrent(before.books), (areSame) =>
              areSame
                ? Effect.succeed(true)
                : Effect.map(constraintsOf(subject), (now) => kinds.every((kind) => now[kind] === before[kind]))
            )

      const closing = (id: ReservationId, tenantId: TenantId, who: Requester, held: bigint, chargeId: ChargeId) => {
        let closed = false
        live.add(id, tenantId)
        budgetHeld(held)
        const close = (kind: CloseItem["kind"], amount: bigint, tokens: number | undefined, call?: CallDetails) => {
          if (closed) return
          closed = true
          live.remove(id)
          budgetClosed(held, amount)
          const { principal } = who
          const origin = "gateway"
          ledger.enqueueSettlement({
            principal,
            kind,
            amount,
            tokens,
            call,
            id,
            tenantId,
            origin,
            canActForOthers: true,
            chargeId
          })
        }
        return {
          settle: ({ costNanoUsd, tokens }: Settlement, details: CallDetails) =>
            close("settle", costNanoUsd, tokens, details),
          release: (details?: CallDetails) => close("release", 0n, undefined, details)
        }
      }

      const reserve = Effect.fnUntraced(function* (
        subject: BudgetSubject,
        amount: bigint,
        tokens: number,
        mayWait: boolean,
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
            mayWait,
            id,
            tenantId: subject.tenantId,
            origin: "gateway",
            dimensions: subject.dimensions,
            plan: subject.plan,
            amount,
            tokens,
            ttlSeconds,
            metadata
          })
          .pipe(
            // A connection may break after a commit and before its answer.
            Effect.catchDefect((defect) => {
              ledger.enqueueSettlement(releaseOf({ ...who, id, tenantId: subject.tenantId, origin: "gateway" }))
              return unreachable(defect)
            })
          )
        if (result.verdict === "open") {
          budgetLeft(result.available)
          return {
            id,
            amountNanoUsd: amount,
            tokens,
            remainingNanoUsd: leastAvailable(result.available, "usd"),
            ...closing(id, subject.tenantId, who, amount, chargeId)
          }
        }
        const now = yield* Clock.currentTimeMillis
        return yield* Effect.fail(admissionDenied(result, principal, subject, id, now))
      })

      const transfer = Effect.fnUntraced(function* (
        subject: BudgetSubject,
        { amountNanoUsd: reserved, id }: ExistingReservation,
        amount: bigint,
        tokens: number
      ) {
        const { principal } = yield* requester
        const adopting = transfers.transfer({ ...subject, id, reserved, amount, tokens, ttlSeconds })
        const adopted = yield* finished(adopting, () =>
          ledger.enqueueSettlement(releaseOf({ principal, id, tenantId: subject.tenantId, origin: "gateway" }))
        ).pipe(
          Effect.catchDefect(unreachable),
          Effect.mapError((problem): AdmissionDenied =>
            "remaining" in problem
              ? problem
              : { error: transferError(problem, id), remaining: undefined, couldWait: false }
          )
        )
        return {
          id,
          amountNanoUsd: adopted.amount,
          tokens: adopted.tokens,
          remainingNanoUsd: adopted.remainingNanoUsd,
          ...closing(id, subject.tenantId, { principal }, adopted.amount, (yield* newId) as ChargeId)
        }
      })

      return BudgetReservations.of({ constraintsOf, areCurrent, reserve, transfer })
    })
  )
}

const kinds = ["byMoney", "byHard", "byHardMoney", "byHardTokens"] as const

/** Runs to its end although the caller may leave meanwhile; then its result is undone. */
const finished = <A, E, R>(effect: Effect.Effect<A, E, R>, undo: () => void): Effect.Effect<A, E, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(effect, { startImmediately: true }), (fiber) =>
      Effect.onInterrupt(restore(Fiber.join(fiber)), () =>
        Effect.sync(() => void fiber.addObserver((exit) => (Exit.isSuccess(exit) ? undo() : undefined)))
      )
    )
  )

const unreachable = (defect: unknown): Effect.Effect<never, AdmissionDenied> =>
  Effect.andThen(
    Effect.logError("The ledger cannot be asked", defect),
    Effect.fail({ error: overloaded("The ledger cannot be reached.", 2), remaining: undefined, couldWait: false })
  )
