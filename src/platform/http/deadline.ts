import { Context, Effect, Exit } from "effect"
import { Settings } from "../settings/settings.ts"
import { CurrentRequest } from "./request.ts"

type Bracket = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

const bracket =
  (millis: number, late: string): Bracket =>
  (effect) =>
    Exit.isExit(effect)
      ? effect
      : Effect.withFiber((fiber) => {
          const deadline = Context.get(fiber.context, CurrentRequest)?.deadline
          if (deadline === undefined) return effect
          const bound = deadline.begin(millis, late)
          // Effect.onExit would run an effect for each bracket.
          return Effect.onExitPrimitive(effect, () => void deadline.end(bound))
        })

/**
 * Bounds a part of a request that waits for the database; `late` is what the request is answered with when the part does
 * not end in time. Nothing outside of the part is bounded, and what bounds the request holds within.
 */
export const databaseDeadline = (late: string): Effect.Effect<Bracket, never, Settings> =>
  Effect.map(Settings, ({ database }) => bracket(database.acquireTimeoutSeconds * 1000, late))

/**
 * Lifts all bounds for a part of a request that takes as long as others need: a provider, or the sender of a body. They
 * hold again after it, as if it had taken no time.
 */
export const withoutDeadline: Bracket = bracket(Infinity, "")
