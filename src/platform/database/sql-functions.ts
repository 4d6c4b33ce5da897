import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect, FileSystem, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { MigrationError } from "effect/sql/Migrator"
import { hash } from "node:crypto"
import written from "../../../migrations/functions/revision.json" with { type: "json" }
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

/** The functions as they were last applied: the revision, and the oldest one whose builds still find all they call. */
export const AppliedFunctions = Schema.Struct({
  revision: Schema.Int,
  checksum: Schema.String,
  oldestRevision: Schema.Int
})
export type AppliedFunctions = typeof AppliedFunctions.Type

/** How the functions of a database are to a build; it runs with its own, and with those of a later build that kept its. */
export type FunctionsState = "current" | "later" | "missing" | "another" | "contracted"

export const functionsState = (applied: AppliedFunctions, build: FunctionsOfBuild): FunctionsState => {
  if (applied.revision < build.revision) return "missing"
  if (applied.revision > build.revision) return applied.oldestRevision <= build.revision ? "later" : "contracted"
  return applied.checksum === build.checksum ? "current" : "another"
}

export const selectFunctions = (sql: SqlClient.SqlClient) =>
  rowsOf(AppliedFunctions, sql`SELECT revision, checksum, oldest_revision AS "oldestRevision" FROM applied_functions`)

/**
 * Brings the functions up to this build's files, in one transaction. Builds of the revision before go on running meanwhile, so
 * what they call stays: a function that has no file any more is dropped with the next revision. Functions of a later build
 * are left alone.
 */
export const applyFunctions = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const build = yield* functionsOfBuild
  const [applied] = yield* selectFunctions(sql)
  const state = applied === undefined ? "missing" : functionsState(applied, build)
  if (state !== "missing" && state !== "another") return
  if (state === "missing") yield* dropRetired(sql)
  const { files } = yield* functionFiles
  yield* Effect.forEach(files, (file) => replaceFunction(sql, file), { discard: true })
  const names = files.map(({ name }) => name).join()
  yield* sql`
    INSERT INTO applied_functions AS a (revision, oldest_revision, checksum, version, signatures, retired, applied_at)
    SELECT ${build.revision}::integer, ${build.revision}::integer, ${build.checksum}, ${serviceVersion},
      array_agg(oid::regprocedure::text ORDER BY proname), '{}', now()
    FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname = ANY (string_to_array(${names}, ','))
    ON CONFLICT (only_row) DO UPDATE SET revision = EXCLUDED.revision, checksum = EXCLUDED.checksum,
      oldest_revision = CASE WHEN a.revision = EXCLUDED.revision THEN a.oldest_revision ELSE a.revision END,
      version = EXCLUDED.version, signatures = EXCLUDED.signatures,
      retired = ARRAY(
        SELECT s FROM unnest(CASE WHEN a.revision = EXCLUDED.revision THEN a.retired || a.signatures ELSE a.signatures END) s
        WHERE s <> ALL (EXCLUDED.signatures)),
      applied_at = EXCLUDED.applied_at`
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
const dropRetired = (sql: SqlClient.SqlClient) => sql`
  DO $$
  DECLARE
    signature text;
  BEGIN
    FOR signature IN SELECT unnest(retired) FROM applied_functions LOOP
      BEGIN
        EXECUTE format('DROP FUNCTION IF EXISTS %s', signature);
      EXCEPTION WHEN dependent_objects_still_exist THEN NULL;
      END;
    END LOOP;
  END
  $$`
