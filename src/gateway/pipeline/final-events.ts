import { Effect, type Pull } from "effect"

/** The bytes of an answer that are still to come. */
export type AnswerPull = Pull.Pull<readonly [Uint8Array, ...Array<Uint8Array>]>

/** How long the final events of a stream are read for a caller that left. */
const patience = "2 seconds"

/** Reads an answer to its end, or until that takes too long: its last events have the usage. */
export const readFinalEvents = (rest: AnswerPull): Effect.Effect<void> =>
  Effect.ignore(Effect.timeoutOption(Effect.forever(rest), patience))
