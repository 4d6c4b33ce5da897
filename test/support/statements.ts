import { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { Reactivity } from "effect/reactivity"
import { type TestDatabase } from "./database.ts"

/** Runs statements on a test's database as its superuser, whom no policy binds. */
export const asSuperuser = <A, E, R>(
  database: TestDatabase,
  statements: (sql: PgClient.PgClient) => Effect.Effect<A, E, R>
) =>
  PgClient.makeClient(database).pipe(
    Effect.flatMap(statements),
    Effect.orDie,
    Effect.scoped,
    Effect.provide(Reactivity.layer)
  )

/** The rows that a count of `table` finds, past every policy. */
export const countOf = (database: TestDatabase, table: string): Effect.Effect<number> =>
  asSuperuser(database, (sql) =>
    Effect.map(
      sql<{ readonly count: number }>`SELECT count(*)::integer AS count FROM ${sql(table)}`,
      ([row]) => row?.count ?? 0
    )
  )
