import { Effect } from "effect"
import { CurrentRepeatable, IdempotencyKeyReused } from "./domain.ts"

/** Lets a request be answered as before, if it is a repetition: under the same key the same was asked. */
export const checkReplay = (sha256: string): Effect.Effect<void, IdempotencyKeyReused> =>
  Effect.flatMap(CurrentRepeatable, (repeatable) => {
    if (repeatable?.requestSha256 !== sha256) return Effect.fail(new IdempotencyKeyReused({}))
    repeatable.markReplayed()
    return Effect.void
  })
