import * as NodeServices from "@effect/platform-node/NodeServices"
import { Data, Effect, Layer, Schedule, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { MigrationError } from "effect/sql/Migrator"
import * as MigratorFileSystem from "effect/sql/MigratorFileSystem"
import released from "../../../migrations/released.json" with { type: "json" }
import { type DatabaseAddress } from "./hosts.ts"
import { type Migration, migrationsDirectory, perform, rowsOf, shortLockTimeout, type Step } from "./migration-steps.ts"
import { sessionPoolLayer } from "./sessions.ts"
import {
  admitReleaseBefore,
  type AppliedFunctions,
  applyFunctions,
  type FunctionsOfBuild,
  functionsOfBuild,
  functionsState,
  selectFunctions
} from "./sql-functions.ts"

/** The role that the pool runs as; made by the first migration, without login, ownership or the right to bypass policies. */
export const applicationRole = "application_manager"

/** This build cannot use the database as it is; the message says what to do. */
export class DatabaseUnusable extends Data.TaggedError("DatabaseUnusable")<{ readonly message: string }> {}

const roleNotGranted = (user: string) =>
  new DatabaseUnusable({
    message: `The database user ${user} (Database:Url) is no member of the role that the service runs as. Let an administrator run: GRANT ${applicationRole} TO ${user};`
  })

const notOwned = (user: string, database: string) =>
  new DatabaseUnusable({
    message: `The database user ${user} (Database:Url) may not create tables in the database ${database}. Let an administrator run: ALTER DATABASE ${database} OWNER TO ${user};`
  })

const unreleased = new DatabaseUnusable({
  message:
    "The database (Database:Url, Database:Directory) was created by a build that preceded the first release and cannot be upgraded: set Database:Url to an empty database or, if the embedded database is used, delete the directory that Database:Directory names."
})

const tooOld = new DatabaseUnusable({
  message:
    "The database (Database:Url) was upgraded by a later release, which this one is too old for. Install the release that upgraded it, or the one before."
})

/** Fails where a later release upgraded the database, whose replicas run with those of the release before it alone. */
const requireSupported = Effect.fnUntraced(function* (required: RequiredSchema) {
  const sql = yield* SqlClient.SqlClient
  const [functions] = yield* selectFunctions(sql)
  if (functions !== undefined && isTooOld(functions, required)) return yield* tooOld
  return functions
})

const loader = MigratorFileSystem.fromFileSystem(migrationsDirectory)
type Resolved = Effect.Success<typeof loader>[number]

/** A migration's module exports its steps, or its only one. */
const load = ([id, name, module]: Resolved) =>
  module.pipe(
    Effect.map((loaded: { readonly default: Step | Migration }): Migration =>
      Array.isArray(loaded.default) ? loaded.default : [loaded.default as Step]
    ),
    Effect.catchDefect((cause) =>
      Effect.fail(
        new MigrationError({ kind: "ImportError", cause, message: `Migration "${id}_${name}" cannot be read` })
      )
    )
  )

/** Whether the database has functions; fails where a build before the first release made it, or it cannot be filled. */
const requireUsable = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* rowsOf(
    Schema.Struct({
      exists: Schema.Boolean,
      hasFunctions: Schema.Boolean,
      isUnreleased: Schema.Boolean,
      mayCreate: Schema.Boolean,
      user: Schema.String,
      database: Schema.String
    }),
    sql`SELECT to_regclass('applied_migrations') IS NOT NULL AS exists,
        to_regclass('applied_functions') IS NOT NULL AS "hasFunctions",
        to_regclass('effect_sql_migrations') IS NOT NULL AS "isUnreleased",
        has_schema_privilege('public', 'CREATE') AS "mayCreate",
        current_user::text AS user, current_database()::text AS database`
  )
  if (found?.isUnreleased === true) return yield* unreleased
  if (found?.exists === false && !found.mayCreate) return yield* notOwned(found.user, found.database)
  return found?.hasFunctions === true
})

const AppliedMigration = Schema.Struct({
  id: Schema.Int,
  name: Schema.String,
  stepsDone: Schema.Int,
  isApplied: Schema.Boolean
})

/** Applies what is missing; answers which migrations were applied. */
const applyMigrations = Effect.fnUntraced(function* <E, R>(holdsLock: Effect.Effect<unknown, E, R>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
      CREATE TABLE IF NOT EXISTS applied_migrations (
        id integer PRIMARY KEY, name text NOT NULL, steps_done integer NOT NULL DEFAULT 0, applied_at timestamptz)`
  const applied = yield* rowsOf(
    AppliedMigration,
    sql`SELECT id, name, steps_done AS "stepsDone", applied_at IS NOT NULL AS "isApplied" FROM applied_migrations`
  )
  const known = new Map(applied.map((one) => [one.id, one]))
  const all = yield* loader
  if (all.some(([id, name]) => known.has(id) && known.get(id)?.name !== name)) return yield* unreleased
  const missing = all.filter(([id]) => known.get(id)?.isApplied !== true)
  for (const one of missing) {
    const [id, name] = one
    yield* sql`INSERT INTO applied_migrations (id, name) VALUES (${id}, ${name}) ON CONFLICT DO NOTHING`
    const steps = yield* load(one)
    for (const [place, step] of steps.entries()) {
      if (place < (known.get(id)?.stepsDone ?? 0)) continue
      yield* holdsLock
      const done = sql`UPDATE applied_migrations SET steps_done = ${place + 1} WHERE id = ${id}`
      yield* perform(step, done).pipe(
        Effect.mapError(
          (cause) => new MigrationError({ kind: "Failed", cause, message: `Migration "${id}_${name}" failed` })
        ),
        Effect.withSpan(`Migrations ${id}_${name} ${place + 1}`)
      )
    }
    yield* sql`UPDATE applied_migrations SET applied_at = clock_timestamp() WHERE id = ${id}`
  }
  return missing.map(([id, name]) => [id, name] as const)
})

const pidOf = (statement: Statement.Statement<unknown>) =>
  Effect.map(rowsOf(Schema.Struct({ pid: Schema.NullOr(Schema.Int) }), statement), ([row]) => row?.pid ?? undefined)

/** Waits for its turn among replicas; the lock is the session's, as steps have transactions of their own. */
const lockMigrations = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const attempt = pidOf(sql`
    SELECT CASE WHEN pg_try_advisory_lock(hashtext('application_manager_migrations')) THEN pg_backend_pid() END AS pid`)
  const first = yield* attempt
  if (first === undefined) yield* Effect.logInfo("Another process applies migrations; waiting for it")
  const pid =
    first ??
    (yield* Effect.repeat(attempt, { schedule: Schedule.spaced("250 millis"), while: (pid) => pid === undefined }))
  return Effect.filterOrFail(
    pidOf(sql`SELECT pg_backend_pid() AS pid`),
    (now) => now === pid,
    () => new MigrationError({ kind: "Locked", message: "The connection of the migrations was lost; run them again" })
  )
})

/**
 * Functions name tables and each other, whatever the order that they are created in. A pooler keeps no settings of a start, and
 * the user may have the service's role, or another search path, as a default. Keepalives end the session of a machine that died.
 */
const enterSession = (sql: SqlClient.SqlClient) =>
  Effect.andThen(
    sql`
      SELECT set_config('statement_timeout', '0', false), set_config('jit', 'off', false),
        set_config('check_function_bodies', 'off', false), set_config('search_path', 'public, pg_temp', false),
        set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
        set_config('tcp_keepalives_count', '3', false),
        CASE WHEN current_user = ${applicationRole} THEN set_config('role', 'none', false) END`,
    shortLockTimeout(sql)
  )

/** A pooler lends the session to others. `RESET ALL` leaves the role as it is. */
const leavingSession = <A, E, R>(migrating: Effect.Effect<A, E, R>) =>
  Effect.ensuring(
    migrating,
    Effect.ignore(
      Effect.flatMap(SqlClient.SqlClient, (sql) =>
        Effect.all([sql`SELECT pg_advisory_unlock_all()`, sql`RESET ROLE`, sql`RESET ALL`])
      )
    )
  )

/**
 * Applies the migrations and functions that are missing, while replicas of the release before serve; answers which migrations
 * were applied. Any number of replicas may do so at once: one works, and the others wait for it.
 */
export const migrate = Effect.fn("Migrations.migrate")(
  function* (_connection: DatabaseAddress) {
    const sql = yield* SqlClient.SqlClient
    yield* enterSession(sql)
    const holdsLock = yield* lockMigrations
    if (yield* requireUsable) {
      const found = yield* requireSupported(yield* requiredSchema)
      // Before what those that are older need is taken away.
      yield* admitReleaseBefore(sql)
      if (found !== undefined && found.revision < released.revision) {
        yield* Effect.logWarning(
          `The database is of a release before ${released.version}: replicas of that release are no longer ready`
        )
      }
    }
    const applied = yield* applyMigrations(holdsLock)
    yield* holdsLock
    yield* sql.withTransaction(applyFunctions)
    // A role belongs to all databases of a server, so another one's owner may have made it.
    const [user] = yield* rowsOf(
      Schema.Struct({ name: Schema.String, isMember: Schema.Boolean }),
      sql`SELECT session_user::text AS name, pg_has_role(session_user, ${applicationRole}, 'MEMBER') AS "isMember"`
    )
    if (user?.isMember === false) return yield* roleNotGranted(user.name)
    return applied
  },
  leavingSession,
  (applying, connection) => Effect.provide(applying, ownerClient(connection))
)

/** A session of the one host that accepts writes, refused where a pooler shares it. */
const ownerClient = (address: DatabaseAddress) =>
  sessionPoolLayer({
    ...address,
    applicationName: "application-manager-migrations",
    maxConnections: 1,
    expected: { setting: "Database:Url", isPooled: false, isWritten: address.hosts !== undefined, settings: {} }
  }).pipe(Layer.provideMerge(NodeServices.layer))

/** What a build needs of a database: the number of its newest migration, and its functions. */
export interface RequiredSchema {
  readonly migration: number
  readonly functions: FunctionsOfBuild
}

/** What this build needs. */
export const requiredSchema: Effect.Effect<RequiredSchema> = Effect.all([loader, functionsOfBuild]).pipe(
  Effect.map(([migrations, functions]) => ({ migration: Math.max(0, ...migrations.map(([id]) => id)), functions })),
  Effect.orDie,
  Effect.provide(NodeServices.layer)
)

/** What a database has: the number of its newest migration, and the functions that were applied last. */
export interface AppliedSchema {
  readonly migration: number
  readonly functions: AppliedFunctions | undefined
}

const isTooOld = ({ oldestMigration, oldestRevision }: AppliedFunctions, { functions, migration }: RequiredSchema) =>
  oldestMigration > migration || oldestRevision > functions.revision

/** What a database lacks for a build to run; undefined where it has all, as it does after a later build's migrations. */
export const schemaShortfall = (applied: AppliedSchema, required: RequiredSchema): string | undefined => {
  if (applied.migration < required.migration) return `${applied.migration} of ${required.migration} applied`
  if (applied.functions !== undefined && isTooOld(applied.functions, required)) {
    return `${applied.migration} applied, by a release that this one is too old for`
  }
  const state = applied.functions === undefined ? "missing" : functionsState(applied.functions, required.functions)
  switch (state) {
    case "current":
    case "later":
      return undefined
    case "missing":
    case "another":
      return `${applied.migration} applied, functions of another build`
  }
}

/** Waits until another process has applied what this build needs, for replicas that migrate nothing. */
export const awaitMigrations = Effect.fn("Migrations.await")(
  function* (_connection: DatabaseAddress) {
    const sql = yield* SqlClient.SqlClient
    yield* sql`SELECT set_config('search_path', 'public, pg_temp', false)`
    const required = yield* requiredSchema
    const shortfall = Effect.gen(function* () {
      const [exists] = yield* sql`SELECT WHERE to_regclass('applied_functions') IS NOT NULL`.values
      if (exists === undefined) return "no migration applied"
      const [newest] = yield* rowsOf(
        Schema.Struct({ id: Schema.NullOr(Schema.Int) }),
        sql`SELECT max(id) AS id FROM applied_migrations WHERE applied_at IS NOT NULL`
      )
      const functions = yield* requireSupported(required)
      return schemaShortfall({ migration: newest?.id ?? 0, functions }, required)
    })
    const first = yield* shortfall
    if (first === undefined) return
    yield* Effect.logInfo(
      `The database is not up to date (${first}); waiting for \`npm run migrate\` (Database:Migrate)`
    )
    yield* Effect.repeat(shortfall, {
      schedule: Schedule.spaced("1 second"),
      while: (lacking) => lacking !== undefined
    })
  },
  (waiting, connection) => Effect.provide(waiting, ownerClient(connection))
)
