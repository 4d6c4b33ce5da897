import { Clock, Duration, Context, DateTime, Effect, Layer, Option } from "effect"
import * as fs from "node:fs/promises"
import { AuditVerification } from "../../audit/chain/verification.ts"
import { Deliveries } from "../../events/deliveries/service.ts"
import { Rollups } from "../../insights/rollups/service.ts"
import { UsageExport } from "../../insights/usage-export/service.ts"
import { DatabaseConnection } from "../../platform/database/connection.ts"
import { SharedRedis } from "../../platform/redis/shared-redis.ts"
import { BackgroundJobs, type JobReport, repeatJob } from "../../platform/runtime/background-jobs.ts"
import { serviceVersion } from "../../platform/runtime/version.ts"
import { Settings } from "../../platform/settings/settings.ts"
import {
  chainSeen,
  checkSeen,
  deliveriesSeen,
  diskSeen,
  failingTargetsSeen,
  foldingSeen
} from "../health/health-metrics.ts"
import { HealthChecks, redisDetails } from "../health/service.ts"
import { type HealthCheck, type HealthStatus } from "./domain.ts"
import { DashboardRepository } from "./repository.ts"

const patienceSeconds = 2
const laggingSeconds = 5
/** What a replica that died had taken is attempted by another within this time. */
const overdueSeconds = 60
/** Usage is folded every few seconds, also under load. */
const behindSeconds = 60
/** How long after its time usage may be without a file in the storage. */
const lateSeconds = 300
const lowDisk = 0.1
const fullDisk = 0.02
const nanosPerMilli = 1e6

interface Finding {
  readonly status: HealthStatus
  readonly detail: string
}

const healthy = (detail: string): Finding => ({ status: "Healthy", detail })
const degraded = (detail: string): Finding => ({ status: "Degraded", detail })
const unhealthy = (detail: string): Finding => ({ status: "Unhealthy", detail })

/** How the service is in detail: every check with what it found and how long it took. */
export class DetailedHealth extends Context.Service<DetailedHealth>()("app/operations/DetailedHealth", {
  make: Effect.gen(function* () {
    const audit = yield* AuditVerification
    const deliveries = yield* Deliveries
    const jobs = yield* BackgroundJobs
    const checks = yield* HealthChecks
    const { embeddedIn } = yield* DatabaseConnection
    const redis = yield* SharedRedis
    const usage = yield* UsageExport
    const repository = yield* DashboardRepository
    const rollups = yield* Rollups
    const { telemetry } = yield* Settings
    const startedAt = yield* DateTime.now

    const database = repository.serverVersion.pipe(
      Effect.map((version) => healthy(`PostgreSQL ${version} answers`)),
      Effect.catch(() => Effect.succeed(unhealthy("The database cannot be reached")))
    )
    const databaseKind = Effect.succeed(
      healthy(
        Option.match(embeddedIn, { onNone: () => "external", onSome: (directory) => `embedded, in ${directory}` })
      )
    )
    const migrations = checks.migrations.pipe(
      Effect.map(({ detail, ready }) => (ready ? healthy(detail) : unhealthy(detail))),
      Effect.catch(() => Effect.succeed(unhealthy("unknown")))
    )
    const auditChain = Effect.map(audit.backlog, ({ checkpoint, sequence, waitingSeconds }) => {
      chainSeen(waitingSeconds)
      const signed = checkpoint === null ? "nothing is signed yet" : `signed up to ${checkpoint}`
      const place = `${sequence} entries linked, ${signed}`
      return waitingSeconds > laggingSeconds
        ? degraded(`${place}; the next has waited ${Math.round(waitingSeconds)} seconds for its link`)
        : healthy(place)
    })
    const eventDeliveries = Effect.map(
      deliveries.backlog,
      ({ due, dueSeconds, failingTargets, undispatchedSeconds }) => {
        deliveriesSeen(Math.max(dueSeconds, undispatchedSeconds))
        failingTargetsSeen(failingTargets)
        const failing = failingTargets === 0 ? "" : `; ${failingTargets} targets fail`
        const waiting =
          due === 0 ? "no delivery waits" : `${due} deliveries wait, the first for ${Math.round(dueSeconds)} seconds`
        if (undispatchedSeconds > laggingSeconds) {
          return degraded(
            `an event has waited ${Math.round(undispatchedSeconds)} seconds for its deliveries; ${waiting}${failing}`
          )
        }
        return dueSeconds > overdueSeconds ? degraded(`${waiting}${failing}`) : healthy(`${waiting}${failing}`)
      }
    )
    const usageFolding = Effect.map(rollups.waitingSeconds, (seconds) => {
      foldingSeen(seconds)
      const detail = `the oldest usage has waited ${Math.round(seconds)} seconds for the roll-ups`
      return seconds > behindSeconds ? degraded(detail) : healthy(detail)
    })
    const disk = Effect.map(
      Effect.promise(() => fs.statfs(Option.getOrElse(embeddedIn, () => process.cwd()))),
      ({ bavail, blocks, bsize }) => {
        const free = bavail / blocks
        diskSeen(free)
        const detail = `${((bavail * bsize) / 2 ** 30).toFixed(1)} GiB free (${Math.round(100 * free)} %)`
        return free < fullDisk ? unhealthy(detail) : free < lowDisk ? degraded(detail) : healthy(detail)
      }
    )
    const backgroundJobs = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const reports = yield* jobs.reports
      const troubled = reports.filter((report) => isTroubled(report, now))
      return troubled.length === 0
        ? healthy(`${reports.length} jobs, all well`)
        : degraded(troubled.map((report) => troubleOf(report, now)).join("; "))
    })

    const sharing = Effect.sync(() => {
      const state = redis.state()
      return state === "unused" ? [] : [(state === "away" ? degraded : healthy)(redisDetails[state])]
    })

    const usageExport = Effect.map(usage.backlog, (backlog) => {
      if (backlog === undefined) return healthy("the export has not begun yet")
      const { failure, failures, files, rows, uploadedRows, waitingSeconds } = backlog
      const uploaded = `${uploadedRows} rows in ${files} files are uploaded`
      const waiting = `${rows} rows wait in files, the first for ${Math.round(waitingSeconds)} seconds; Usage:RetentionDays drops none before`
      if (!usage.isOn) {
        return degraded(
          `${uploaded}, and usage goes on waiting, but this replica has no Usage:Export:Bucket: set it, or end the export by Usage:Export:Stop`
        )
      }
      if (failure !== null) return degraded(`${waiting}. Uploads failed ${failures} times in a row: ${failure}`)
      return waitingSeconds > usage.everySeconds + lateSeconds ? degraded(`${uploaded}; ${waiting}`) : healthy(uploaded)
    })
    /** Where this replica exports, or an export goes on without it. */
    const exporting = usage.isOn
      ? Effect.succeed([usageExport])
      : usage.backlog.pipe(
          Effect.timeoutOption(Duration.seconds(patienceSeconds)),
          Effect.map((found) => (Option.isSome(found) && found.value !== undefined ? [usageExport] : [])),
          Effect.catchCause(() => Effect.succeed([]))
        )
    const replication = Effect.map(checks.replica, (found) =>
      found === undefined ? [] : [(found.isAway ? degraded : healthy)(found.text)]
    )

    const report = Effect.gen(function* () {
      const results = yield* Effect.all(
        [
          run("database", database),
          run("database-kind", databaseKind),
          run("migrations", migrations),
          run("audit-chain", auditChain),
          run("event-deliveries", eventDeliveries),
          run("usage-folding", usageFolding),
          run("disk", disk),
          run("background-jobs", backgroundJobs),
          ...(yield* replication).map((finding) => run("read-replica", Effect.succeed(finding))),
          ...(yield* sharing).map((finding) => run("redis", Effect.succeed(finding))),
          ...(yield* exporting).map((check) => run("usage-export", check))
        ],
        { concurrency: "unbounded" }
      )
      const now = yield* DateTime.now
      const uptimeMillis = now.epochMilliseconds - startedAt.epochMilliseconds
      return {
        status: worst(results.map(({ status }) => status)),
        timestamp: now,
        version: serviceVersion,
        uptimeSeconds: Math.max(0, Math.floor(uptimeMillis / 1000)),
        checks: results
      }
    }).pipe(Effect.withSpan("DetailedHealth.report"))

    // Readiness has a metric of its own, which probes alone would not keep current.
    if (telemetry.prometheus.enabled || Option.isSome(telemetry.otlp.endpoint)) {
      yield* repeatJob(
        "measure the health of the service",
        "15 seconds",
        Effect.andThen(report, Effect.ignore(checks.ready))
      )
    }

    return { report }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(DashboardRepository.layer))
}

/** Runs a check, in its time. */
const run = Effect.fnUntraced(function* (name: HealthCheck["name"], check: Effect.Effect<Finding>) {
  const begun = yield* Clock.monotonicTimeNanos
  const found = yield* check.pipe(
    Effect.timeoutOption(Duration.seconds(patienceSeconds)),
    Effect.map(Option.getOrElse(() => unhealthy(`no answer within ${patienceSeconds} seconds`))),
    Effect.catchCause((cause) =>
      Effect.as(Effect.logWarning(`The check ${name} failed`, cause), unhealthy("the check failed"))
    )
  )
  checkSeen(name, found.status)
  const durationMs = Math.ceil(Number((yield* Clock.monotonicTimeNanos) - begun) / nanosPerMilli)
  return { name, status: found.status, durationMs, detail: found.detail }
})

/** Whether a job failed when it last ran, or has not ended for three of its turns. */
const isTroubled = ({ everyMillis, failures, succeededAt }: JobReport, now: number): boolean =>
  failures > 0 || now - succeededAt > 3 * everyMillis + 60_000

const troubleOf = ({ failures, name, succeededAt }: JobReport, now: number): string =>
  failures > 0
    ? `${name}: ${failures} failures in a row`
    : `${name}: has not ended for ${Math.round((now - succeededAt) / 1000)} seconds`

const worst = (statuses: ReadonlyArray<HealthStatus>): HealthStatus =>
  statuses.includes("Unhealthy") ? "Unhealthy" : statuses.includes("Degraded") ? "Degraded" : "Healthy"
