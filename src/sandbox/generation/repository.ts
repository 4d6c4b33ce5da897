import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"

const Label = Schema.Struct({
  tenantId: Schema.String,
  agentId: Schema.String,
  kind: Schema.String,
  start: Schema.String,
  end: Schema.String,
  factor: Schema.Finite
})

/** Writes generated usage; the owner of the database alone may. */
export class GenerationRepository extends Context.Service<GenerationRepository>()("app/sandbox/GenerationRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const used = SqlSchema.findOne({
      Request: Schema.Void,
      Result: Schema.Struct({ isUsed: Schema.Boolean }),
      execute: () => sql`SELECT EXISTS (SELECT FROM usage_rows) OR EXISTS (SELECT FROM agents) AS is_used`
    })
    const state = SqlSchema.findOne({
      Request: Schema.Void,
      Result: Schema.Struct({ isDemo: Schema.Boolean, isServed: Schema.Boolean }),
      execute: () => sql`
        SELECT EXISTS (SELECT FROM agents WHERE description = 'Generated') AS is_demo,
          EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'application-manager') AS is_served`
    })
    const packMonth = SqlSchema.findOne({
      Request: Schema.Void,
      Result: Schema.Struct({ packed: Schema.NullOr(Schema.String) }),
      execute: () => sql`SELECT usage_pack_month() AS packed`
    })
    const labels = SqlSchema.findAll({
      Request: Schema.Struct({ first: Schema.String, days: Schema.Int }),
      Result: Label,
      execute: ({ days, first }) => sql`
        SELECT a.tenant_id, a.id AS agent_id, l.kind, to_char(l.opens AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS start,
          to_char(l.closes AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS end, l.factor
        FROM usage_generate_labels(${first}::date, ${days}) l JOIN (
          SELECT a.id, a.tenant_id, row_number() OVER (ORDER BY a.name, t.slug) - 1 AS place
          FROM agents a JOIN tenants t ON t.id = a.tenant_id WHERE a.description = 'Generated') a ON a.place = l.agent_place
        ORDER BY l.opens`
    })
    return {
      /** Whether there are agents or usage already. */
      isUsed: Effect.orDie(Effect.map(used(undefined), ({ isUsed }) => isUsed)),
      /** Whether there are generated agents. */
      isDemo: Effect.orDie(Effect.map(state(undefined), ({ isDemo }) => isDemo)),
      /** Whether a service uses the database now. */
      isServed: Effect.orDie(Effect.map(state(undefined), ({ isServed }) => isServed)),
      /** Drops everything in the schema `public`. */
      purge: Effect.orDie(
        sql.withTransaction(Effect.andThen(sql`DROP SCHEMA public CASCADE`, Effect.asVoid(sql`CREATE SCHEMA public`)))
      ),
      /** Makes tenants and agents, and partitions for so many months from a day on. */
      prepare: (first: string, months: number) =>
        Effect.orDie(
          Effect.andThen(
            sql`SELECT usage_generate_world(${first}::date::timestamp AT TIME ZONE 'UTC')`,
            sql`SELECT usage_make_partitions(${first}::date::timestamp AT TIME ZONE 'UTC', ${months})`
          )
        ),
      /** Writes a day with so many calls, its entries of the ledger, and its roll-ups. */
      writeDay: (day: string, calls: number, first: string, days: number) =>
        Effect.orDie(Effect.asVoid(sql`SELECT usage_generate_day(${day}::date, ${calls}, ${first}::date, ${days})`)),
      /** Lets agents have been seen when they made their last call. */
      see: Effect.orDie(Effect.asVoid(sql`SELECT usage_generate_sightings()`)),
      /** Lets the caps that there are count what was generated since a day. */
      count: (first: string) =>
        Effect.orDie(Effect.asVoid(sql`SELECT usage_generate_counts(${first}::date::timestamp AT TIME ZONE 'UTC')`)),
      /** Lets the planner know what there is now. */
      analyze: Effect.orDie(Effect.asVoid(sql`ANALYZE usage_rows, usage_rollups`)),
      /** Packs the indexes of the months that are over, as the service does. */
      pack: Effect.gen(function* () {
        while ((yield* packMonth(undefined)).packed !== null);
      }).pipe(Effect.orDie),
      labels: (first: string, days: number) => Effect.orDie(labels({ first, days }))
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
