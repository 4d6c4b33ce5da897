import { Clock, Context, Effect, Exit, Fiber, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { requester } from "../../budgets/attribution/service.ts"
import { applicableCaps, CapIndexes, type CapIndexesByTenant } from "../../budgets/ledger/cap-index.ts"
import { type ChargeId, type ReservationId } from "../../budgets/ledger/domain.ts"
import {
  type BudgetSubject,
  type CallDetails,
  type CloseItem,
  releaseOf,
  type Requester
} from "../../budgets/ledger/protocol-domain.ts"
import { Ledger } from "../../budgets/ledger/service.ts"
import { ReservationTransfers } from "../../budgets/reservations/transfers.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type ExistingReservation } from "../authentication/gateway-authentication.ts"
import { ledgerUnreachable } from "../errors/gateway-error.ts"
import { budgetClosed, budgetHeld, budgetLeft } from "../telemetry/metrics.ts"
import { leastAvailable, type AdmissionDenied, admissionDenied, transferError } from "./budget-errors.ts"

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
  /** What one that was made before the call can do besides; to release it is to return it to the caller. */
  readonly earlier?: EarlierReservation | undefined
}

/** A reservation that was made before the call, and serves its attempts as long as it has something left. */
export interface EarlierReservation {
  /** Counts it on the caps of another target from now on. */
  moveTo(
    subject: BudgetSubject,
    amountNanoUsd: bigint,
    tokens: number
  ): Effect.Effect<BudgetReservation, AdmissionDenied>
  /** Settles it for a failed attempt; what that leaves is reserved for the next one. Undefined where nothing is left. */
  settlePart(
    settlement: Settlement,
    details: CallDetails,
    restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  ): Effect.Effect<BudgetReservation | undefined>
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

/** What is held for longer than the process that asks for it may live. */
export interface HeldItem {
  readonly id: ReservationId
  readonly subject: BudgetSubject
  readonly amountNanoUsd: bigint
  readonly tokens: number
  readonly ttlSeconds: number
  readonly metadata?: Readonly<Record<string, string>> | undefined
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
    /** Holds what the calls of a batch may cost, under an id that is stored before; the hold is not renewed. */
    hold(item: HeldItem): Effect.Effect<void, AdmissionDenied>
    /** Uses an existing reservation of the same caller. */
    transfer(
      subject: BudgetSubject,
      existing: ExistingReservation,
      amountNanoUsd: bigint,
      tokens: number
    ): Effect.Effect<BudgetReservation, AdmissionDenied>
    /** Waits until what calls have returned is written, so that the caller may use it again. */
    returned(tenantId: TenantId): Effect.Effect<void>
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

      const closing = (
        id: ReservationId,
        tenantId: TenantId,
        who: Requester,
        held: bigint,
        chargeId: ChargeId,
        unused: "release" | "return" = "release"
      ) => {
        let closed = false
        live.add(id, tenantId)
        budgetHeld(held)
        const itemOf = (
          kind: CloseItem["kind"],
          amount: bigint,
          tokens: number | undefined,
          call: CallDetails | undefined
        ): CloseItem => ({
          principal: who.principal,
          kind,
          amount,
          tokens,
          call,
          id,
          tenantId,
          origin: "gateway",
          canActForOthers: true,
          chargeId
        })
        /** Whether it is closed by this, and was not before. */
        const ends = (amount: bigint): boolean => {
          if (closed) return false
          closed = true
          live.remove(id)
          budgetClosed(held, amount)
          return true
        }
        return {
          itemOf,
          ends,
          settle: ({ costNanoUsd, tokens }: Settlement, details: CallDetails) => {
            if (ends(costNanoUsd)) ledger.enqueueSettlement(itemOf("settle", costNanoUsd, tokens, details))
          },
          release: (details?: CallDetails) => {
            if (ends(0n)) ledger.enqueueSettlement(itemOf(unused, 0n, undefined, details))
          }
        }
      }

      /** What the caps leave beside a reservation that was made. */
      const open = Effect.fnUntraced(function* (
        { amountNanoUsd: amount, subject, ...item }: HeldItem,
        mayWait: boolean
      ) {
        const { id, tokens } = item
        const principal = yield* CurrentPrincipal
        const who = { principal: principal.name }
        const result = yield* ledger
          .reserve({
            ...who,
            ...item,
            kind: "reserve",
            mayWait,
            tenantId: subject.tenantId,
            origin: "gateway",
            dimensions: subject.dimensions,
            plan: subject.plan,
            amount
          })
          .pipe(
            // A connection may break after a commit and before its answer.
            Effect.catchDefect((defect) => {
              ledger.enqueueSettlement(releaseOf({ ...who, id, tenantId: subject.tenantId, origin: "gateway" }))
              return denyUnreachable(defect)
            })
          )
        if (result.verdict === "open") {
          budgetLeft(result.available)
          return { who, remainingNanoUsd: leastAvailable(result.available, principal, "usd") }
        }
        const now = yield* Clock.currentTimeMillis
        const asked = { id, amounts: { usd: amount, tokens: BigInt(tokens), requests: 1n } }
        return yield* Effect.fail(admissionDenied(result, principal, subject, asked, now))
      })

      const reserve = Effect.fnUntraced(function* (
        subject: BudgetSubject,
        amountNanoUsd: bigint,
        tokens: number,
        mayWait: boolean,
        metadata?: Readonly<Record<string, string>>
      ) {
        const id = (yield* newId) as ReservationId
        const chargeId = (yield* newId) as ChargeId
        const { remainingNanoUsd, who } = yield* open(
          { id, subject, amountNanoUsd, tokens, ttlSeconds, metadata },
          mayWait
        )
        return {
          id,
          amountNanoUsd,
          tokens,
          remainingNanoUsd,
          ...closing(id, subject.tenantId, who, amountNanoUsd, chargeId)
        }
      })

      const hold = (item: HeldItem) => Effect.asVoid(open(item, false))

      /** Gives the reservation to an attempt. */
      const adopt = (
        subject: BudgetSubject,
        { amountNanoUsd: reserved, id }: ExistingReservation,
        by: { readonly chargeId: ChargeId; readonly moves: boolean },
        amount: bigint,
        tokens: number
      ) =>
        transfers.transfer({ ...subject, ...by, id, reserved, amount, tokens, ttlSeconds }).pipe(
          Effect.mapError((problem): AdmissionDenied => ({
            error: transferError(problem, id),
            remaining: undefined,
            couldWait: false
          }))
        )

      /** What a call does with a reservation that it took over: `unused` is how it ends where nothing was charged. */
      const taken = (
        who: Requester,
        subject: BudgetSubject,
        existing: ExistingReservation,
        chargeId: ChargeId,
        next: { readonly id: ReservationId; readonly chargeId: ChargeId },
        figures: Pick<BudgetReservation, "tokens" | "remainingNanoUsd">,
        unused: "release" | "return"
      ): BudgetReservation => {
        const { amountNanoUsd, id } = existing
        const { tenantId } = subject
        const { ends, itemOf, release, settle } = closing(id, tenantId, who, amountNanoUsd, chargeId, unused)
        const settlePart: EarlierReservation["settlePart"] = ({ costNanoUsd, tokens }, details, restore) => {
          if (!ends(costNanoUsd)) return Effect.succeed(undefined)
          const item = itemOf("settle", costNanoUsd, tokens, details)
          const undo = () => ledger.enqueueSettlement(releaseOf({ ...who, id: next.id, tenantId, origin: "gateway" }))
          const settling = ledger.settlePart(item, next).pipe(
            // It may have been written before its answer was lost: then this settles nothing again.
            Effect.catchDefect((defect) => {
              ledger.enqueueSettlement(item)
              undo()
              return Effect.as(Effect.logError("A settlement could not be written", defect), undefined)
            })
          )
          return Effect.flatMapEager(finishing(restore, settling, undo), (rest) =>
            rest === undefined
              ? Effect.succeed(undefined)
              : Effect.map(newIds, (ids) => {
                  const left = { id: next.id, amountNanoUsd: rest.amount }
                  const { tokens: restTokens } = rest
                  return taken(who, subject, left, next.chargeId, ids, { ...figures, tokens: restTokens }, "release")
                })
          )
        }
        const at = (figuresThere: Pick<BudgetReservation, "tokens" | "remainingNanoUsd">): BudgetReservation => ({
          ...figuresThere,
          id,
          amountNanoUsd,
          settle,
          release,
          earlier: {
            settlePart,
            moveTo: (there, amount, tokens) =>
              adopt(there, existing, { chargeId, moves: true }, amount, tokens).pipe(
                Effect.catchDefect(denyUnreachable),
                Effect.map((moved) => at({ tokens: moved.tokens, remainingNanoUsd: moved.remainingNanoUsd }))
              )
          }
        })
        return at(figures)
      }

      const newIds = Effect.map(Effect.all([newId, newId]), ([id, chargeId]) => ({
        id: id as ReservationId,
        chargeId: chargeId as ChargeId
      }))

      const transfer = Effect.fnUntraced(function* (
        subject: BudgetSubject,
        existing: ExistingReservation,
        amount: bigint,
        tokens: number
      ) {
        const { principal } = yield* requester
        const { id } = existing
        const chargeId = (yield* newId) as ChargeId
        const next = yield* newIds
        const undo = () =>
          ledger.enqueueSettlement({
            principal,
            kind: "return",
            id,
            tenantId: subject.tenantId,
            origin: "gateway",
            canActForOthers: true,
            amount: 0n,
            chargeId
          })
        const adopting = adopt(subject, existing, { chargeId, moves: false }, amount, tokens)
        const adopted = yield* finished(adopting, undo).pipe(
          // A connection may break after a commit and before its answer.
          Effect.catchDefect((defect) => {
            undo()
            return denyUnreachable(defect)
          })
        )
        const held = { id, amountNanoUsd: adopted.amount }
        const figures = { tokens: adopted.tokens, remainingNanoUsd: adopted.remainingNanoUsd }
        return taken({ principal }, subject, held, chargeId, next, figures, "return")
      })

      return BudgetReservations.of({
        constraintsOf,
        areCurrent,
        reserve,
        hold,
        transfer,
        returned: ledger.flushSettlements
      })
    })
  )
}

const kinds = ["byMoney", "byHard", "byHardMoney", "byHardTokens"] as const

/** Runs to its end although the caller may leave meanwhile; then its result is undone. */
const finished = <A, E, R>(effect: Effect.Effect<A, E, R>, undo: () => void): Effect.Effect<A, E, R> =>
  Effect.uninterruptibleMask((restore) => finishing(restore, effect, undo))

/** The same in a region that cannot be interrupted, but for the wait. */
const finishing = <A, E, R>(
  restore: <B, F, S>(wait: Effect.Effect<B, F, S>) => Effect.Effect<B, F, S>,
  effect: Effect.Effect<A, E, R>,
  undo: () => void
): Effect.Effect<A, E, R> =>
  Effect.flatMap(Effect.forkDetach(effect, { startImmediately: true }), (fiber) =>
    Effect.onInterrupt(restore(Fiber.join(fiber)), () =>
      Effect.sync(() => void fiber.addObserver((exit) => (Exit.isSuccess(exit) ? undo() : undefined)))
    )
  )

const denyUnreachable = (defect: unknown): Effect.Effect<never, AdmissionDenied> =>
  Effect.mapError(ledgerUnreachable("The ledger")(defect), (error) => ({
    error,
    remaining: undefined,
    couldWait: false
  }))
