import { Clock, Context, DateTime, Deferred, Effect, Metric, Schedule, type Scope } from "effect"
import { SqlClient, SqlError, type SqlConnection } from "effect/sql"
import { type Hosts, isOfConnecting, noAnswer } from "./hosts.ts"
import { timeline } from "./session-state.ts"

/**
 * All reads that a replica answers, and how far it has to be for them. No decision about money or identity depends on one, and
 * none is of a resource by its id, which its caller may have just written.
 */
const replicaReads = {
  /** The list of audit entries. */
  "audit-list": "any",
  /** The list of usage rows. */
  "usage-list": "any",
  /** The list of reservations. */
  "reservation-list": "any",
  /** Reports say as of when they are. */
  reports: "dated",
  /** An export of the audit log is sealed as complete up to the request. */
  "audit-export": "complete",
  "usage-export": "complete"
} as const
export type ReplicaRead = keyof typeof replicaReads

/** What reads together. */
export interface Reading {
  /** Whether the replica answers: once the primary has, it goes on, since a replica may be behind what was read. */
  isOnReplica: boolean
  /** The host that has answered, of several. */
  readonly host: unknown
  /** Of a dated one, the moment up to which it sees all; now where there is none. */
  readonly asOf: DateTime.Utc | undefined
}

const onPrimary: Reading = { isOnReplica: false, host: undefined, asOf: undefined }

/** What the reads of an effect belong to; undefined for those that ask the primary. */
export const CurrentReading = Context.Reference<Reading | undefined>("app/platform/CurrentReading", {
  defaultValue: () => undefined
})

export type ReplicaStatus =
  | { readonly state: "unused" | "away" }
  | { readonly state: "connected"; readonly behindSeconds: number }

/** A replica of the database, which answers some reads. */
export class ReadReplica extends Context.Service<
  ReadReplica,
  {
    /** Decides whether the replica answers reads; provide the answer to them as `CurrentReading`. */
    readonly begin: (read: ReplicaRead) => Effect.Effect<Reading>
    readonly status: Effect.Effect<ReplicaStatus>
  }
>()("app/platform/ReadReplica") {
  static readonly unused = ReadReplica.of({
    begin: () => Effect.succeed(onPrimary),
    status: Effect.succeed({ state: "unused" })
  })
}

/** Reads from the replica where it can answer. */
export const onReplica =
  (replica: ReadReplica["Service"], read: ReplicaRead) =>
  <A, E, R>(reading: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(replica.begin(read), (begun) => Effect.provideService(reading, CurrentReading, begun))

/** Where connections come from. */
export interface Source {
  readonly acquirer: SqlConnection.Acquirer
  readonly borrower: SqlConnection.Borrower
  readonly pinned: SqlConnection.Acquirer
}

const fallbacks = Metric.counter("app.database.replica.fallbacks", {
  description: "Reads that the primary answered because the read replica could not",
  attributes: { unit: "{read}" },
  incremental: true
})
const connectedGauge = Metric.gauge("app.database.replica.connected", {
  description: "Whether the read replica answers: 1, or 0 while it is away"
})
const registry = Context.empty()

const patience = "1 second"

const writtenStatement = `SELECT pg_current_wal_insert_lsn()::text, ${timeline}`

/**
 * What the replica has replayed: whether all of a position, when the last transaction of it was made, and whether it writes
 * what the primary does not have. Where one server is both, the timelines are the same.
 */
const replayedStatement = `
  SELECT CASE WHEN pg_is_in_recovery() THEN coalesce(pg_last_wal_replay_lsn() >= $1::text::pg_lsn, false) ELSE true END,
    floor(extract(epoch FROM pg_last_xact_replay_timestamp()) * 1000)::double precision,
    NOT pg_is_in_recovery() AND ${timeline} IS DISTINCT FROM $2::integer`

/** Whether a read may succeed on the primary: the replica is away, or has cancelled what was in the way of its replay. */
const isLost = (error: SqlError.SqlError): boolean =>
  error.reason._tag === "ConnectionError" ||
  isOfConnecting(error) ||
  (error.reason.cause as { readonly code?: unknown } | undefined)?.code === "40001"

/** The most seconds that a replica may be behind: one that has stopped replaying would show old lists. */
export const MostSecondsBehind = Context.Reference("app/platform/MostSecondsBehind", { defaultValue: () => 60 })

const tooOld = new SqlError.SqlError({
  reason: new SqlError.ConnectionError({ cause: undefined, message: "it is too far behind", operation: "connect" })
})

const promoted = new SqlError.SqlError({
  reason: new SqlError.ConnectionError({
    cause: undefined,
    message: "it was promoted, and no longer follows the primary",
    operation: "connect"
  })
})

/** Sends reads to a replica, and to the primary those that it cannot answer. */
export const makeReplica = Effect.fnUntraced(function* (
  primary: Source,
  replica: Source,
  /** A connection of its own, so that questions about the replica do not queue behind reads. */
  questions: Source,
  hosts: Hosts | undefined
): Effect.fn.Return<{ readonly source: Source; readonly service: ReadReplica["Service"] }, never, Scope.Scope> {
  const clock = yield* Clock.Clock
  let state: "connecting" | "connected" | "away" = "connecting"
  /** Fails the statements under way where the replica goes away without a word. */
  let gone = Deferred.makeUnsafe<never, SqlError.SqlError>()

  const values = (source: Source, statement: string, parameters: ReadonlyArray<unknown>) =>
    Effect.provideService(
      source.borrower((connection) => connection.executeValuesUnprepared(statement, parameters)),
      CurrentReading,
      undefined
    )
  const written = values(primary, writtenStatement, []).pipe(
    Effect.map(([row]) => row ?? [null, null]),
    Effect.catch(() => Effect.succeed([null, null]))
  )
  const asked = (statement: string, parameters: ReadonlyArray<unknown>) =>
    Effect.timeoutOrElse(values(questions, statement, parameters), {
      duration: "2 seconds",
      orElse: () => Effect.fail(noAnswer)
    })
  const replayed = (position: ReadonlyArray<unknown>) =>
    Effect.flatMap(asked(replayedStatement, position), ([row]) =>
      row?.[2] === true
        ? Effect.fail(promoted)
        : Effect.succeed({
            isComplete: row?.[0] === true,
            lastMillis: typeof row?.[1] === "number" ? row[1] : undefined
          })
    )
  /** The same, once all of the position is replayed or the patience is over. */
  const awaited = Effect.fnUntraced(function* (position: ReadonlyArray<unknown>) {
    const first = yield* replayed(position)
    if (first.isComplete) return first
    return yield* Effect.repeat(replayed(position), {
      until: ({ isComplete }) => isComplete,
      schedule: Schedule.spaced("20 millis")
    }).pipe(Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.succeed(first) }))
  })

  const lost = (error: SqlError.SqlError) =>
    Effect.suspend(() => {
      if (state === "away") return Effect.void
      state = "away"
      if (error !== tooOld) Deferred.doneUnsafe(gone, Effect.fail(error))
      gone = Deferred.makeUnsafe()
      connectedGauge.updateUnsafe(0, registry)
      return Effect.logWarning(
        `The read replica (Database:ReadUrl) cannot be used: ${String(error.reason.message ?? error.message)}; the primary answers its reads`
      )
    })
  const behindSeconds = written.pipe(
    // What the primary writes by itself is no transaction, and is replayed within moments.
    Effect.flatMap(awaited),
    Effect.map(({ isComplete, lastMillis = 0 }) =>
      isComplete ? 0 : Math.max(0, Math.round((clock.currentTimeMillisUnsafe() - lastMillis) / 1000))
    )
  )
  const mostBehind = yield* MostSecondsBehind
  const probe = behindSeconds.pipe(
    Effect.matchEffect({
      onFailure: lost,
      onSuccess: (seconds) => {
        if (seconds > mostBehind) return lost(tooOld)
        const wasAway = state === "away"
        state = "connected"
        connectedGauge.updateUnsafe(1, registry)
        return wasAway ? Effect.logInfo("The read replica is used again") : Effect.void
      }
    })
  )
  yield* Effect.forkScoped(Effect.repeat(probe, Schedule.spaced("2 seconds")))

  const isOnReplica = (reading: Reading | undefined): reading is Reading => {
    if (reading?.isOnReplica !== true) return false
    if (state === "connected" && reading.host === hosts?.current()) return true
    reading.isOnReplica = false
    fallbacks.updateUnsafe(1, registry)
    return false
  }
  const instead = (reading: Reading) => (error: SqlError.SqlError) =>
    Effect.suspend(() => {
      reading.isOnReplica = false
      fallbacks.updateUnsafe(1, registry)
      return error.reason._tag === "ConnectionError" || isOfConnecting(error) ? lost(error) : Effect.void
    })
  const leased = (from: "acquirer" | "pinned") =>
    Effect.flatMap(CurrentReading, (reading) =>
      isOnReplica(reading)
        ? Effect.catchIf(replica[from], isLost, (error) => Effect.andThen(instead(reading)(error), primary[from]))
        : primary[from]
    )

  const dated = Effect.fnUntraced(function* (read: ReplicaRead): Effect.fn.Return<Reading, SqlError.SqlError> {
    const host = hosts?.current()
    const now = yield* DateTime.now
    const position = yield* written
    if (replicaReads[read] === "complete") {
      const { isComplete } = yield* awaited(position)
      return { isOnReplica: isComplete, host, asOf: undefined }
    }
    const { isComplete, lastMillis } = yield* replayed(position)
    if (isComplete) return { isOnReplica: true, host, asOf: now }
    if (lastMillis === undefined) return { ...onPrimary }
    return { isOnReplica: true, host, asOf: DateTime.min(now, DateTime.makeUnsafe(lastMillis)) }
  })

  return {
    source: {
      acquirer: leased("acquirer"),
      // A transaction that may write is the primary's.
      pinned: Effect.flatMap(SqlClient.BeginTransaction, (begin) =>
        begin?.includes("READ ONLY") === true ? leased("pinned") : primary.pinned
      ),
      borrower: (use) =>
        Effect.flatMap(CurrentReading, (reading) =>
          isOnReplica(reading)
            ? Effect.catch(
                Effect.raceFirst(
                  replica.borrower(use),
                  Effect.suspend(() => Deferred.await(gone))
                ),
                (error) =>
                  SqlError.isSqlError(error) && isLost(error)
                    ? Effect.andThen(instead(reading)(error), primary.borrower(use))
                    : Effect.fail(error)
              )
            : primary.borrower(use)
        )
    },
    service: ReadReplica.of({
      begin: (read) => {
        if (state !== "connected") return Effect.succeed(onPrimary)
        if (replicaReads[read] === "any") {
          return Effect.sync(() => ({ isOnReplica: true, host: hosts?.current(), asOf: undefined }))
        }
        return Effect.catch(dated(read), (error) => Effect.as(lost(error), onPrimary))
      },
      status: Effect.suspend((): Effect.Effect<ReplicaStatus> => {
        if (state !== "connected") return Effect.succeed({ state: "away" })
        return behindSeconds.pipe(
          Effect.map((seconds) => ({ state: "connected" as const, behindSeconds: seconds })),
          Effect.catch(() => Effect.succeed({ state: "away" as const }))
        )
      })
    })
  }
})
