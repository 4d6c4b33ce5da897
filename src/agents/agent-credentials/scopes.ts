import { Effect, Schema } from "effect"
import { type Capability, distinct, missing, Scopes } from "../../kernel/authority/capability.ts"
import { type InvalidScope, invalidScope } from "./domain.ts"

const decode = Schema.decodeUnknownEffect(Scopes)

/** The scopes that were asked for, if each is one of this service; undefined when none were named. */
export const namedScopes = (
  requested: ReadonlyArray<string> | undefined
): Effect.Effect<ReadonlyArray<Capability> | undefined, InvalidScope> => {
  if (requested === undefined) return Effect.undefined
  if (requested.length === 0)
    return Effect.fail(invalidScope("No scope was asked for; leave requestedScopes out for all."))
  return decode(requested).pipe(
    Effect.map(distinct),
    Effect.mapError(() => invalidScope("What was asked for are not all scopes of this service."))
  )
}

/** The scopes to grant: those asked for, all within the ceiling, or else the whole ceiling. */
export const scopesWithin = (
  requested: ReadonlyArray<string> | undefined,
  ceiling: ReadonlyArray<Capability>
): Effect.Effect<ReadonlyArray<Capability>, InvalidScope> =>
  Effect.flatMap(namedScopes(requested), (named) => {
    const beyond = named === undefined ? [] : missing(ceiling, named)
    if (beyond.length > 0) return Effect.fail(invalidScope(`Beyond the agent's ceiling: ${beyond.join(", ")}.`))
    const granted = named ?? ceiling
    return granted.length === 0
      ? Effect.fail(invalidScope("The agent may be granted no scope."))
      : Effect.succeed(granted)
  })
