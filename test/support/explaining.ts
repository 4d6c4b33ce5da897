import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, type Scope, Stream, String as Text } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, Statement } from "effect/sql"
import { type TestDatabase } from "./database.ts"

/** How PostgreSQL did a statement: how many pages it looked at, and which tables it read from one end to the other. */
export interface Explained {
  readonly statement: string
  readonly pages: number
  readonly scanned: ReadonlyArray<string>
}

interface Node {
  readonly "Node Type": string
  readonly "Relation Name"?: string
  readonly "Shared Hit Blocks": number
  readonly "Shared Read Blocks": number
  readonly Plans?: ReadonlyArray<Node>
}

const scannedBy = (node: Node): ReadonlyArray<string> => [
  ...(node["Node Type"] === "Seq Scan" ? [node["Relation Name"] ?? ""] : []),
  ...(node.Plans ?? []).flatMap(scannedBy)
]

const executed = (params: ReadonlyArray<unknown>) =>
  params.length === 0
    ? "EXECUTE explained"
    : `EXECUTE explained(${params.map((value) => `'${String(value).replaceAll("'", "''")}'`).join()})`

/**
 * A client for repositories that explains what it does, as the superuser of a test's database: what only reads in one
 * transaction, so that a setting of it lasts, else each statement in one that is undone before it is done. With `isGeneric` as
 * a plan that was made for any parameters, which is what a session has after five times.
 */
export const makeExplaining = (
  { startupParameters, ...database }: TestDatabase & { readonly startupParameters?: Readonly<Record<string, string>> },
  { isGeneric = false, isReading = false } = {}
): Effect.Effect<
  { readonly layer: Layer.Layer<SqlClient.SqlClient>; readonly explained: Array<Explained> },
  never,
  Scope.Scope
> =>
  Effect.gen(function* () {
    const explained: Array<Explained> = []
    // As outside tests, whose server makes generic plans at once.
    const planned = isGeneric ? "force_generic_plan" : "auto"
    const sql = yield* PgClient.makeClient({
      ...database,
      startupParameters: { ...startupParameters, plan_cache_mode: planned }
    })
    if (isReading) yield* sql.unsafe("BEGIN")
    const execute = (text: string, params: ReadonlyArray<unknown>) =>
      Effect.gen(function* () {
        const explain = Effect.gen(function* () {
          if (!isReading) yield* sql.unsafe("BEGIN")
          if (isGeneric) yield* sql.unsafe(`PREPARE explained AS ${text}`)
          const [row] = yield* sql.unsafe<{ readonly "QUERY PLAN": ReadonlyArray<{ readonly Plan: Node }> }>(
            `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${isGeneric ? executed(params) : text}`,
            isGeneric ? [] : params
          )
          if (isGeneric) yield* sql.unsafe("DEALLOCATE explained")
          if (!isReading) yield* sql.unsafe("ROLLBACK")
          return row
        })
        // The first time of a session reads what the functions are made of.
        yield* explain
        const row = yield* explain
        const plan = row?.["QUERY PLAN"][0]?.Plan
        if (plan !== undefined) {
          const pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
          explained.push({ statement: text.replaceAll(/\s+/g, " ").trim(), pages, scanned: scannedBy(plan) })
        }
        return yield* sql.unsafe(text, params)
      })
    const transformed: SqlClient.SqlClient.MakeOptions["transformRows"] = Statement.defaultTransforms(
      Text.snakeToCamel,
      false
    ).array
    const client = yield* SqlClient.make({
      acquirer: Effect.succeed({
        execute: (text, params, transform) =>
          Effect.map(execute(text, params), (rows) => (transform === undefined ? rows : transform(rows))),
        executeRaw: execute,
        executeUnprepared: (text, params, transform) =>
          Effect.map(execute(text, params), (rows) => (transform === undefined ? rows : transform(rows))),
        executeValues: () => Effect.die(new Error("Nobody asks for values")),
        executeValuesUnprepared: () => Effect.die(new Error("Nobody asks for values")),
        executeStream: () => Stream.die(new Error("Nobody asks for a stream"))
      }),
      compiler: PgClient.makeCompiler(Text.camelToSnake, false),
      driver: "postgres",
      spanAttributes: [],
      transformRows: transformed
    })
    return { layer: Layer.succeed(SqlClient.SqlClient, client), explained }
  }).pipe(Effect.provide(Reactivity.layer), Effect.orDie)
