import { PgClient } from "@effect/sql-pg"
import { Effect, Exit, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { realClock } from "./clock.ts"
import { type TestDatabase } from "./database.ts"

interface Session {
  readonly sql: PgClient.PgClient
  readonly scope: Scope.Closeable
}

/** Sessions that wait for the next statements: opening one costs more than most statements of a test. */
const idle = new WeakMap<TestDatabase, Array<Session>>()

const open = (database: TestDatabase) =>
  Effect.suspend(() => {
    const scope = Scope.makeUnsafe()
    return PgClient.makeClient(database).pipe(
      Scope.provide(scope),
      Effect.provide([Reactivity.layer, realClock]),
      Effect.map((sql): Session => ({ sql, scope })),
      Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
    )
  })

/** An idle session without what was set in it, unless the server ended it in the meantime. */
const reused = (database: TestDatabase) =>
  Effect.gen(function* () {
    const session = idle.get(database)?.pop()
    if (session === undefined) return undefined
    const reset = yield* Effect.exit(Effect.andThen(session.sql`RESET ALL`, session.sql`RESET ROLE`))
    if (Exit.isSuccess(reset)) return session
    yield* Scope.close(session.scope, reset)
    return undefined
  })

/** Runs statements on a test's database as its superuser, whom no policy binds. */
export const asSuperuser = <A, E, R>(
  database: TestDatabase,
  statements: (sql: PgClient.PgClient) => Effect.Effect<A, E, R>
) =>
  Effect.acquireUseRelease(
    Effect.flatMap(reused(database), (session) => (session === undefined ? open(database) : Effect.succeed(session))),
    ({ sql }) => Effect.scoped(statements(sql)),
    (session, exit) =>
      Exit.isSuccess(exit)
        ? Effect.sync(() => void idle.set(database, [...(idle.get(database) ?? []), session]))
        : Scope.close(session.scope, exit)
  ).pipe(Effect.orDie)

/** The rows that a count of `table` finds, past every policy. */
export const countOf = (database: TestDatabase, table: string): Effect.Effect<number> =>
  asSuperuser(database, (sql) =>
    Effect.map(
      sql<{ readonly count: number }>`SELECT count(*)::integer AS count FROM ${sql(table)}`,
      ([row]) => row?.count ?? 0
    )
  )
