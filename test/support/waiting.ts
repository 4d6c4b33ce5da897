import { type PgClient } from "@effect/sql-pg"
import { Effect, Schedule } from "effect"

/** Asks again until the answer is as wished; a minute without it is a defect that shows the last answer. */
export const eventually = <A, E, R>(ask: Effect.Effect<A, E, R>, isReached: (answer: A) => boolean) =>
  Effect.gen(function* () {
    let last: A | undefined
    return yield* ask.pipe(
      Effect.tap((answer) => Effect.sync(() => (last = answer))),
      Effect.repeat({ until: isReached, schedule: Schedule.spaced("20 millis") }),
      Effect.timeoutOrElse({
        duration: "60 seconds",
        orElse: () => Effect.suspend(() => Effect.die(new Error(`Not reached; last: ${JSON.stringify(last)}`)))
      })
    )
  })

/** Waits until `count` statements of the service wait for a lock in this database. */
export const untilBlocked = (sql: PgClient.PgClient, count = 1) =>
  eventually(
    Effect.map(
      sql<{ readonly count: number }>`
        SELECT count(*)::integer AS count FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'application-manager' AND wait_event_type = 'Lock'`,
      ([row]) => row?.count ?? 0
    ),
    (blocked) => blocked >= count
  )
