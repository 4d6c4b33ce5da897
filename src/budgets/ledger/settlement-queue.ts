import { type Cause, Effect, Exit, FiberSet, Schedule, type Scope } from "effect"
import { type TenantId } from "../../kernel/identifier.ts"
import { type Batcher, makeBatcher } from "../../platform/database/batcher.ts"
import { problemOf } from "../../platform/http/failures.ts"
import { type CapIndex } from "./cap-index.ts"
import { allTenants } from "./cap-domain.ts"
import { type CloseItem, type CloseResult, type ReserveItem, type ReserveResult, slotKeys } from "./request.ts"

/** What is settled and released: each tenant has a lane of its own. */
export interface SettlementQueue extends Batcher<CloseItem, Exit.Exit<CloseResult>> {
  /** Closes what is to be closed in any case, and waits for nothing. */
  later(item: CloseItem): void
}

/** Nobody waits for most charges: together they cost half, and a hot cap is locked less often. */
const pauseMillis = 15

/** How long what is to be charged in any case is tried again while the database is away. */
const whileAway = Schedule.min([Schedule.exponential("200 millis"), Schedule.spaced("5 seconds")]).pipe(
  Schedule.upTo({ duration: "10 minutes" })
)

/** Gathers what is to be closed; what is left at the end of the scope is closed before it ends. */
export const makeSettlementQueue = Effect.fnUntraced(function* (
  run: (items: ReadonlyArray<CloseItem>) => Effect.Effect<ReadonlyArray<Exit.Exit<CloseResult>>>,
  maximum: number
): Effect.fn.Return<SettlementQueue, never, Scope.Scope> {
  const closings = yield* makeBatcher({
    maximum,
    lane: ({ tenantId }: CloseItem) => tenantId ?? allTenants,
    keys: (item) => [item.id, ...slotKeys(item)],
    pauseMillis,
    run
  })
  const retrying = yield* FiberSet.makeRuntime<never>()

  /** What stays open is settled by the sweeper at what was kept free: nothing that was spent is lost. */
  const again = (item: CloseItem, broken: Cause.Cause<never>): Effect.Effect<void> =>
    (problemOf(broken) === undefined
      ? Effect.fail(broken)
      : Effect.sandbox(Effect.flatten(closings.submit(item))).pipe(
          Effect.retry({ schedule: whileAway, while: (cause) => problemOf(cause) !== undefined })
        )
    ).pipe(
      Effect.catch((cause) => Effect.logError("What was used could not be charged", cause)),
      Effect.asVoid
    )

  yield* Effect.addFinalizer(() => closings.drain())
  return {
    ...closings,
    later: (item) =>
      closings.enqueue(item, (exit) => {
        const broken = Exit.isFailure(exit) ? exit.cause : Exit.isFailure(exit.value) ? exit.value.cause : undefined
        if (broken !== undefined) retrying(again(item, broken))
      })
  }
})

/** The lanes in which something may be closed that makes room for items under these caps; undefined stands for all. */
export const settlementLanes = (
  known: ReadonlyMap<TenantId, CapIndex>,
  items: ReadonlyArray<ReserveItem>
): ReadonlyArray<string | undefined> =>
  (known.get(allTenants)?.size ?? 0) > 0 && items.length > 0
    ? [undefined]
    : [...new Set(items.map(({ tenantId }) => tenantId))]

/** Whether an item was refused for want of room. */
export const isShort = ({ verdict }: ReserveResult): boolean => verdict === "denied" || verdict === "no-room"
