import { Effect, PartitionedSemaphore, Semaphore } from "effect"

interface TurnLimits {
  /** How many effects run at once. */
  readonly atOnce: number
  /** How many of these may be of one tenant. */
  readonly ofTenant: number
}

interface Turns {
  readonly semaphore: Semaphore.Semaphore
  /** How many run or wait. */
  count: number
}

/**
 * Lets effects run in turns of their tenants: so many of one that some are left for others, which are next where all are taken.
 */
export const makeTenantTurns = Effect.fnUntraced(function* ({ atOnce, ofTenant }: TurnLimits) {
  const all = yield* PartitionedSemaphore.make<string>({ permits: atOnce })
  const tenants = new Map<string, Turns>()
  return <A, E, R>(tenant: string, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      const turns = tenants.get(tenant) ?? { semaphore: Semaphore.makeUnsafe(ofTenant), count: 0 }
      if (turns.count++ === 0) tenants.set(tenant, turns)
      return Effect.ensuring(
        turns.semaphore.withPermit(all.withPermit(tenant)(effect)),
        Effect.sync(() => {
          if (--turns.count === 0) tenants.delete(tenant)
        })
      )
    })
})
