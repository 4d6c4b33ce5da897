import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect, FileSystem, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { MigrationError } from "effect/sql/Migrator"
import { hash } from "node:crypto"
import written from "../../../migrations/functions/revision.json" with { type: "json" }
import released from "../../../migrations/released.json" with { type: "json" }
import { serviceVersion } from "../runtime/version.ts"
import { functionText, migrationsDirectory, rowsOf } from "./migration-steps.ts"

/** The files of all functions, each named as its function, and a checksum of them; read once, since a build has its own. */
const functionFiles = Effect.gen(function* () {
  const fileSystem = yield* FileSystem.FileSystem
  const names = (yield* fileSystem.readDirectory(`${migrationsDirectory}/functions`))
    .filter((file) => file.endsWith(".sql"))
    .map((file) => file.slice(0, -".sql".length))
    .toSorted()
  const files = yield* Effect.forEach(names, (name) => Effect.map(functionText(name), (text) => ({ name, text })))
  return { files, checksum: hash("sha256", JSON.stringify(files)) }
}).pipe(Effect.orDie, Effect.provide(NodeServices.layer), Effect.uninterruptible, Effect.cached, Effect.runSync)

/** Which functions a build has: their revision grows with each change, and the checksum tells two of one revision apart. */
export interface FunctionsOfBuild {
  readonly revision: number
  readonly checksum: string
}

/** Those of this build. `npm run revision` writes the number; a test compares its checksum. */
export const functionsOfBuild: Effect.Effect<FunctionsOfBuild> = Effect.map(functionFiles, ({ checksum }) => ({
  revision: written.revision,
  checksum
}))

/** The functions as they were last applied, and the oldest build that runs with the database: what it needs. */
export const AppliedFunctions = Schema.Struct({
  revision: Schema.Int,
  checksum: Schema.String,
  oldestMigration: Schema.Int,
  oldestRevision: Schema.Int
})
export type AppliedFunctions = typeof AppliedFunctions.Type

/** How the functions of a database are to a build, which runs with its own and with those of a later build. */
export type FunctionsState = "current" | "later" | "missing" | "another"

export const functionsState = (applied: AppliedFunctions, build: FunctionsOfBuild): FunctionsState => {
  if (applied.revision !== build.revision) return applied.revision < build.revision ? "missing" : "later"
  return applied.checksum === build.checksum ? "current" : "another"
}

export const selectFunctions = (sql: SqlClient.SqlClient) =>
  rowsOf(
    AppliedFunctions,
    sql`
      SELECT revision, checksum, oldest_migration AS "oldestMigration", oldest_revision AS "oldestRevision"
      FROM applied_functions`
  )

/** Says which builds run with the database from now on: those of the release before this build, and later ones. */
export const admitReleaseBefore = (sql: SqlClient.SqlClient) => sql`
  UPDATE applied_functions SET
    oldest_migration = greatest(oldest_migration, ${released.migration}::integer),
    oldest_revision = greatest(oldest_revision, ${released.revision}::integer)`

/**
 * Brings the functions up to this build's files, in one transaction. Builds of the release before go on running meanwhile, so
 * what they call stays; what they do not call, and has no file any more, is dropped. Functions of a later build are left alone.
 */
export const applyFunctions = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const build = yield* functionsOfBuild
  const [applied] = yield* selectFunctions(sql)
  const state = applied === undefined ? "missing" : functionsState(applied, build)
  if (state !== "missing" && state !== "another") return
  const { files } = yield* functionFiles
  yield* Effect.forEach(files, (file) => replaceFunction(sql, file), { discard: true })
  const names = files.map(({ name }) => name)
  const known = yield* rowsOf(
    Schema.Struct({ name: Schema.String }),
    sql`SELECT unnest(names) AS name FROM applied_functions`
  )
  const others = known.flatMap(({ name }) => (names.includes(name) ? [] : [name]))
  const kept = others.filter((name) => Object.hasOwn(released.functions, name))
  const dropped = others.filter((name) => !kept.includes(name))
  yield* Effect.forEach(dropped, (name) => dropFunction(sql, name), { discard: true })
  yield* sql`
    INSERT INTO applied_functions AS a
      (revision, oldest_migration, oldest_revision, checksum, version, names, applied_at)
    SELECT ${build.revision}::integer, ${released.migration}::integer, ${released.revision}::integer, ${build.checksum},
      ${serviceVersion}, string_to_array(${[...names, ...kept].join()}, ','), now()
    ON CONFLICT (only_row) DO UPDATE SET revision = EXCLUDED.revision, checksum = EXCLUDED.checksum,
      version = EXCLUDED.version, names = EXCLUDED.names, applied_at = EXCLUDED.applied_at`
})

/**
 * Replaces a function in place, so that sessions go on with it. One whose arguments or result have changed is dropped and created,
 * which happens before a release alone: running builds rely on those of a release.
 */
const replaceFunction = (sql: SqlClient.SqlClient, { name, text }: { readonly name: string; readonly text: string }) =>
  sql
    .unsafe(
      `DO $replace$
      DECLARE
        statements CONSTANT text := $text$${text}$text$;
        signature text;
      BEGIN
        EXECUTE statements;
      EXCEPTION WHEN invalid_function_definition OR ambiguous_function THEN
        FOR signature IN SELECT oid::regprocedure::text FROM pg_proc
          WHERE pronamespace = 'public'::regnamespace AND proname = '${name}' AND prokind = 'f'
        LOOP
          EXECUTE format('DROP FUNCTION %s', signature);
        END LOOP;
        EXECUTE statements;
      END
      $replace$`
    )
    .pipe(
      Effect.mapError((cause) => new MigrationError({ kind: "Failed", cause, message: `Function "${name}" failed` }))
    )

/** What a table names cannot be dropped, and stays. */
const dropFunction = (sql: SqlClient.SqlClient, name: string) =>
  sql.unsafe(`
    DO $drop$
    BEGIN
      DROP FUNCTION IF EXISTS public.${name};
    EXCEPTION WHEN dependent_objects_still_exist THEN NULL;
    END
    $drop$`)
