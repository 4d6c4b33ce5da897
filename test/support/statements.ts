import { PgClient } from "@effect/sql-pg"
import { Effect, Exit, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { realClock } from "./clock.ts"
import { idleSessions, type Session, type TestDatabase } from "./database.ts"

const mostIdle = 2

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

const close = ({ scope }: Session) => Effect.ignoreCause(Scope.close(scope, Exit.void))

/** An idle session without what was set in it, unless the server ended it in the meantime. */
const reused = Effect.fnUntraced(function* (database: TestDatabase) {
  const session = idleSessions.get(database)?.pop()
  if (session === undefined) return undefined
  const { sql } = session
  const reset = Effect.all([sql`RESET ALL`, sql`RESET SESSION AUTHORIZATION`, sql`SELECT pg_advisory_unlock_all()`])
  if (Exit.isSuccess(yield* Effect.exit(reset))) return session
  yield* close(session)
  return undefined
})

/** Keeps the session for the next statements where its database has nobody who counts sessions, and few wait already. */
const leave = (database: TestDatabase, session: Session) => {
  const idle = idleSessions.get(database)
  return idle === undefined || idle.length >= mostIdle ? close(session) : Effect.sync(() => void idle.push(session))
}

/** Runs statements on a test's database as its superuser, whom no policy binds. */
export const asSuperuser = <A, E, R>(
  database: TestDatabase,
  statements: (sql: PgClient.PgClient) => Effect.Effect<A, E, R>
) =>
  Effect.acquireUseRelease(
    Effect.flatMap(reused(database), (session) => (session === undefined ? open(database) : Effect.succeed(session))),
    ({ sql }) => Effect.scoped(statements(sql)),
    (session, exit) => (Exit.isSuccess(exit) ? leave(database, session) : close(session))
  ).pipe(Effect.orDie)

/** The rows that a count of `table` finds, past every policy. */
export const countOf = (database: TestDatabase, table: string): Effect.Effect<number> =>
  asSuperuser(database, (sql) =>
    Effect.map(
      sql<{ readonly count: number }>`SELECT count(*)::integer AS count FROM ${sql(table)}`,
      ([row]) => row?.count ?? 0
    )
  )
