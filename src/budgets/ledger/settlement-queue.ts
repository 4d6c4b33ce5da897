import { type Cause, Effect, Exit, FiberSet, Schedule, type Scope } from "effect"
import { type TenantId } from "../../kernel/identifier.ts"
import { makeBatcher } from "../../platform/database/batcher.ts"
import { problemOf } from "../../platform/http/failures.ts"
import { type CapIndexesByTenant } from "./cap-index.ts"
import { allTenants } from "./domain.ts"
import { type CloseItem, type CloseResult, idempotencySlots, type ReserveItem } from "./protocol-domain.ts"

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

/** No caller waits for most charges: together they cost half, and a hot cap is locked less often. */
const pauseMillis = 15

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
