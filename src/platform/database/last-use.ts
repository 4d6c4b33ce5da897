import { DateTime, Effect, Schedule } from "effect"
import { Database } from "./database.ts"
import { type LastUse } from "./table.ts"

/**
 * Collects when rows were last used, and stores that every `millis`, so that a use needs no write of its own. `what` names the rows
 * in the warning when storing fails; `stored` is called with what `store` returned. A crash loses what was not stored yet.
 */
export const makeLastUses = Effect.fnUntraced(function* <A>(
  what: string,
  store: (uses: ReadonlyArray<LastUse>) => Effect.Effect<A>,
  { millis = 5000, stored }: { readonly millis?: number; readonly stored?: (result: A) => Effect.Effect<void> } = {}
) {
  const database = yield* Database
  const uses = new Map<string, number>()
  const flush = Effect.suspend(() => {
    const batch = Array.from(uses, ([id, at]) => ({ id, at }))
    uses.clear()
    if (batch.length === 0) return Effect.void
    const storing = database.transaction("all", store(batch))
    return stored === undefined ? storing : Effect.flatMap(storing, stored)
  }).pipe(Effect.catchCause((cause) => Effect.logWarning(`Could not store when ${what} were last used`, cause)))
  yield* flush.pipe(Effect.repeat(Schedule.spaced(millis)), Effect.forkScoped)
  yield* Effect.addFinalizer(() => flush)
  return {
    record: (id: string): Effect.Effect<void> =>
      Effect.map(DateTime.now, ({ epochMilliseconds }) => void uses.set(id, epochMilliseconds)),
    recordAt: (id: string, at: number): void => void uses.set(id, at),
    /** When a row was last used, unless that is stored already. */
    last: (id: string): number | undefined => uses.get(id),
    /** Stores a use that must survive a crash once it is done. */
    storeAt: (id: string, at: number): Effect.Effect<A> => database.transaction("all", store([{ id, at }]))
  }
})
