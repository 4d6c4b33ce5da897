import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"

const Totals = Schema.Struct({
  activeTrialUsers: Schema.Int,
  totalApplications: Schema.Int,
  activeSessions: Schema.Int,
  agents: Schema.Int,
  trialsEndingSoon: Schema.Int,
  reserved: Schema.BigInt
})

/** How many of a kind of thing came into being on a day. */
export const Arrivals = Schema.Struct({
  kind: Schema.Literals(["trialUsers", "sessions", "applications"]),
  date: Schema.String,
  value: Schema.Int
})
export type Arrivals = typeof Arrivals.Type

const Spending = Schema.Struct({ date: Schema.String, cost: Schema.BigInt })

/** Counts over the tables of the features, each from an index alone. */
export class DashboardRepository extends Context.Service<DashboardRepository>()("app/operations/DashboardRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const totals = SqlSchema.findOne({
      Request: Schema.Boolean,
      Result: Totals,
      execute: (includeSynthetic) => sql`
          SELECT (SELECT count(*)::integer FROM trial_users WHERE is_active) AS active_trial_users,
            (SELECT count(*)::integer FROM trial_users
              WHERE is_active AND trial_end_date BETWEEN now() AND now() + interval '7 days') AS trials_ending_soon,
            (SELECT count(*)::integer FROM applications) AS total_applications,
            (SELECT count(*)::integer FROM sessions WHERE is_active) AS active_sessions,
            (SELECT count(*)::integer FROM agents WHERE ${includeSynthetic} OR NOT synthetic) AS agents,
            -- A plan reserves what is left of its budget; the calls that draw on it are reservations of their own.
            (SELECT coalesce(sum(CASE r.origin WHEN 'plan' THEN budget_plan_rest(l.status, l.budget, k.spent, k.reserved)
                ELSE r.amount END), 0)::bigint
              FROM budget_reservations r
              LEFT JOIN budget_plans l ON r.origin = 'plan' AND l.tenant_id = r.tenant_id AND l.id = r.id
              LEFT JOIN budget_counters k ON r.origin = 'plan' AND k.tenant_id = r.tenant_id AND k.id = r.id
              WHERE r.state = 'open' AND (${includeSynthetic} OR NOT is_synthetic(r.api_key_id, r.agent_id))) AS reserved`
    })
    const arrivals = SqlSchema.findAll({
      Request: Schema.Date,
      Result: Arrivals,
      execute: (moment) => sql`
          SELECT kind, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS date, count(*)::integer AS value FROM (
            SELECT 'trialUsers' AS kind, created_at AS at FROM trial_users WHERE created_at >= ${moment}
            UNION ALL SELECT 'sessions', started_at FROM sessions WHERE started_at >= ${moment}
            UNION ALL SELECT 'applications', created_at FROM applications WHERE created_at >= ${moment}
          ) arrived GROUP BY 1, 2`
    })
    const spending = SqlSchema.findAll({
      Request: Schema.Struct({ moment: Schema.Date, includeSynthetic: Schema.Boolean }),
      Result: Spending,
      execute: ({ includeSynthetic, moment }) => sql`
          SELECT to_char(s.day, 'YYYY-MM-DD') AS date, sum(s.cost)::bigint AS cost FROM (
            SELECT c.day, c.cost FROM tenants t JOIN usage_cells c ON c.tenant_id = t.id
            WHERE c.dimension = 0 AND c.grain = 'd' AND c.day >= (${moment}::timestamptz AT TIME ZONE 'UTC')::date
            UNION ALL
            SELECT (u.occurred_at AT TIME ZONE 'UTC')::date, u.cost FROM tenants t JOIN usage_counted u ON u.tenant_id = t.id
            WHERE ${includeSynthetic} AND u.synthetic AND u.occurred_at >= ${moment}
          ) s GROUP BY s.day`
    })
    const version = SqlSchema.findOne({
      Request: Schema.Void,
      Result: Schema.Struct({ version: Schema.String }),
      execute: () => sql`SELECT current_setting('server_version') AS version`
    })

    return {
      totals: Effect.fn("DashboardRepository.totals")((includeSynthetic: boolean) =>
        Effect.orDie(totals(includeSynthetic))
      ),
      /** What came since a moment, by its day in UTC; days without any are left out. */
      arrivalsSince: Effect.fn("DashboardRepository.arrivalsSince")((moment: Date) => Effect.orDie(arrivals(moment))),
      /** What was spent since the start of a day, net of refunds, by its day in UTC, from the roll-ups of insights. */
      spendingSince: Effect.fn("DashboardRepository.spendingSince")((moment: Date, includeSynthetic: boolean) =>
        Effect.orDie(spending({ moment, includeSynthetic }))
      ),
      /** The version of the database server; fails with nothing said when it cannot be asked. */
      serverVersion: version(undefined).pipe(
        Effect.map((row) => row.version),
        Effect.mapError(() => undefined)
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
