import { Console, Data, Effect, Runtime } from "effect"
import { HttpServerError } from "effect/http"
import { SqlError } from "effect/sql"
import { EmbeddedPostgresError } from "../platform/embedded-postgres/system.ts"
import { EncryptionKeyUnusable } from "../platform/crypto/encryption-key.ts"
import { RoleNotGranted, UnsupportedDatabase } from "../platform/database/migrations.ts"
import { SettingsError } from "../platform/settings/settings-reader.ts"

/** Why the service could not start, in one line that names the settings to look at. */
export class StartFailure extends Data.TaggedError("StartFailure")<{ readonly message: string }> {
  override readonly [Runtime.errorReported] = false
}

const rootOf = (error: unknown): string =>
  error instanceof Error ? (error.cause === undefined ? error.message : rootOf(error.cause)) : String(error)

const explanationOf = (error: unknown): string | undefined => {
  if (
    error instanceof StartFailure ||
    error instanceof SettingsError ||
    error instanceof EmbeddedPostgresError ||
    error instanceof EncryptionKeyUnusable ||
    error instanceof RoleNotGranted ||
    error instanceof UnsupportedDatabase
  ) {
    return error.message
  }
  if (error instanceof HttpServerError.ServeError) {
    return `The service cannot listen (Api:Host, Api:Port): ${rootOf(error.cause)}`
  }
  return SqlError.isSqlError(error) && error.reason._tag === "ConnectionError"
    ? `The database cannot be reached (Database:Url): ${rootOf(error)}`
    : undefined
}

/** Prints failures that the operator can fix as one line on standard error; all others keep their stack trace. */
export const explained = <A, E, R>(start: Effect.Effect<A, E, R>): Effect.Effect<A, E | StartFailure, R> =>
  Effect.catch(start, (error): Effect.Effect<never, E | StartFailure> => {
    const message = explanationOf(error)
    return message === undefined
      ? Effect.fail(error)
      : Effect.andThen(Console.error(message), Effect.fail(new StartFailure({ message })))
  })
