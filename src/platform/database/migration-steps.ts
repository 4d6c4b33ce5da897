import * as NodeServices from "@effect/platform-node/NodeServices"
import { Data, Effect, FileSystem, Schema } from "effect"
import { SqlClient, type SqlError, SqlSchema } from "effect/sql"
import { fileURLToPath } from "node:url"

/** Where migrations and SQL functions are. */
export const migrationsDirectory = fileURLToPath(new URL("../../../migrations", import.meta.url))

/**
 * A part of a migration, with a transaction or more of its own. Requests go on meanwhile, so no step may hold a lock that
 * they wait for while it reads or writes what grows.
 */
export type Step = Data.TaggedEnum<{
  /** Statements in one transaction, and before them the functions that a default, a policy, a view or a trigger names. */
  Script: { readonly statements: string; readonly functions: ReadonlyArray<string> }
  /** An index, built while the table is written to; of a partitioned table for one partition after the other. */
  Index: { readonly name: string; readonly table: string; readonly on: string }
  /** A change of some rows at a time, which is repeated, each time in its own transaction, until it finds no more. */
  Batches: { readonly change: string }
}>
const Step = Data.taggedEnum<Step>()

/** The steps of a migration in their order. One that was stopped goes on with the first step that is not done. */
export type Migration = ReadonlyArray<Step>

export const script = (statements: string, functions: ReadonlyArray<string> = []): Step =>
  Step.Script({ statements, functions })

/** `on` is what follows the table in `CREATE INDEX`: the method, the columns, a predicate. */
export const index = (name: string, table: string, on: string): Step => Step.Index({ name, table, on })

/**
 * An UPDATE, DELETE or INSERT without RETURNING, of so many rows that it takes milliseconds, and of those alone that are not
 * changed yet: `UPDATE … WHERE ctid = ANY (ARRAY(SELECT ctid FROM … WHERE … LIMIT 1000))`.
 */
export const batches = (change: string): Step => Step.Batches({ change })

/** Reads rows by their schema. */
export const rowsOf = <Row extends Schema.Top>(
  row: Row,
  statement: Effect.Effect<ReadonlyArray<unknown>, SqlError.SqlError>
) => SqlSchema.findAll({ Request: Schema.Void, Result: row, execute: () => statement })(undefined)

/** Runs several statements in one, since the protocol takes only one. */
export const execute = (sql: SqlClient.SqlClient, statements: string) =>
  sql.unsafe(`DO $execute$ BEGIN EXECUTE $statements$${statements}$statements$; END $execute$`)

/** The text of the file of a function. */
export const functionText = (name: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fileSystem) =>
    fileSystem.readFileString(`${migrationsDirectory}/functions/${name}.sql`)
  )

/** Performs a step; `done` records that it is, in the step's own transaction where it has just one. */
export const perform = <E, R>(step: Step, done: Effect.Effect<unknown, E, R>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* Step.$match(step, {
      Script: ({ functions, statements }) =>
        sql.withTransaction(
          Effect.gen(function* () {
            for (const name of functions) yield* execute(sql, yield* functionText(name))
            yield* execute(sql, statements)
            yield* done
          })
        ),
      Index: (one) => Effect.andThen(buildIndex(sql, one), done),
      Batches: ({ change }) => Effect.andThen(changeInBatches(sql, change), done)
    })
  }).pipe(Effect.provide(NodeServices.layer))

const buildIndex = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { name, on, table }: { readonly name: string; readonly table: string; readonly on: string }
) {
  // The build waits for transactions that began before it, and nothing waits for the build.
  yield* sql`SET lock_timeout = 0`
  const partitions = yield* rowsOf(
    Schema.Struct({ partition: Schema.String }),
    sql`
      SELECT c.relname AS partition FROM pg_partition_tree(${table}) t JOIN pg_class c ON c.oid = t.relid
      WHERE t.isleaf AND t.relid <> ${table}::regclass ORDER BY 1`
  )
  if (partitions.length === 0) yield* concurrently(sql, name, table, on)
  else {
    // First, so that partitions which are made meanwhile have it.
    yield* sql.unsafe(`CREATE INDEX IF NOT EXISTS ${name} ON ONLY ${table} ${on}`)
    for (const { partition } of partitions) {
      const part = `${name}_${partition.slice(table.length + 1)}`
      const [attached] = yield* sql`
        SELECT FROM pg_inherits h JOIN pg_index i ON i.indexrelid = h.inhrelid
        WHERE h.inhparent = ${name}::regclass AND i.indrelid = ${partition}::regclass`
      if (attached !== undefined) continue
      yield* concurrently(sql, part, partition, on)
      yield* sql.unsafe(`ALTER INDEX ${name} ATTACH PARTITION ${part}`)
    }
  }
  yield* shortLockTimeout(sql)
})

/** A build that was stopped leaves an index that is invalid. */
const concurrently = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, name: string, table: string, on: string) {
  const [invalid] = yield* sql`
    SELECT FROM pg_index WHERE indexrelid = to_regclass(${name}) AND NOT indisvalid`
  if (invalid !== undefined) yield* sql.unsafe(`DROP INDEX CONCURRENTLY ${name}`)
  yield* sql.unsafe(`CREATE INDEX CONCURRENTLY IF NOT EXISTS ${name} ON ${table} ${on}`)
})

const changeInBatches = (sql: SqlClient.SqlClient, change: string) =>
  rowsOf(
    Schema.Struct({ rows: Schema.Int }),
    sql.unsafe(`WITH changed AS (${change} RETURNING 1) SELECT count(*)::integer AS rows FROM changed`)
  ).pipe(
    // As long again for everybody else.
    Effect.timed,
    Effect.flatMap(([duration, [counted]]) => Effect.delay(Effect.succeed(counted?.rows ?? 0), duration)),
    Effect.repeat({ while: (rows) => rows > 0 })
  )

/** Requests queue behind a statement that waits for a lock; it gives up soon, and tries again. */
export const shortLockTimeout = (sql: SqlClient.SqlClient) => sql`SET lock_timeout = '100ms'`
