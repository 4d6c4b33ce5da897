import { Context, Effect, Layer, Option, Predicate, Schedule } from "effect"
import { SqlError } from "effect/sql"
import { connection as embeddedConnection, join, start } from "../embedded-postgres/embedded-postgres.ts"
import { SettingsError } from "../settings/settings-reader.ts"
import { Settings, type SettingsValues } from "../settings/settings.ts"
import { maxMessageSize, poolLayer } from "./database.ts"
import { addressIn, type DatabaseAddress } from "./hosts.ts"
import { awaitMigrations, migrate } from "./migrations.ts"
import { refusalOf } from "./session-state.ts"
import { sessionPoolLayer } from "./sessions.ts"

/** Where the database is: the one that `Database:Url` names, or an embedded one that lives as long as the service. */
export class DatabaseConnection extends Context.Service<
  DatabaseConnection,
  {
    readonly options: DatabaseAddress
    /** A pooler of transactions before it, which the pool connects to. */
    readonly pooler?: DatabaseAddress | undefined
    /** Replicas that answer some reads. */
    readonly replica?: DatabaseAddress | undefined
    /** The directory of the embedded database; none when it is external. */
    readonly embeddedIn: Option.Option<string>
  }
>()("app/platform/DatabaseConnection") {
  static readonly layer = Layer.effect(
    DatabaseConnection,
    Effect.flatMap(Settings, (settings) => connectionTo(settings, start))
  )

  /** For commands: uses the embedded database of a running service. */
  static readonly layerJoining = Layer.effect(
    DatabaseConnection,
    Effect.flatMap(Settings, (settings) => connectionTo(settings, join))
  )
}

const connectionTo = Effect.fnUntraced(function* ({ database, sources }: SettingsValues, embedded: typeof start) {
  if (Option.isSome(database.url)) {
    const options = addressIn("Database:Url", database.url.value, true)
    return DatabaseConnection.of({ options, ...besides(database), embeddedIn: Option.none() })
  }
  const without = (["Database:PoolUrl", "Database:ReadUrl"] as const).filter((_, at) =>
    Option.isSome([database.poolUrl, database.readUrl][at] ?? Option.none())
  )
  if (without.length > 0) {
    const faultOf = (name: string) => ({ name, source: sources.get(name) ?? "", reason: "needs Database:Url as well" })
    return yield* new SettingsError({ faults: without.map(faultOf) })
  }
  const server = yield* embedded({ directory: database.directory })
  return DatabaseConnection.of({ options: embeddedConnection(server), embeddedIn: Option.some(server.directory) })
})

/** What the settings name besides the database itself. */
export const besides = ({ poolUrl, readUrl }: SettingsValues["database"]) => ({
  pooler: Option.getOrUndefined(Option.map(poolUrl, (url) => addressIn("Database:PoolUrl", url, true))),
  replica: Option.getOrUndefined(Option.map(readUrl, (url) => addressIn("Database:ReadUrl", url, false)))
})

const isUnreachable = (error: unknown): boolean =>
  SqlError.isSqlError(error) &&
  refusalOf(error) === undefined &&
  (error.reason._tag === "ConnectionError" ? !isMistaken(error.reason.cause) : isStarting(error.reason.cause))

/** An address that cannot be read, or asks for TLS of a server without it, does not get better. */
const isMistaken = (cause: unknown): boolean =>
  cause instanceof Error && /does not support TLS|percent-encoding|Invalid URL/i.test(cause.message)

/** The error of a server that is starting or recovering. */
const isStarting = (cause: unknown): boolean => Predicate.hasProperty(cause, "code") && cause.code === "57P03"

/** Tries for half a minute, since a database may still be starting. */
const retryingWhileUnreachable = <A, E, R>(attempt: Effect.Effect<A, E, R>) =>
  Effect.catchIf(attempt, isUnreachable, () =>
    Effect.logWarning("The database cannot be reached; retrying for half a minute (Database:Url)").pipe(
      Effect.andThen(
        attempt.pipe(
          Effect.retry({ schedule: Schedule.spaced("1 second"), times: 30, while: isUnreachable }),
          Effect.delay("1 second")
        )
      )
    )
  )

/** Migrates the database to this build. */
export const migrateLayer = Layer.effectDiscard(
  Effect.gen(function* () {
    const { options } = yield* DatabaseConnection
    const applied = yield* retryingWhileUnreachable(migrate(options))
    const names = applied.map(([id, name]) => `${id}_${name}`)
    if (names.length === 1) yield* Effect.logInfo(`Applied migration ${names[0]}`)
    if (names.length > 1) yield* Effect.logInfo(`Applied ${names.length} migrations, ${names[0]} to ${names.at(-1)}`)
  })
)

/** The same, or where `Database:Migrate` is false, waits until another process has done it. */
const upToDateLayer = Layer.unwrap(
  Effect.map(Settings, ({ database }) =>
    database.migrate
      ? migrateLayer
      : Layer.effectDiscard(
          Effect.flatMap(DatabaseConnection, ({ options }) => retryingWhileUnreachable(awaitMigrations(options)))
        )
  )
)

/** The pool that the settings describe. */
export const poolWith = (timeouts: { readonly statementTimeoutSeconds?: number } = {}) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const { database } = yield* Settings
      const { options, pooler, replica } = yield* DatabaseConnection
      return poolLayer({
        connection: options,
        // The time limits behind a pooler are those of its user.
        pooler: timeouts.statementTimeoutSeconds === undefined ? pooler : undefined,
        replica,
        maxConnections: database.maxConnections,
        statementTimeoutSeconds: database.statementTimeoutSeconds,
        ...timeouts
      })
    })
  )

/** The owner of the database, as whom migrations run: the service's own role writes no usage. */
export const OwnerLayer = Layer.unwrap(
  Effect.map(DatabaseConnection, ({ options }) =>
    sessionPoolLayer({
      ...options,
      maxMessageSize,
      maxConnections: 1,
      applicationName: "application-manager-owner",
      expected: {
        setting: "Database:Url",
        isPooled: false,
        isWritten: options.hosts !== undefined,
        settings: { timezone: "UTC", jit: "off" }
      },
      transformResultNames: (name) => name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
    })
  )
)

const PoolLayer = poolWith().pipe(Layer.provide(upToDateLayer))

/** The pool on a migrated database. */
export const DatabaseLayer = PoolLayer.pipe(Layer.provideMerge(DatabaseConnection.layer))

/** The same for a command beside the service. */
export const JoiningDatabaseLayer = PoolLayer.pipe(Layer.provideMerge(DatabaseConnection.layerJoining))

/** For a command that only reads: no migrations, and no statement timeout. */
export const ReadingDatabaseLayer = poolWith({ statementTimeoutSeconds: 0 }).pipe(
  Layer.provideMerge(DatabaseConnection.layerJoining)
)
