import { Clock, Context, DateTime, Effect, Layer, Option } from "effect"
import { type AppliedSchema, requiredSchema, schemaShortfall } from "../../platform/database/migrations.ts"
import { ReadReplica, type ReplicaStatus } from "../../platform/database/read-replica.ts"
import { DatabaseSessions } from "../../platform/database/sessions.ts"
import { Shutdown } from "../../platform/http/in-flight.ts"
import { SharedRedis } from "../../platform/redis/shared-redis.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { serviceName, serviceVersion } from "../../platform/runtime/version.ts"
import { type Health, NotReady, type ReadinessCheck } from "./domain.ts"
import { clockSeen, readySeen } from "./health-metrics.ts"
import { HealthRepository } from "./repository.ts"

export class HealthChecks extends Context.Service<HealthChecks>()("app/operations/HealthChecks", {
  make: Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const repository = yield* HealthRepository
    const sessions = yield* DatabaseSessions
    const redis = yield* SharedRedis
    const replica = yield* ReadReplica
    const shutdown = yield* Shutdown
    const required = yield* requiredSchema
    const migrationsOf = (applied: AppliedSchema) => {
      const shortfall = schemaShortfall(applied, required)
      return { ready: shortfall === undefined, detail: shortfall ?? `${applied.migration} applied` }
    }

    const replicaDetail = replica.status.pipe(
      Effect.timeoutOrElse({ duration: "2 seconds", orElse: () => Effect.succeed({ state: "away" } as const) }),
      Effect.map(detailOfReplica)
    )

    let last = healthAt(0, "Healthy")
    const health = Effect.sync(() => {
      const now = clock.currentTimeMillisUnsafe()
      const status = redis.state() === "away" ? "Degraded" : "Healthy"
      if (last.timestamp.epochMilliseconds !== now || last.status !== status) last = healthAt(now, status)
      return last
    })
    /** A replica without Redis goes on serving. */
    const redisChecks = Effect.sync((): ReadonlyArray<ReadinessCheck> => {
      const state = redis.state()
      return state === "unused" ? [] : [{ name: "redis", ready: true, detail: redisDetails[state] }]
    })

    /** The primary answers what a replica cannot. */
    const replicaChecks = Effect.map(replicaDetail, (detail): ReadonlyArray<ReadinessCheck> =>
      detail === undefined ? [] : [{ name: "read-replica", ready: true, detail: detail.text }]
    )

    /** The applied schema, and by how much this machine's clock is ahead of the database's. */
    const applied = Effect.gen(function* () {
      const before = clock.currentTimeMillisUnsafe()
      const { applied, nowMillis } = yield* repository.appliedSchema
      const between = (before + clock.currentTimeMillisUnsafe()) / 2
      return { schema: applied, aheadSeconds: Math.round((between - nowMillis) / 1000) }
    }).pipe(Effect.timeoutOption("2 seconds"), Effect.option, Effect.map(Option.flatten))

    yield* repeatJob(
      "compare the clock with the database's",
      "1 minute",
      Effect.flatMap(applied, (found) =>
        Option.exists(found, isOff)
          ? Effect.logWarning(
              `The clock of this machine is ${clockDetail(found)}; tokens and sign-ins are judged by it`
            )
          : Effect.void
      )
    )

    const ready = Effect.gen(function* () {
      const found = yield* applied
      const refusal = yield* Effect.timeoutOrElse(sessions.refusal, {
        duration: "2 seconds",
        orElse: () => Effect.succeed(undefined)
      })
      const migrations = Option.map(found, ({ schema }) => migrationsOf(schema))
      const draining = yield* shutdown.isDraining
      const checks: ReadonlyArray<ReadinessCheck> = [
        {
          name: "database",
          ready: Option.isSome(migrations) && refusal === undefined,
          detail:
            refusal === undefined
              ? Option.isSome(migrations)
                ? "reachable"
                : "not reachable"
              : `connections refused: ${refusal.summary} (a connection pooler?)`
        },
        {
          name: "migrations",
          ready: Option.exists(migrations, ({ ready }) => ready),
          detail: Option.match(migrations, {
            onNone: () => "unknown",
            onSome: ({ detail, ready }) => (ready ? "applied" : detail)
          })
        },
        { name: "draining", ready: !draining, detail: draining ? "shutting down" : "no" },
        // Budgets are judged by the database's clock, so a replica whose own is wrong goes on serving.
        { name: "clock", ready: true, detail: clockDetail(found) },
        ...(yield* redisChecks),
        ...(yield* replicaChecks)
      ]
      const isReady = checks.every((check) => check.ready)
      readySeen(isReady ? 1 : 0)
      if (Option.isSome(found)) clockSeen(found.value.aheadSeconds)
      if (!isReady) return yield* new NotReady({ checks })
      return { status: "Ready" as const, timestamp: yield* DateTime.now, checks }
    }).pipe(Effect.withSpan("HealthChecks.ready"))

    return {
      /** The same object to all who ask within a millisecond. */
      health,
      ready,
      /** What the read replica does; undefined where there is none. */
      replica: replicaDetail,
      /** Whether the database has this build's migrations and functions; fails when the database does not answer. */
      migrations: Effect.map(repository.appliedSchema, ({ applied }) => migrationsOf(applied))
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(HealthRepository.layer))
}

interface ClockComparison {
  readonly aheadSeconds: number
}

const mostSeconds = 5

const isOff = ({ aheadSeconds }: ClockComparison): boolean => Math.abs(aheadSeconds) > mostSeconds

const clockDetail = (found: Option.Option<ClockComparison>): string => {
  if (Option.isNone(found)) return "unknown"
  const { aheadSeconds } = found.value
  if (!isOff(found.value)) return "that of the database"
  return `${Math.abs(aheadSeconds)} s ${aheadSeconds > 0 ? "ahead of" : "behind"} the database`
}

const healthAt = (millis: number, status: Health["status"]): Health => ({
  status,
  timestamp: DateTime.makeUnsafe(millis),
  service: serviceName,
  version: serviceVersion
})

const detailOfReplica = (status: ReplicaStatus) => {
  switch (status.state) {
    case "unused":
      return undefined
    case "away":
      return { isAway: true, text: "away: the primary answers its reads" }
    case "connected":
      return {
        isAway: false,
        text: status.behindSeconds === 0 ? "up to date" : `${status.behindSeconds} s behind the primary`
      }
  }
}

/** What the states of Redis mean for the service. */
export const redisDetails = {
  connected: "connected",
  away: "degraded: cannot be used; this replica keeps rate limits and breakers for itself"
}
