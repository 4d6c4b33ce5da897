import { Clock, Effect, Schedule } from "effect"

/**
 * What must be over by some time. One sweep a second looks at all of it, so that a call costs two set operations instead of
 * a fiber and a timer.
 */
export interface Deadlines {
  /** Calls `expire` once it is later than `at`, unless the returned function was called before. */
  add(at: number, expire: () => void): () => void
}

export const makeDeadlines = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const entries = new Set<{ readonly at: number; readonly expire: () => void }>()
  yield* Effect.sync(() => {
    const now = clock.currentTimeMillisUnsafe()
    for (const entry of entries) {
      if (entry.at > now) continue
      entries.delete(entry)
      entry.expire()
    }
  }).pipe(Effect.repeat(Schedule.spaced("1 second")), Effect.forkScoped)
  const deadlines: Deadlines = {
    add: (at, expire) => {
      const entry = { at, expire }
      entries.add(entry)
      return () => void entries.delete(entry)
    }
  }
  return deadlines
})
