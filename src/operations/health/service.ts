import { Clock, Context, DateTime, Effect, Layer, Option } from "effect"
import { latestMigration } from "../../platform/database/migrations.ts"
import { Shutdown } from "../../platform/http/shutdown.ts"
import { serviceName, serviceVersion } from "../../platform/runtime/version.ts"
import { type Health, NotReady, type Readiness, type ReadinessCheck } from "./domain.ts"
import { HealthRepository } from "./repository.ts"

export class HealthChecks extends Context.Service<
  HealthChecks,
  {
    /** The same object to all who ask within a millisecond. */
    readonly health: Effect.Effect<Health>
    readonly ready: Effect.Effect<Readiness, NotReady>
    /** The newest migration that the database has and the newest that this build wants; fails when nobody can say. */
    readonly migrations: Effect.Effect<{ readonly applied: number; readonly wanted: number }, void>
  }
>()("app/health/HealthChecks") {
  static readonly layerNoDeps = Layer.effect(
    HealthChecks,
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const repository = yield* HealthRepository
      const shutdown = yield* Shutdown
      const wanted = yield* latestMigration

      let last = healthAt(DateTime.makeUnsafe(0))
      const health = Effect.sync(() => {
        const now = clock.currentTimeMillisUnsafe()
        if (last.timestamp.epochMilliseconds !== now) last = healthAt(DateTime.makeUnsafe(now))
        return last
      })

      const ready = Effect.gen(function* () {
        const latest = yield* repository.latestMigration.pipe(
          Effect.timeoutOption("2 seconds"),
          Effect.option,
          Effect.map(Option.flatten)
        )
        const draining = yield* shutdown.isDraining
        const checks: ReadonlyArray<ReadinessCheck> = [
          {
            name: "database",
            ready: Option.isSome(latest),
            detail: Option.isSome(latest) ? "reachable" : "not reachable"
          },
          {
            name: "migrations",
            ready: Option.exists(latest, (number) => number >= wanted),
            detail: Option.match(latest, {
              onNone: () => "unknown",
              onSome: (number) => (number >= wanted ? "applied" : `${number} of ${wanted} applied`)
            })
          },
          { name: "draining", ready: !draining, detail: draining ? "shutting down" : "no" }
        ]
        if (checks.some((check) => !check.ready)) return yield* new NotReady({ checks })
        return { status: "Ready" as const, timestamp: yield* DateTime.now, checks }
      }).pipe(Effect.withSpan("HealthChecks.ready"))

      const migrations = Effect.map(repository.latestMigration, (applied) => ({ applied, wanted }))

      return HealthChecks.of({ health, ready, migrations })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(HealthRepository.layer))
}

const healthAt = (timestamp: DateTime.Utc): Health => ({
  status: "Healthy",
  timestamp,
  service: serviceName,
  version: serviceVersion
})
