import { Effect, Schema } from "effect"

/**
 * Why the embedded database is not to be had. `directory-in-use`: a living process owns the directory;
 * `unreachable-directory`: it cannot be made, entered or read by whom it must serve; `initialise-failed` and
 * `start-failed`: the message ends with PostgreSQL's own words; `unsupported-platform`: there is no program that runs here.
 */
export class EmbeddedPostgresError extends Schema.TaggedError<EmbeddedPostgresError>()("EmbeddedPostgresError", {
  reason: Schema.Literals([
    "directory-in-use",
    "unreachable-directory",
    "initialise-failed",
    "start-failed",
    "unsupported-platform"
  ]),
  message: Schema.String
}) {}

const failure = (reason: EmbeddedPostgresError["reason"], purpose: string) => (cause: unknown) =>
  new EmbeddedPostgresError({ reason, message: `Cannot ${purpose}: ${cause instanceof Error ? cause.message : cause}` })

/** Runs an operation of the file system; `purpose` completes the sentence "Cannot …" of its failure. */
export const attempt = <A>(
  reason: EmbeddedPostgresError["reason"],
  purpose: string,
  operation: () => Promise<A>
): Effect.Effect<A, EmbeddedPostgresError> => Effect.tryPromise({ try: operation, catch: failure(reason, purpose) })

/** The synchronous {@link attempt}. */
export const attemptSync = <A>(
  reason: EmbeddedPostgresError["reason"],
  purpose: string,
  operation: () => A
): Effect.Effect<A, EmbeddedPostgresError> => Effect.try({ try: operation, catch: failure(reason, purpose) })
