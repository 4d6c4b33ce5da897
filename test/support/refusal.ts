import { assert } from "@effect/vitest"
import { Cause, Effect, Exit } from "effect"
import { refusalOf, type SessionRefused } from "../../src/platform/database/session-state.ts"

/** Why an effect was refused by the check of sessions. */
export const refusal = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<SessionRefused, never, R> =>
  Effect.map(Effect.exit(effect), (exit) => {
    assert.isTrue(Exit.isFailure(exit), "it was not refused")
    const found = Exit.isFailure(exit) ? refusalOf(Cause.squash(exit.cause)) : undefined
    return found ?? assert.fail(String(exit))
  })
