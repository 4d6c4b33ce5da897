import { Effect, RcMap, Semaphore } from "effect"
import { type TenantScope } from "./database.ts"

interface TurnLimits {
  /** How many effects run at once. */
  readonly atOnce: number
  /** How many of these may be of one tenant. */
  readonly ofTenant: number
}

/**
 * Lets effects that hold a connection for long run in turns: never so many that none is left for short ones, nor so many of one
 * tenant that those of others do not run.
 */
export const makeTenantTurns = ({ atOnce, ofTenant }: TurnLimits) =>
  Effect.gen(function* () {
    const all = yield* Semaphore.make(atOnce)
    const tenants = yield* RcMap.make({
      lookup: (_tenant: TenantScope) => Semaphore.make(ofTenant),
      idleTimeToLive: "1 minute"
    })
    return <A, E, R>(tenant: TenantScope, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.scoped(Effect.flatMap(RcMap.get(tenants, tenant), (turns) => turns.withPermit(all.withPermit(effect))))
  })
