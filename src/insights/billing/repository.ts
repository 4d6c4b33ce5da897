import { Context, Effect, Layer, Schedule, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { StatementEnvelope } from "../../audit/statements/domain.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { readRows } from "../../platform/database/table.ts"
import { type ReportDimension, reportDimensions } from "../reports/domain.ts"
import { named } from "../reports/repository.ts"
import { type UsageFilter } from "../usage/domain.ts"
import { chargeMeters, usageConditions } from "../usage/repository.ts"
import { BilledRow } from "./columns-domain.ts"
import { BillingStatementNotFound, type StatementId } from "./domain.ts"

/** The charges that a report is about; times are epoch milliseconds. */
export interface Billed {
  readonly filter: UsageFilter
  readonly from: number
  readonly to: number
}

/** The lines of a report: charge by charge, in groups, or by unit price. */
export type Grain = "charge" | "price" | ReadonlyArray<ReportDimension>

const dimensions: Readonly<Record<ReportDimension, string>> = {
  agent: "u.agent_id",
  model: "u.model",
  provider: "u.provider",
  "task-type": "u.task_type",
  application: "u.application_id",
  plan: "u.plan_id",
  user: "u.user_id",
  "api-key": "u.api_key_id",
  tenant: "u.tenant_id",
  day: "to_char(u.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day",
  hour: "date_trunc('hour', u.occurred_at, 'UTC') AS hour"
}

/** The names of what these dimensions identify, each behind a comma. */
const namesOf = (of: ReadonlyArray<ReportDimension>): string =>
  of
    .map((dimension) => {
      const table = dimension === "day" || dimension === "hour" ? undefined : named[dimension]?.[0]
      const name = `${dimension.replace("-", "_")}_name`
      return table === undefined
        ? ""
        : `, (SELECT n.name FROM ${table} n WHERE n.id = ${dimensions[dimension]}) AS ${name}`
    })
    .join("")

const isRequest = "u.method NOT IN ('released', 'refunded', 'cached')"

const rowsOf = (sql: SqlClient.SqlClient, { filter, from, to }: Billed, grain: Grain): Statement.Fragment => {
  const where = sql.and([
    sql`u.method NOT IN ('released', 'cached')`,
    sql`u.occurred_at >= ${new Date(from)} AND u.occurred_at < ${new Date(to)}`,
    ...(filter.includeSynthetic === true ? [] : [sql`NOT u.synthetic`]),
    ...(filter.tenantId === undefined ? [] : [sql`u.tenant_id = ${filter.tenantId}`]),
    ...usageConditions(sql, filter)
  ])
  if (grain === "charge") {
    return sql`
      SELECT u.charge_id AS id, u.occurred_at, u.method::text, u.tenant_id, u.agent_id, u.plan_id, u.application_id,
        u.api_key_id, u.user_id, u.task_type, u.model, u.provider, u.input_tokens, u.output_tokens,
        u.cached_input_tokens, u.cost ${sql.literal(namesOf(reportDimensions))}
      FROM usage_rows u WHERE ${where} ORDER BY u.occurred_at, u.charge_id`
  }
  if (grain === "price") {
    return sql`
      SELECT date_trunc('hour', u.occurred_at, 'UTC') AS hour, u.tenant_id, t.name AS tenant_name, u.agent_id, u.provider,
        u.model, u.task_type, m.meter, coalesce(m.rate, 0)::bigint AS rate, sum(m.quantity)::bigint AS quantity,
        sum(m.billed)::bigint AS cost
      FROM usage_rows u JOIN tenants t ON t.id = u.tenant_id CROSS JOIN LATERAL ${sql.literal(chargeMeters)} m
      WHERE ${where} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9 ORDER BY 1, 2, 4, 5, 6, 7, 8, 9`
  }
  const places = sql.literal(grain.map((_, index) => index + 1).join(", "))
  return sql`
    SELECT ${sql.literal(grain.map((dimension) => dimensions[dimension]).join(", "))},
      count(*) FILTER (WHERE ${sql.literal(isRequest)}) AS requests,
      coalesce(sum(u.input_tokens), 0)::bigint AS input_tokens,
      coalesce(sum(u.output_tokens), 0)::bigint AS output_tokens,
      coalesce(sum(u.cached_input_tokens), 0)::bigint AS cached_input_tokens, sum(u.cost)::bigint AS cost
      ${sql.literal(namesOf(grain))}
    FROM usage_rows u WHERE ${where} GROUP BY ${places} ORDER BY ${places}`
}

const atOnce = 1000

export class BillingRepository extends Context.Service<BillingRepository>()("app/insights/BillingRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const billedRows = readRows(BilledRow)
    const statements = readRows(Schema.Struct({ envelope: StatementEnvelope }))
    const transactions = readRows(Schema.Struct({ transaction: Schema.String }))
    /** The transactions that have booked usage and not ended: they have the lock of `usage_keep_bills`. */
    const bookings = sql`
      SELECT DISTINCT l.virtualtransaction AS transaction FROM pg_locks l JOIN pg_database d ON d.oid = l.database
      WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objsubid = 1
        AND (l.classid::bigint << 32) | l.objid::bigint = hashtext('billing-closings') AND l.granted`.pipe(
      transactions,
      Effect.map((rows) => rows.map(({ transaction }) => transaction))
    )
    const encodeEnvelope = Schema.encodeSync(Schema.fromJsonString(StatementEnvelope))

    return {
      /** Hands over the rows part by part, all as of one moment; runs within a transaction. */
      read: Effect.fn("BillingRepository.read")(function* (
        billed: Billed,
        grain: Grain,
        use: (rows: ReadonlyArray<BilledRow>) => Effect.Effect<unknown>
      ) {
        // A connection remembers the types of a statement by its text, so rows of another form come from another name.
        const cursor = sql.literal(`billing_${[grain].flat().join("_").replaceAll("-", "_")}`)
        yield* sql`SET LOCAL statement_timeout = '10min'`
        yield* sql`DECLARE ${cursor} NO SCROLL CURSOR FOR ${rowsOf(sql, billed, grain)}`
        while (true) {
          const rows = yield* billedRows(sql`FETCH ${sql.literal(`${atOnce}`)} FROM ${cursor}`)
          if (rows.length > 0) yield* use(rows)
          if (rows.length < atOnce) break
        }
      }, Effect.orDie),
      /** Closes the range of a bill that is to be signed, as far as it is over: from now on usage is booked elsewhere. */
      close: Effect.fn("BillingRepository.close")((id: StatementId, { filter, from, to }: Billed) =>
        sql`
          INSERT INTO billing_closings (id, tenant_id, agent_id, opens, closes, begun_at)
          SELECT ${id}, ${filter.tenantId ?? null}::uuid, ${filter.agentId ?? null}::uuid, ${new Date(from)},
            least(${new Date(to)}, c.now), c.now
          FROM (SELECT date_trunc('milliseconds', clock_timestamp()) AS now) c`.pipe(Effect.asVoid, Effect.orDie)
      ),
      /**
       * Waits until the transactions have ended that may have booked usage without seeing a range that was closed before. It looks
       * for them, because a lock that it waited for would hold up all that come after.
       */
      awaitBookings: Effect.fn("BillingRepository.awaitBookings")(function* () {
        const before = new Set(yield* bookings)
        if (before.size === 0) return
        yield* Effect.repeat(bookings, {
          until: (current) => !current.some((transaction) => before.has(transaction)),
          schedule: Schedule.min([Schedule.exponential("2 millis"), Schedule.spaced("100 millis")])
        })
      }),
      /** Opens the range of a bill again, unless it was signed. */
      reopen: Effect.fn("BillingRepository.reopen")((id: StatementId) =>
        Effect.asVoid(Effect.orDie(sql`DELETE FROM billing_closings WHERE id = ${id} AND signed_at IS NULL`))
      ),
      /** Keeps the statement about a bill, and its range closed. */
      keepStatement: Effect.fn("BillingRepository.keepStatement")(function* (
        id: StatementId,
        tenantId: TenantId | undefined,
        envelope: StatementEnvelope
      ): Effect.fn.Return<void, never, Change> {
        yield* Change
        yield* Effect.orDie(sql`
          INSERT INTO billing_statements (id, tenant_id, envelope)
          VALUES (${id}, ${tenantId ?? null}, ${encodeEnvelope(envelope)}::text::jsonb)`)
        yield* Effect.orDie(sql`UPDATE billing_closings SET signed_at = now() WHERE id = ${id}`)
      }),
      statement: Effect.fn("BillingRepository.statement")((id: StatementId) =>
        sql`SELECT envelope FROM billing_statements WHERE id = ${id}`.pipe(
          statements,
          Effect.flatMap(([found]) =>
            found === undefined ? Effect.fail(new BillingStatementNotFound({})) : Effect.succeed(found.envelope)
          )
        )
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
