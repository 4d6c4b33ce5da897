import { Data } from "effect"

/** A command was used in a way that makes no sense; its message says how to use it. */
export class Unusable extends Data.TaggedError("Unusable")<{ readonly message: string }> {}
