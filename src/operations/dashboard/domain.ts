import { Schema } from "effect"
import { Instant } from "../../kernel/instant.ts"

const most = Number.MAX_SAFE_INTEGER
const Count = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: most }))).annotate({
  examples: [42]
})

/** An amount in US dollars with at most nine decimals. */
const mostUsd = 9_223_372_036
const Usd = Schema.Finite.pipe(Schema.check(Schema.isBetween({ minimum: -mostUsd, maximum: mostUsd }))).annotate({
  component: "NetAmountUsd",
  description: "US dollars, net of refunds",
  examples: [0]
})

const Percent = Schema.NullOr(
  Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: -most, maximum: most })))
).annotate({
  description: "Change against the days before in whole percent; null when there was nothing to compare with",
  examples: [25]
})

const Day = Schema.String.pipe(Schema.check(Schema.isPattern(/^\d{4}-\d{2}-\d{2}$/u))).annotate({
  description: "A day in UTC",
  examples: ["2026-01-31"]
})

const trend = <S extends Schema.Top>(value: S, identifier: string) =>
  Schema.Struct({
    current: value,
    previous: value,
    changePercent: Percent,
    series: Schema.Array(Schema.Struct({ date: Day, value }))
  }).annotate({ identifier, description: "Seven days up to today, the seven before, and each day of the seven" })

/** How many of a thing came into being, and when. */
export const CountTrend = trend(Count, "CountTrend")
export type CountTrend = typeof CountTrend.Type

/** How much was spent, and when. */
export const UsdTrend = trend(Usd, "UsdTrend")
export type UsdTrend = typeof UsdTrend.Type

/** The figures of the installation. */
export const DashboardMetrics = Schema.Struct({
  activeTrialUsers: Count,
  totalApplications: Count,
  activeSessions: Count,
  agents: Count,
  spendTodayUsd: Usd,
  openReservationsUsd: Usd,
  trialsEndingSoon: Count.annotate({ description: "Active trial users whose trial ends within seven days" }),
  trends: Schema.Struct({
    period: Schema.Literal("7d"),
    trialUsers: CountTrend,
    sessions: CountTrend,
    applications: CountTrend,
    spendUsd: UsdTrend
  })
}).annotate({ identifier: "DashboardMetrics" })
export type DashboardMetrics = typeof DashboardMetrics.Type

export const HealthStatus = Schema.Literals(["Healthy", "Degraded", "Unhealthy"])
export type HealthStatus = typeof HealthStatus.Type

/** One question about the service, what it answered, and how long that took. */
export const HealthCheck = Schema.Struct({
  name: Schema.Literals([
    "database",
    "database-kind",
    "migrations",
    "audit-chain",
    "event-deliveries",
    "usage-folding",
    "disk",
    "background-jobs",
    "redis",
    "usage-export",
    "read-replica"
  ]),
  status: HealthStatus,
  durationMs: Count.annotate({ description: "Milliseconds that the check took", examples: [3] }),
  detail: Schema.String.annotate({ examples: ["reachable"] })
}).annotate({ identifier: "HealthCheck" })
export type HealthCheck = typeof HealthCheck.Type

/** How the service is, with the checks behind that; the worst of them decides. */
export const DashboardHealth = Schema.Struct({
  status: HealthStatus,
  timestamp: Instant,
  version: Schema.String.annotate({ examples: ["1.0.0"] }),
  uptimeSeconds: Count,
  checks: Schema.Array(HealthCheck)
}).annotate({ identifier: "DashboardHealth" })
export type DashboardHealth = typeof DashboardHealth.Type

/** What this replica was started with. */
export const EffectiveSettings = Schema.Struct({
  version: Schema.String.annotate({ examples: ["1.0.0"] }),
  environment: Schema.String.annotate({ examples: ["Production"] }),
  settings: Schema.Array(
    Schema.Struct({
      key: Schema.String.annotate({ examples: ["Api:Port"] }),
      value: Schema.NullOr(Schema.String).annotate({ examples: ["11402"] }),
      source: Schema.String.annotate({
        description: "`default`, a file, a variable of the environment, or the command line",
        examples: ["environment Api__Port"]
      }),
      description: Schema.String.annotate({ examples: ["Port to listen on"] })
    }).annotate({ identifier: "EffectiveSetting" })
  )
}).annotate({ identifier: "EffectiveSettings" })
export type EffectiveSettings = typeof EffectiveSettings.Type
