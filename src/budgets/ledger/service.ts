import { Array as Arr, type Cause, Context, Effect, Exit, FiberSet, Layer, Schedule, type Scope } from "effect"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { withSpan } from "../../kernel/with-span.ts"
import { makeBatcher } from "../../platform/database/batcher.ts"
import { statementMoment } from "../../platform/database/database.ts"
import { databaseDeadline } from "../../platform/http/deadline.ts"
import { problemOf } from "../../platform/http/failures.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { FlushSettlements } from "./api.ts"
import { applicableCaps, CapIndexes, type CapIndexesByTenant, revisionsOf } from "./cap-index.ts"
import { allTenants, type ChargeId, type ReservationId, type StoredReservation } from "./domain.ts"
import { ledgerLate } from "./problems.ts"
import {
  type CloseItem,
  type CloseResult,
  type DenyItem,
  type ExtendItem,
  idempotencySlots,
  type RefundItem,
  releaseOf,
  type Requester,
  type ReservationRest,
  type ReserveItem,
  type ReserveResult,
  type SpendingReport,
  type TransferItem,
  type TransferResult
} from "./protocol-domain.ts"
import { forecastOf } from "./quantity-domain.ts"
import {
  type DenyOutcome,
  type Drift,
  type ExtendOutcome,
  isOverflow,
  LedgerStore,
  type RefundOutcome,
  sqlStateOf
} from "./repository.ts"

const maxBatchSize = 200
const maxSweptAtOnce = 2000
const hundred = 100n

/**
 * The one place where reservations are made, settled and released; plans reserve their budget with `budgets_once`. A batch
 * is one statement, which is its own transaction, and a request is answered after the commit. Requests that arrive while a
 * batch runs go together in the next one, so that a hot cap is locked once for many. Each tenant has a lane with one batch
 * at a time, so that no tenant waits for another. A lone request leaves at the end of its turn of the event loop; under load
 * the only wait is the commit before it. A failing statement is bisected, so that an invalid request fails alone.
 *
 * Measured on two cores with fsync: a statement costs 0.6 ms for one reservation, most of it whatever the size of the batch;
 * in batches of 32 PostgreSQL takes 16 µs for each on one cap; 64,000 expired reservations are swept a second. Over HTTP
 * (`npm run bench:ledger`) this process is the bottleneck, so a second concurrent batch in a lane made nothing faster.
 */
export class Ledger extends Context.Service<
  Ledger,
  {
    /** Admits, holds or denies each, in the order given. */
    reserveBatch(items: ReadonlyArray<ReserveItem>): Effect.Effect<ReadonlyArray<ReserveResult>>
    /** Settles and releases; a reservation must not be twice in a batch. */
    closeBatch(items: ReadonlyArray<CloseItem>): Effect.Effect<ReadonlyArray<CloseResult>>
    /** The same for one, in a batch with whatever else arrives. What is reserved for a caller that has left is released. */
    reserve(item: ReserveItem): Effect.Effect<ReserveResult>
    close(item: CloseItem): Effect.Effect<CloseResult>
    /** The answer to the first reserve under the key of a requester; undefined where there was none. */
    replayOf(
      by: Requester
    ): Effect.Effect<{ readonly sha256: string; readonly reservation: StoredReservation } | undefined>
    /**
     * Charges what was spent elsewhere, whatever the limits, and takes the events that report it; answers how many of them
     * are new. All are taken or none: "full" where a counter can hold no more.
     */
    record(report: SpendingReport): Effect.Effect<number | "full">
    /** Closes without waiting, and retries while the database is away. Later reservations see it before they are denied. */
    enqueueSettlement(item: CloseItem): void
    /** Waits until the settlements enqueued before are written, of one tenant or of all. */
    flushSettlements(tenantId: TenantId | null): Effect.Effect<void>
    /**
     * Gives a prepared reservation to an attempt of a gateway call, together with what else the caps of the attempt require.
     * Where the call ends at no cost, `return` gives it back.
     */
    transfer(item: TransferItem): Effect.Effect<TransferResult>
    /**
     * Settles such a reservation for an attempt that failed, and answers what is left for the next one: it is reserved as
     * `rest`. Undefined where nothing is left.
     */
    settlePart(
      item: CloseItem,
      rest: { readonly id: ReservationId; readonly chargeId: ChargeId }
    ): Effect.Effect<ReservationRest | undefined>
    /** Extends the time of an open reservation, from now on. */
    extend(item: ExtendItem): Effect.Effect<ExtendOutcome>
    /** Denies a held reservation. */
    deny(item: DenyItem): Effect.Effect<DenyOutcome>
    /** Returns a part of a charge, on the periods that it was charged on. */
    refund(item: RefundItem): Effect.Effect<RefundOutcome>
    /** Ends what is due, of one tenant or of all, and decides the forecasts of all; answers how many. */
    sweep(tenantId: TenantId | null): Effect.Effect<number>
    /** The same, and waits for other replicas that are sweeping: afterwards nothing is denied because of what was due. */
    reclaim(tenantId: TenantId | null): Effect.Effect<void>
    /** Extends the time of gateway calls that still run. */
    renew(
      calls: ReadonlyArray<{ readonly tenantId: TenantId; readonly id: ReservationId }>,
      ttlSeconds: number
    ): Effect.Effect<void>
    /** Counters that differ from the sum of what was written. */
    readonly drift: Effect.Effect<ReadonlyArray<Drift>>
  }
>()("app/budgets/Ledger") {
  static readonly layerNoDeps = Layer.effect(
    Ledger,
    Effect.gen(function* () {
      const capIndexes = yield* CapIndexes
      const store = yield* LedgerStore
      const { budgets } = yield* Settings

      const reclaim = Effect.fnUntraced(function* (tenant: TenantId | null) {
        const due = { now: yield* statementMoment, tenant, most: maxSweptAtOnce, waiting: true }
        while ((yield* store.sweepPlans(due)) === maxSweptAtOnce);
        while ((yield* store.sweep(due)) === maxSweptAtOnce);
      })

      /**
       * Decides which forecasts have passed a threshold, by what their counters were when they moved. Checks are written in
       * the transaction of the move and stay until they are decided, so that a crash loses none.
       */
      const decideForecasts = Effect.gen(function* () {
        const checks = yield* store.forecastChecks(maxSweptAtOnce)
        if (checks.length === 0) return 0
        const decided = checks.map(({ id, limitAmount, occurredAt, percents, periodEnd, periodStart, spent }) => {
          const forecast = forecastOf(spent, periodStart, periodEnd, occurredAt)
          const isPassed = (percent: number) =>
            forecast !== undefined && BigInt(percent) * limitAmount <= hundred * forecast
          return { id, percents: percents.filter(isPassed) }
        })
        yield* store.endForecastChecks(decided, yield* statementMoment)
        return checks.length
      })

      const closeTogether = (items: ReadonlyArray<CloseItem>) =>
        Effect.map(closeBisected(items), (exits) =>
          exits.map((exit) =>
            Exit.isFailure(exit) && isOverflow(exit.cause) ? Exit.succeed<CloseResult>({ verdict: "full" }) : exit
          )
        )
      /** A return locks counters of two calls' caps, so that it has a statement of its own. */
      const closeEach = (items: ReadonlyArray<CloseItem>) =>
        Arr.isReadonlyArrayNonEmpty(items) && items.some(isReturn)
          ? Effect.map(
              Effect.forEach(
                Arr.groupWith(items, (one, next) => !isReturn(one) && !isReturn(next)),
                closeTogether
              ),
              (exits) => exits.flat()
            )
          : closeTogether(items)
      const closeBisected = bisectOnFailure(
        withSpan("Ledger.closeBatch", (items: ReadonlyArray<CloseItem>) =>
          Effect.flatMap(statementMoment, (now) => store.close(items, now))
        )
      )
      const settlements = yield* makeSettlementQueue(closeEach, maxBatchSize)

      /** An item is decided again as uncovered: where a cap is required, an item without one is refused by a copy of the caps that was read just now. */
      const resolveCaps = Effect.fnUntraced(function* (items: ReadonlyArray<ReserveItem>) {
        const known = yield* capIndexes.of(items)
        if (!budgets.requireCap || !items.some(lacksCap(known))) return { indexes: known, isUncovered: () => false }
        // An uncovered item never reaches the statement, which alone knows whether the copy is old.
        yield* capIndexes.refresh(known.keys())
        const fresh = yield* capIndexes.of(items)
        return { indexes: fresh, isUncovered: lacksCap(fresh) }
      })

      /** As stale: the statement found that the copies of the caps are old, so they are read again. */
      const refreshCaps = (indexes: CapIndexesByTenant, stale: ReadonlyArray<ReserveItem>): Effect.Effect<void> =>
        stale.length === 0 ? Effect.void : capIndexes.refresh(indexes.keys())

      /** As due: expired reservations take no room, so they are swept before an item is denied because of them. */
      const sweepDue = (indexes: CapIndexesByTenant, due: ReadonlyArray<ReserveItem>): Effect.Effect<void> => {
        const isOfAll = due.some((item) => applicableCaps(indexes, item).some(isOverAllTenants))
        return Effect.forEach(isOfAll ? [null] : new Set(due.map(({ tenantId }) => tenantId)), reclaim, {
          discard: true
        })
      }

      /** As settling: what a pending settlement returns is available once it is written, so a denied item waits for that once. */
      const writeSettlements = (indexes: CapIndexesByTenant, denied: ReadonlyArray<ReserveItem>): Effect.Effect<void> =>
        Effect.forEach(settlementLanes(indexes, denied), settlements.flush, { discard: true })

      /** Whether settlements are pending that may make room for items; those are written first where an item may be held. */
      const areSettling = Effect.fnUntraced(function* (indexes: CapIndexesByTenant, items: ReadonlyArray<ReserveItem>) {
        const busy = settlementLanes(indexes, items).filter((lane) => settlements.isBusy(lane))
        // A held reservation is written at once, so nothing may be held that a pending settlement would make room for.
        const mayBeHeld = [...indexes.values()].some(({ asksForApproval }) => asksForApproval)
        if (mayBeHeld) yield* Effect.forEach(busy, settlements.flush, { discard: true })
        return busy.length > 0
      })

      /** Decides by one statement. Failed: where the values of an item break the statement, the item fails alone. */
      const decide = (indexes: CapIndexesByTenant) =>
        bisectOnFailure(
          Effect.fnUntraced(function* (
            items: ReadonlyArray<ReserveItem>
          ): Effect.fn.Return<ReadonlyArray<ReserveResult | "stale" | "due">> {
            const results = yield* store.reserve({
              requests: items.map((item) => ({ item, caps: applicableCaps(indexes, item) })),
              revisions: revisionsOf(indexes),
              now: yield* statementMoment,
              holdSeconds: budgets.holdSeconds
            })
            return results === "stale" ? items.map(() => results) : results
          })
        )

      /** Decides items in the order given, in rounds: what has a reason to be decided again is in the next one. */
      const reserveEach = withSpan(
        "Ledger.reserveBatch",
        Effect.fnUntraced(function* (items: ReadonlyArray<ReserveItem>) {
          const decided = new Map<ReserveItem, Exit.Exit<ReserveResult>>()
          const mayWait = new Set(items)
          for (let left = items; left.length > 0; left = left.filter((item) => !decided.has(item))) {
            const { indexes, isUncovered } = yield* resolveCaps(left)
            for (const item of left) if (isUncovered(item)) decided.set(item, Exit.succeed({ verdict: "uncovered" }))
            const open = left.filter((item) => !decided.has(item))
            if (open.length === 0) break
            const isSettling = yield* areSettling(indexes, open)
            const exits = yield* decide(indexes)(open)
            const again = {
              stale: new Array<ReserveItem>(),
              due: new Array<ReserveItem>(),
              settling: new Array<ReserveItem>()
            }
            for (const [index, item] of open.entries()) {
              const exit = exits[index] ?? Exit.succeed({ verdict: "gone" } as const)
              if (Exit.isFailure(exit)) decided.set(item, Exit.failCause(exit.cause))
              else if (exit.value === "stale" || exit.value === "due") again[exit.value].push(item)
              else if (isSettling && isDenied(exit.value) && mayWait.delete(item)) again.settling.push(item)
              else decided.set(item, Exit.succeed(exit.value))
            }
            yield* refreshCaps(indexes, again.stale)
            yield* sweepDue(indexes, again.due)
            yield* writeSettlements(indexes, again.settling)
          }
          return items.map((item) => decided.get(item) ?? Exit.succeed<ReserveResult>({ verdict: "gone" }))
        })
      )

      const reservations = yield* makeBatcher({
        maximum: maxBatchSize,
        lane: ({ tenantId }: ReserveItem) => tenantId,
        // Two approvals of the same reservation follow each other.
        keys: (item) => (item.kind === "reserve" ? idempotencySlots(item) : [item.id, ...idempotencySlots(item)]),
        // What a key keeps is there for the repeated request.
        abandoned: (item, exit) => {
          const verdict = Exit.isSuccess(exit) && Exit.isSuccess(exit.value) ? exit.value.value.verdict : "open"
          const isMade = verdict === "open" || verdict === "held"
          if (item.kind === "reserve" && item.repeatable === undefined && isMade) settlements.enqueue(releaseOf(item))
        },
        run: reserveEach
      })

      const flushSettlements = (tenantId: TenantId | null): Effect.Effect<void> => {
        const lane = tenantId ?? undefined
        return settlements.isBusy(lane) ? settlements.flush(lane) : Effect.void
      }

      const decideTransfer = Effect.fnUntraced(function* (item: TransferItem) {
        for (;;) {
          const indexes = yield* capIndexes.of([item])
          const caps = applicableCaps(indexes, item)
          const result = yield* store.transfer(item, caps, revisionsOf(indexes), yield* statementMoment)
          if (result !== "stale") return { caps, result }
          yield* capIndexes.refresh(indexes.keys())
        }
      })

      return Ledger.of({
        reserveBatch: (items) => Effect.flatMap(reserveEach(items), (exits) => Effect.all(exits)),
        closeBatch: (items) => Effect.flatMap(closeEach(items), (exits) => Effect.all(exits)),
        reserve: (item) => Effect.flatten(reservations.submit(item)),
        close: (item) =>
          item.kind === "release" && item.seen !== undefined
            ? Effect.flatMap(statementMoment, (now) => store.releaseSeen(item, now))
            : Effect.flatten(settlements.submit(item)),
        replayOf: store.replayOf,
        enqueueSettlement: settlements.enqueue,
        flushSettlements,
        record: Effect.fn("Ledger.record")(
          function* (report) {
            const items = report.spent.map(({ item }) => item.reservation)
            for (;;) {
              const indexes = yield* capIndexes.of(items)
              const capsOf = (item: ReserveItem) => applicableCaps(indexes, item)
              const fresh = yield* store.record(report, capsOf, revisionsOf(indexes), yield* statementMoment)
              if (fresh !== "stale") return fresh
              yield* capIndexes.refresh(indexes.keys())
            }
          },
          Effect.catchCause((cause) => (isOverflow(cause) ? Effect.succeed("full" as const) : Effect.failCause(cause)))
        ),
        transfer: Effect.fn("Ledger.transfer")(function* (item) {
          const { caps, result } = yield* decideTransfer(item)
          const { verdict } = result
          // A call may be about to return it, in a stream that has ended.
          const mayBeReturned = verdict === "managed" && !item.moves && settlements.isBusy(item.tenantId)
          if (verdict !== "denied" && !mayBeReturned) return result
          // Pending settlements are written and expired reservations swept before a transfer is denied.
          const tenant = caps.some(isOverAllTenants) ? null : item.tenantId
          yield* flushSettlements(tenant)
          if (verdict === "denied") yield* reclaim(tenant)
          return (yield* decideTransfer(item)).result
        }),
        settlePart: Effect.fn("Ledger.settlePart")(function* (item, rest) {
          return yield* store.settlePart(item, rest.id, rest.chargeId, yield* statementMoment)
        }),
        extend: Effect.fn("Ledger.extend")(function* (item) {
          return yield* store.extend(item, yield* statementMoment)
        }),
        deny: Effect.fn("Ledger.deny")(function* (item) {
          return yield* store.deny(item, yield* statementMoment)
        }),
        refund: Effect.fn("Ledger.refund")(function* (item) {
          return yield* store.refund(item, yield* statementMoment)
        }),
        sweep: Effect.fn("Ledger.sweep")(function* (tenant) {
          const due = { now: yield* statementMoment, tenant, most: maxSweptAtOnce, waiting: false }
          return (yield* store.sweepPlans(due)) + (yield* store.sweep(due)) + (yield* decideForecasts)
        }),
        reclaim,
        renew: Effect.fn("Ledger.renew")(function* (calls, ttlSeconds) {
          yield* store.renew(calls, ttlSeconds, yield* statementMoment)
        }),
        drift: store.drift
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provideMerge(CapIndexes.layerNoDeps),
    Layer.provide(LedgerStore.layer)
  )
}

const lacksCap =
  (indexes: CapIndexesByTenant) =>
  (item: ReserveItem): boolean =>
    item.kind === "reserve" && item.plan === undefined && applicableCaps(indexes, item).length === 0

const isDenied = ({ verdict }: ReserveResult): boolean => verdict === "denied" || verdict === "no-room"

const isReturn = ({ kind }: CloseItem): boolean => kind === "return"

const isOverAllTenants = ({ cap }: { readonly cap: { readonly tenantId: TenantId } }): boolean =>
  cap.tenantId === allTenants

export const FlushSettlementsLayer = Layer.effect(
  FlushSettlements,
  Effect.gen(function* () {
    const ledger = yield* Ledger
    const inTime = yield* databaseDeadline(ledgerLate)
    return FlushSettlements.of((httpEffect) =>
      Effect.withFiber((fiber) => {
        const { tenantId = null } = Context.get(fiber.context, CurrentPrincipal)
        return Effect.flatMapEager(inTime(ledger.flushSettlements(tenantId)), () => httpEffect)
      })
    )
  })
)

/** Ends what is due, on every replica: none waits for rows that another is at work on. */
export const SweeperLayer = Layer.effectDiscard(
  Effect.gen(function* () {
    const ledger = yield* Ledger
    const sweep = Effect.gen(function* () {
      while ((yield* ledger.sweep(null)) > 0);
    })
    yield* repeatJob("end reservations that are due", "1 second", sweep)
  })
)

/** Settlements and releases that wait to be written, in one lane per tenant; an undefined lane means all lanes. */
export interface SettlementQueue {
  /** Closes a reservation, and waits for the result. */
  submit(item: CloseItem): Effect.Effect<Exit.Exit<CloseResult>>
  /** Closes a reservation in any case, without waiting. */
  enqueue(item: CloseItem): void
  isBusy(lane?: string): boolean
  /** Waits until everything that was submitted or enqueued before is written. */
  flush(lane?: string): Effect.Effect<void>
}

/**
 * No caller waits for most charges: together they cost half, and a hot cap is locked less often. A batch of one costs
 * PostgreSQL as much as ten further charges of a batch; 40 ms instead of 15 take a quarter of its time from a lone caller's
 * calls. Settlements that wait are written at once before a request reads them, or is denied because of them. Where the
 * process is killed, the sweeper charges what was reserved.
 */
const pauseMillis = 40

/** How long an enqueued settlement is retried while the database is away. */
const whileAway = Schedule.min([Schedule.exponential("200 millis"), Schedule.spaced("5 seconds")]).pipe(
  Schedule.upTo({ duration: "10 minutes" })
)

/** What is left in the queue at the end of the scope is written before it ends. */
export const makeSettlementQueue = Effect.fnUntraced(function* (
  run: (items: ReadonlyArray<CloseItem>) => Effect.Effect<ReadonlyArray<Exit.Exit<CloseResult>>>,
  maximum: number
): Effect.fn.Return<SettlementQueue, never, Scope.Scope> {
  const batches = yield* makeBatcher({
    maximum,
    lane: ({ tenantId }: CloseItem) => tenantId ?? allTenants,
    keys: (item) => [item.id, ...idempotencySlots(item)],
    pauseMillis,
    run
  })
  const retrying = yield* FiberSet.makeRuntime<never>()

  /** What stays open is settled by the sweeper at the reserved amount: nothing that was spent is lost. */
  const retry = (item: CloseItem, failure: Cause.Cause<never>): Effect.Effect<void> =>
    (problemOf(failure) === undefined
      ? Effect.fail(failure)
      : Effect.sandbox(Effect.flatten(batches.submit(item))).pipe(
          Effect.retry({ schedule: whileAway, while: (cause) => problemOf(cause) !== undefined })
        )
    ).pipe(
      Effect.catch((cause) => Effect.logError("A settlement could not be written", cause)),
      Effect.asVoid
    )

  yield* Effect.addFinalizer(() => batches.drain())
  return {
    submit: batches.submit,
    enqueue: (item) =>
      batches.enqueue(item, (exit) => {
        const failure = Exit.isFailure(exit) ? exit.cause : Exit.isFailure(exit.value) ? exit.value.cause : undefined
        if (failure !== undefined) retrying(retry(item, failure))
      }),
    isBusy: batches.isBusy,
    flush: batches.drain
  }
})

/** The lanes in which a settlement may return budget to items under these caps; undefined means all lanes. */
export const settlementLanes = (
  indexes: CapIndexesByTenant,
  items: ReadonlyArray<ReserveItem>
): ReadonlyArray<TenantId | undefined> =>
  (indexes.get(allTenants)?.size ?? 0) > 0 && items.length > 0
    ? [undefined]
    : [...new Set(items.map(({ tenantId }) => tenantId))]

/** Errors caused by values: data, constraints and limits of the program. The statement was rolled back and may run again. */
const classesOfValues = new Set(["22", "23", "54", "P0"])

const isCausedByValues = (cause: Cause.Cause<unknown>): boolean =>
  classesOfValues.has(sqlStateOf(cause)?.slice(0, 2) ?? "")

/** Runs a statement for many items. Where their values make it fail, each half runs again, so that an invalid item fails alone. */
export const bisectOnFailure = <Item, Result>(
  run: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Result>>
): ((items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Exit.Exit<Result>>>) => {
  const runAll = (items: ReadonlyArray<Item>): Effect.Effect<ReadonlyArray<Exit.Exit<Result>>> =>
    Effect.matchCauseEffect(run(items), {
      onSuccess: (results) => Effect.succeed(results.map((result) => Exit.succeed(result))),
      onFailure: (cause) => {
        const half = Math.ceil(items.length / 2)
        return half < items.length && isCausedByValues(cause)
          ? Effect.zipWith(runAll(items.slice(0, half)), runAll(items.slice(half)), (some, others) => [
              ...some,
              ...others
            ])
          : Effect.succeed(items.map(() => Exit.failCause(cause)))
      }
    })
  return runAll
}
