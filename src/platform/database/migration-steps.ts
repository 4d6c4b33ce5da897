import * as NodeServices from "@effect/platform-node/NodeServices"
import { Data, Effect, FileSystem, Predicate, Schedule, Schema } from "effect"
import { SqlClient, SqlError, SqlSchema } from "effect/sql"
import { fileURLToPath } from "node:url"

/** Where migrations and SQL functions are. */
export const migrationsDirectory = fileURLToPath(new URL("../../../migrations", import.meta.url))

/**
 * A part of a migration, with a transaction or more of its own. Requests go on meanwhile, so no step may hold a lock that
 * they wait for while it reads or writes what grows.
 */
export type Step = Data.TaggedEnum<{
  /** Statements in one transaction, and before them the functions that a default, a policy, a view or a trigger names. */
  Script: {
    readonly statements: string
    readonly functions: ReadonlyArray<string>
    /** Of one that takes something away: the release since which no build uses it. */
    readonly unusedSince?: string | undefined
  }
  /** An index, built while the table is written to; of a partitioned table for one partition after the other. */
  Index: { readonly name: string; readonly table: string; readonly on: string; readonly isUnique: boolean }
  /** A change of some rows at a time, which is repeated, each time in its own transaction, until it finds no more. */
  Batches: { readonly change: string }
}>
const Step = Data.taggedEnum<Step>()

/** The steps of a migration in their order. One that was stopped goes on with the first step that is not done. */
export type Migration = ReadonlyArray<Step>

export const script = (statements: string, functions: ReadonlyArray<string> = []): Step =>
  Step.Script({ statements, functions })

/**
 * Takes away what no build has used since a release, which is the one before this build's or an earlier one: replicas of the
 * release before go on running.
 */
export const contraction = (statements: string, unusedSince: string): Step =>
  Step.Script({ statements, functions: [], unusedSince })

/** `on` is what follows the table in `CREATE INDEX`: the method, the columns, a predicate. */
export const index = (name: string, table: string, on: string): Step => Step.Index({ name, table, on, isUnique: false })

/** The same, for a constraint that is then added USING INDEX; of a table without partitions. */
export const uniqueIndex = (name: string, table: string, on: string): Step =>
  Step.Index({ name, table, on, isUnique: true })

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
        retryingLocks(
          sql.withTransaction(
            Effect.gen(function* () {
              for (const name of functions) yield* execute(sql, yield* functionText(name))
              yield* execute(sql, statements)
              yield* done
            })
          )
        ),
      Index: (one) => Effect.andThen(buildIndex(sql, one), done),
      Batches: ({ change }) => Effect.andThen(changeInBatches(sql, change), done)
    })
  }).pipe(Effect.provide(NodeServices.layer))

type Index = Data.TaggedEnum.Value<Step, "Index">

const buildIndex = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, { isUnique, name, on, table }: Index) {
  const partitions = yield* rowsOf(
    Schema.Struct({ partition: Schema.String }),
    sql`
      SELECT c.relname AS partition FROM pg_partition_tree(${table}) t JOIN pg_class c ON c.oid = t.relid
      WHERE t.isleaf AND t.relid <> ${table}::regclass ORDER BY 1`
  )
  if (partitions.length === 0) return yield* concurrently(sql, `${isUnique ? "UNIQUE " : ""}INDEX`, name, table, on)
  // First, so that partitions which are made meanwhile have it.
  yield* retryingLocks(sql.unsafe(`CREATE INDEX IF NOT EXISTS ${name} ON ONLY ${table} ${on}`))
  for (const { partition } of partitions) {
    const part = `${name}_${partition.slice(table.length + 1)}`
    const [attached] = yield* sql`
      SELECT FROM pg_inherits h JOIN pg_index i ON i.indexrelid = h.inhrelid
      WHERE h.inhparent = ${name}::regclass AND i.indrelid = ${partition}::regclass`
    if (attached !== undefined) continue
    yield* concurrently(sql, "INDEX", part, partition, on)
    yield* retryingLocks(sql.unsafe(`ALTER INDEX ${name} ATTACH PARTITION ${part}`))
  }
})

/** A build that was stopped leaves an index that is invalid. It waits for transactions that began before it, and none waits for it. */
const concurrently = Effect.fnUntraced(
  function* (sql: SqlClient.SqlClient, kind: string, name: string, table: string, on: string) {
    yield* sql`SET lock_timeout = 0`
    const [invalid] = yield* sql`
      SELECT FROM pg_index WHERE indexrelid = to_regclass(${name}) AND NOT indisvalid`
    if (invalid !== undefined) yield* sql.unsafe(`DROP INDEX CONCURRENTLY ${name}`)
    yield* sql.unsafe(`CREATE ${kind} CONCURRENTLY IF NOT EXISTS ${name} ON ${table} ${on}`)
  },
  (building, sql) => Effect.ensuring(building, Effect.ignore(shortLockTimeout(sql)))
)

const changeInBatches = (sql: SqlClient.SqlClient, change: string) =>
  retryingLocks(
    rowsOf(
      Schema.Struct({ rows: Schema.Int }),
      sql.unsafe(`WITH changed AS (${change} RETURNING 1) SELECT count(*)::integer AS rows FROM changed`)
    )
  ).pipe(
    // As long again for everybody else.
    Effect.timed,
    Effect.flatMap(([duration, [counted]]) => Effect.delay(Effect.succeed(counted?.rows ?? 0), duration)),
    Effect.repeat({ while: (rows) => rows > 0 })
  )

/** Requests queue behind a statement that waits for a lock; it gives up soon, and tries again. */
export const shortLockTimeout = (sql: SqlClient.SqlClient) => sql`SET lock_timeout = '100ms'`

/** Tries again for ten minutes where a lock did not come in time. */
const retryingLocks = <A, E, R>(statement: Effect.Effect<A, E, R>) =>
  statement.pipe(
    Effect.tapError((error) =>
      isLocked(error) ? Effect.logInfo("A migration waits for a lock that requests hold") : Effect.void
    ),
    Effect.retry({
      while: isLocked,
      schedule: Schedule.spaced("500 millis").pipe(Schedule.jittered, Schedule.upTo({ duration: "10 minutes" }))
    })
  )

const isLocked = (error: unknown): boolean =>
  SqlError.isSqlError(error) &&
  Predicate.hasProperty(error.reason.cause, "code") &&
  ["55P03", "40P01"].includes(String(error.reason.cause.code))
