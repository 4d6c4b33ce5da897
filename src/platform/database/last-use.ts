import { DateTime, Effect, Schedule } from "effect"
import { Database } from "./database.ts"
import { type LastUse } from "./table.ts"

/**
 * Collects when rows were last used, and stores it every five seconds, so that a use costs no write of its own; `what` they are
 * is named where that fails. A crash loses the last five seconds.
 */
export const makeLastUses = Effect.fnUntraced(function* (
  what: string,
  store: (uses: ReadonlyArray<LastUse>) => Effect.Effect<void>
) {
  const database = yield* Database
  const uses = new Map<string, number>()
  const flush = Effect.suspend(() => {
    const batch = Array.from(uses, ([id, at]) => ({ id, at }))
    uses.clear()
    return batch.length === 0 ? Effect.void : database.transaction("all", store(batch))
  }).pipe(Effect.catchCause((cause) => Effect.logWarning(`Could not store when ${what} were last used`, cause)))
  yield* flush.pipe(Effect.repeat(Schedule.spaced("5 seconds")), Effect.forkScoped)
  yield* Effect.addFinalizer(() => flush)
  return {
    record: (id: string): Effect.Effect<void> =>
      Effect.map(DateTime.now, ({ epochMilliseconds }) => void uses.set(id, epochMilliseconds)),
    recordAt: (id: string, at: number): void => void uses.set(id, at),
    /** Stores a use that must survive a crash once it is done. */
    storeAt: (id: string, at: number): Effect.Effect<void> => database.transaction("all", store([{ id, at }]))
  }
})
