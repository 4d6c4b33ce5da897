import { Effect, PartitionedSemaphore, Semaphore } from "effect"

interface TurnLimits {
  /** How many effects run at once. */
  readonly atOnce: number
  /** How many of these may have one key. */
  readonly ofOne: number
}

interface Turns {
  readonly semaphore: Semaphore.Semaphore
  /** How many run or wait. */
  count: number
}

/**
 * Lets effects run in turns of their keys, such as tenants: so many of one that some are left for others, which are next where
 * all are taken.
 */
export const makeTurns = Effect.fnUntraced(function* ({ atOnce, ofOne }: TurnLimits) {
  const all = yield* PartitionedSemaphore.make<string>({ permits: atOnce })
  const keys = new Map<string, Turns>()
  return <A, E, R>(key: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      const turns = keys.get(key) ?? { semaphore: Semaphore.makeUnsafe(ofOne), count: 0 }
      if (turns.count++ === 0) keys.set(key, turns)
      return Effect.ensuring(
        turns.semaphore.withPermit(all.withPermit(key)(effect)),
        Effect.sync(() => {
          if (--turns.count === 0) keys.delete(key)
        })
      )
    })
})
