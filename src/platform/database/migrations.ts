import * as NodeServices from "@effect/platform-node/NodeServices"
import { PgClient, PgMigrator } from "@effect/sql-pg"
import { Data, Effect, FileSystem, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import * as MigratorFileSystem from "effect/sql/MigratorFileSystem"
import { hash } from "node:crypto"
import { fileURLToPath } from "node:url"
import { serviceVersion } from "../runtime/version.ts"

/** The role that the pool runs as; made by the first migration, without login, ownership or the right to bypass policies. */
export const applicationRole = "application_manager"

/** The user that the service connects as may not run as {@link applicationRole}. */
export class RoleNotGranted extends Data.TaggedError("RoleNotGranted")<{ readonly user: string }> {
  override get message() {
    return `The database user ${this.user} (Database:Url) is no member of the role that the service runs as. Let an administrator run: GRANT ${applicationRole} TO ${this.user};`
  }
}

/** The user that the service connects as may not create tables in its database. */
export class DatabaseNotOwned extends Data.TaggedError("DatabaseNotOwned")<{
  readonly user: string
  readonly database: string
}> {
  override get message() {
    return `The database user ${this.user} (Database:Url) may not create tables in the database ${this.database}. Let an administrator run: ALTER DATABASE ${this.database} OWNER TO ${this.user};`
  }
}

/** The database has migrations that this build never had under these numbers. */
export class UnsupportedDatabase extends Data.TaggedError("UnsupportedDatabase") {
  override get message() {
    return "The database (Database:Url, Database:Directory) was created by a build that preceded the first release and cannot be upgraded: set Database:Url to an empty database or, if the embedded database is used, delete the directory that Database:Directory names."
  }
}

const directory = fileURLToPath(new URL("../../../migrations", import.meta.url))
const loader = MigratorFileSystem.fromFileSystem(directory)

const functionText = (name: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fileSystem) => fileSystem.readFileString(`${directory}/functions/${name}.sql`))

/** The files of all functions, each named as its function, and a checksum of them; read once, since a build has its own. */
const functionFiles = Effect.gen(function* () {
  const fileSystem = yield* FileSystem.FileSystem
  const names = (yield* fileSystem.readDirectory(`${directory}/functions`))
    .filter((file) => file.endsWith(".sql"))
    .map((file) => file.slice(0, -".sql".length))
    .toSorted()
  const files = yield* Effect.forEach(names, (name) => Effect.map(functionText(name), (text) => ({ name, text })))
  return { files, checksum: hash("sha256", JSON.stringify(files)) }
}).pipe(Effect.orDie, Effect.provide(NodeServices.layer), Effect.uninterruptible, Effect.cached, Effect.runSync)

/** Runs several statements in one, since the protocol takes only one. */
const execute = (sql: SqlClient.SqlClient, statements: string) =>
  sql.unsafe(`DO $execute$ BEGIN EXECUTE $statements$${statements}$statements$; END $execute$`)

/** A migration: statements, and before them the functions that a default, a policy, a view or a trigger in them names. */
export const script = (statements: string, functions: ReadonlyArray<string> = []) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    for (const name of functions) yield* execute(sql, yield* functionText(name))
    yield* execute(sql, statements)
  }).pipe(Effect.provide(NodeServices.layer))

/** The functions as they were last applied. */
const AppliedFunctions = Schema.Struct({ checksum: Schema.String, version: Schema.String })

/** Whether functions are at least this build's: those that a newer build applied stay while both run. */
export const areFunctionsCurrent = (
  applied: { readonly checksum: string | null; readonly version: string | null },
  checksum: string
): boolean =>
  applied.checksum === checksum || (applied.version ?? "").localeCompare(serviceVersion, "en", { numeric: true }) > 0

/**
 * Brings the functions up to this build's files. Those that were applied before are dropped first, since another result
 * type is no replacement and a file may be gone; what a table names cannot be dropped, and is replaced.
 */
const applyFunctions = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { checksum, files } = yield* functionFiles
  const [applied] = yield* SqlSchema.findAll({
    Request: Schema.Void,
    Result: AppliedFunctions,
    execute: () => sql`SELECT checksum, version FROM applied_functions`
  })(undefined)
  if (applied !== undefined && areFunctionsCurrent(applied, checksum)) return
  yield* sql`
    DO $$
    DECLARE
      signature text;
    BEGIN
      FOR signature IN SELECT unnest(signatures) FROM applied_functions LOOP
        BEGIN
          EXECUTE format('DROP FUNCTION IF EXISTS %s', signature);
        EXCEPTION WHEN dependent_objects_still_exist THEN NULL;
        END;
      END LOOP;
    END
    $$`
  for (const { name, text } of files) {
    yield* Effect.mapError(
      execute(sql, text),
      (cause) => new PgMigrator.MigrationError({ kind: "Failed", cause, message: `Function "${name}" failed` })
    )
  }
  const names = files.map(({ name }) => name).join()
  yield* sql`
    INSERT INTO applied_functions (checksum, version, signatures, applied_at)
    SELECT ${checksum}, ${serviceVersion}, array_agg(oid::regprocedure::text ORDER BY proname), now()
    FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname = ANY (string_to_array(${names}, ','))
    ON CONFLICT (only_row) DO UPDATE SET checksum = EXCLUDED.checksum, version = EXCLUDED.version,
      signatures = EXCLUDED.signatures, applied_at = EXCLUDED.applied_at`
})

/** Fails where a number of this build's has another name in the database, and where an empty one cannot be filled. */
const requireUsable = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { database, exists, mayCreate, user } = yield* SqlSchema.findOne({
    Request: Schema.Void,
    Result: Schema.Struct({
      exists: Schema.Boolean,
      mayCreate: Schema.Boolean,
      user: Schema.String,
      database: Schema.String
    }),
    execute: () =>
      sql`SELECT to_regclass('effect_sql_migrations') IS NOT NULL AS exists,
        has_schema_privilege('public', 'CREATE') AS "mayCreate",
        current_user::text AS user, current_database()::text AS database`
  })(undefined)
  if (!exists && !mayCreate) return yield* new DatabaseNotOwned({ user, database })
  if (!exists) return
  const names = new Map((yield* loader).map(([id, name]) => [id, name]))
  const applied = yield* SqlSchema.findAll({
    Request: Schema.Void,
    Result: Schema.Struct({ id: Schema.Int, name: Schema.String }),
    execute: () => sql`SELECT migration_id AS id, name FROM effect_sql_migrations`
  })(undefined)
  if (applied.some(({ id, name }) => names.has(id) && names.get(id) !== name)) return yield* new UnsupportedDatabase()
})

/**
 * Applies the migrations and functions that are missing, in one transaction, under a lock that any number of replicas may
 * wait for; answers which migrations were applied.
 */
export const migrate = (connection: PgClient.PgClientConfig) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const applied = yield* sql.withTransaction(
      Effect.gen(function* () {
        // A pooler keeps no settings of sessions, and the user may have the service's role as a default.
        yield* sql`
          SELECT set_config('lock_timeout', '60s', true), set_config('statement_timeout', '0', true),
            set_config('jit', 'off', true),
            CASE WHEN current_user = ${applicationRole} THEN set_config('role', 'none', true) END`
        yield* sql`SELECT pg_advisory_xact_lock(hashtext('application_manager_migrations'))`
        // Functions name tables and each other, whatever the order that they are created in.
        yield* sql`SET LOCAL check_function_bodies = off`
        yield* requireUsable
        const applied = yield* PgMigrator.run({ loader })
        yield* applyFunctions
        return applied
      })
    )
    // A role belongs to all databases of a server, so another one's owner may have made it.
    const { isMember, name } = yield* SqlSchema.findOne({
      Request: Schema.String,
      Result: Schema.Struct({ name: Schema.String, isMember: Schema.Boolean }),
      execute: (role) =>
        sql`SELECT session_user::text AS name, pg_has_role(session_user, ${role}, 'MEMBER') AS "isMember"`
    })(applicationRole)
    if (!isMember) return yield* new RoleNotGranted({ user: name })
    return applied
  }).pipe(
    Effect.provide(
      PgClient.layer({ ...connection, applicationName: "application-manager-migrations", maxConnections: 1 }).pipe(
        Layer.provideMerge(NodeServices.layer)
      )
    ),
    Effect.withSpan("Migrations.migrate")
  )

/** What this build needs of a database: the number of its newest migration, and the checksum of its functions. */
export const requiredSchema = Effect.all([loader, functionFiles]).pipe(
  Effect.map(([migrations, { checksum }]) => ({ migration: Math.max(0, ...migrations.map(([id]) => id)), checksum })),
  Effect.orDie,
  Effect.provide(NodeServices.layer)
)
