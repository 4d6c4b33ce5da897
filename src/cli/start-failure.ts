import { Cause, Context, Data, Effect, Layer, Logger, Option, Predicate, Result, Runtime } from "effect"
import { HttpServerError } from "effect/http"
import { SqlError } from "effect/sql"
import { EncryptionKeyUnusable } from "../platform/crypto/encryption-key.ts"
import { DatabaseUnusable } from "../platform/database/migrations.ts"
import { refusalOf } from "../platform/database/session-state.ts"
import { EmbeddedPostgresError } from "../platform/embedded-postgres/system.ts"
import * as Logging from "../platform/observability/logging.ts"
import { Unusable } from "../platform/runtime/unusable.ts"
import { environmentName, SettingsError } from "../platform/settings/settings-reader.ts"
import { Settings } from "../platform/settings/settings.ts"

/** Why the service could not start, in one line that names the settings to look at. */
export class StartFailure extends Data.TaggedError("StartFailure")<{ readonly message: string }> {
  override readonly [Runtime.errorReported] = false
}

/** An error and its causes, the outermost first; those of the SQL client have theirs in a reason. */
const chainOf = (error: unknown): ReadonlyArray<unknown> => {
  if (!(error instanceof Error)) return [error]
  return [error, ...(error.cause === undefined ? [] : chainOf(error.cause))]
}

const rootOf = (error: unknown): string => {
  const root = chainOf(error).at(-1)
  return root instanceof Error ? root.message : String(root)
}

/** What PostgreSQL answers to a mistake in the installation, by its SQLSTATE: what is wrong, and what to do. */
const databaseMistakes: Readonly<Record<string, readonly [wrong: string, remedy: string]>> = {
  "28P01": ["refused the user or the password", "correct them in Database:Url"],
  "28000": ["refused the user", "correct Database:Url, or let the server's pg_hba.conf admit the user from here"],
  "3D000": ["does not exist", "create it, with the user as its owner, or correct its name in Database:Url"],
  "42501": ["denied a right to the user", "let an administrator make the user the owner of the database"],
  "08P01": [
    "is behind a connection pooler that admits no such session",
    "let Database:Url name PostgreSQL itself, and Database:PoolUrl the pooler; PgBouncer's ignore_startup_parameters would drop the role that keeps tenants apart"
  ],
  "25006": ["is read-only", "name the primary server in Database:Url"],
  "53300": ["has no connection left", "raise its max_connections, or lower Database:MaxConnections"]
}

const databaseMistake = (error: unknown): string | undefined => {
  for (const one of chainOf(error)) {
    if (!Predicate.hasProperty(one, "code") || typeof one.code !== "string" || !(one instanceof Error)) continue
    const mistake = databaseMistakes[one.code]
    if (mistake === undefined) continue
    // The message of a migration has its own remedy.
    if (one.message.includes("Let an administrator run:")) return `${one.message} (Database:Url)`
    return `The database (Database:Url) ${mistake[0]} (${one.message}). To mend it, ${mistake[1]}.`
  }
  return undefined
}

/** What to do where the system refuses an address: the variables are named as a shell takes them. */
const listenRemedy = (error: unknown): string => {
  const cause = chainOf(error).at(-1)
  if (!Predicate.hasProperty(cause, "code")) return ""
  const port = Predicate.hasProperty(cause, "port") ? Number(cause.port) : 0
  switch (cause.code) {
    case "EADDRINUSE":
      return `. Stop what listens there, or choose another port: Api__Port=${port + 1} npm start`
    case "EACCES":
      return ". Choose a port of 1024 or above: Api__Port=11402 npm start"
    case "EADDRNOTAVAIL":
      return ". Name an address of this machine: Api__Host=127.0.0.1 npm start"
    default:
      return ""
  }
}

const explanationOf = (error: unknown): string | undefined => {
  if (
    error instanceof Unusable ||
    error instanceof SettingsError ||
    error instanceof EncryptionKeyUnusable ||
    error instanceof DatabaseUnusable
  ) {
    return error.message
  }
  if (error instanceof EmbeddedPostgresError) {
    return `The embedded database cannot be used (Database:Directory): ${error.message}`
  }
  if (error instanceof HttpServerError.ServeError) {
    return `The service cannot listen (Api:Host, Api:Port): ${rootOf(error.cause)}${listenRemedy(error.cause)}`
  }
  const refusal = refusalOf(error)
  if (refusal !== undefined) return refusal.message
  const mistake = databaseMistake(error)
  if (mistake !== undefined || !SqlError.isSqlError(error)) return mistake
  switch (error.reason._tag) {
    case "AuthenticationError":
      return `The database (Database:Url) did not admit the user: ${rootOf(error)}. To mend it, correct user and password in Database:Url.`
    case "ConnectionError":
      return `The database cannot be reached (Database:Url): ${rootOf(error)}. To mend it, correct Database:Url, or start the server.`
    default:
      return undefined
  }
}

/** The format of the log, also when the settings cannot be read. */
const logFormat = (args: ReadonlyArray<string>) =>
  Effect.map(Effect.option(Effect.scoped(Layer.build(Settings.layerWith(args)))), (context) =>
    Option.isSome(context)
      ? Context.get(context.value, Settings).logging.format
      : Result.getOrUndefined(environmentName(process.env)) === "Production"
        ? "json"
        : "pretty"
  )

const toStandardError = (logger: Logger.Logger<unknown, string>) =>
  Logger.layer([Logger.map(logger, (line) => void process.stderr.write(`${line}\n`))])

/** Reports why a command failed on standard error: one line for what an operator can mend, a stack trace for all else. */
export const explained =
  (args: ReadonlyArray<string> = process.argv.slice(2)) =>
  <A, E, R>(start: Effect.Effect<A, E, R>): Effect.Effect<A, E | StartFailure, R> =>
    Effect.catchCauseIf(
      start,
      (cause) => !Cause.hasInterruptsOnly(cause),
      Effect.fnUntraced(function* (cause) {
        const format = yield* logFormat(args)
        const message = explanationOf(Cause.squash(cause))
        if (message !== undefined && format === "pretty") {
          yield* Effect.sync(() => process.stderr.write(`${message}\n`))
        } else {
          yield* (message === undefined ? Effect.logFatal("The service failed", cause) : Effect.logFatal(message)).pipe(
            Effect.provide(toStandardError(format === "json" ? Logging.json : Logging.pretty({ colours: false })))
          )
        }
        return yield* new StartFailure({ message: message ?? "The service failed" })
      })
    )
