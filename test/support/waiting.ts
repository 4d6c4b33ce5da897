import { type PgClient } from "@effect/sql-pg"
import { type Duration, Effect, Schedule } from "effect"

/** What comes soon is seen soon; asking costs processor time, so what takes long is asked for less often. */
const patiently = Schedule.min([Schedule.exponential("10 millis", 1.5), Schedule.spaced("100 millis")])

/** Asks again until the answer is as wished; a minute, or `longest`, without it is a defect that shows the last answer. */
export const eventually = <A, E, R>(
  ask: Effect.Effect<A, E, R>,
  isReached: (answer: A) => boolean,
  longest: Duration.Input = "1 minute"
) =>
  Effect.gen(function* () {
    let last: A | undefined
    return yield* ask.pipe(
      Effect.tap((answer) => Effect.sync(() => (last = answer))),
      Effect.repeat({ until: isReached, schedule: patiently }),
      Effect.timeoutOrElse({
        duration: longest,
        orElse: () => Effect.suspend(() => Effect.die(new Error(`Not reached; last: ${JSON.stringify(last)}`)))
      })
    )
  })

/** Waits until `count` statements of the service wait for a lock in this database. */
export const untilBlocked = (sql: PgClient.PgClient, count = 1) =>
  eventually(
    backendsOf(sql),
    (backends) => backends.filter(({ waitEventType }) => waitEventType === "Lock").length >= count
  )

/** Waits until no statement and no transaction of the service is under way in this database. */
export const untilIdle = (sql: PgClient.PgClient) =>
  eventually(backendsOf(sql), (backends) => backends.every(({ state }) => state === "idle"))

/** The connections of the service to this database, as they are now: inside a transaction a first look would stay. */
const backendsOf = (sql: PgClient.PgClient) =>
  Effect.andThen(
    sql`SELECT pg_stat_clear_snapshot()`,
    sql<{ readonly state: string; readonly waitEventType: string | null }>`
      SELECT state, wait_event_type AS "waitEventType" FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'application-manager'`
  )
