import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import { type Range, usageDimensions, type UsageFilter, type UsagePlace, UsageRow, usageTexts } from "./domain.ts"

/** A row as a list has it, and its place there. */
const ListedRow = Schema.Struct({
  ...UsageRow.fields,
  occurredAt: Schema.DateTimeUtcFromDate,
  costUsd: Schema.BigInt,
  inputTokens: Schema.NullOr(Schema.BigInt),
  outputTokens: Schema.NullOr(Schema.BigInt),
  cachedInputTokens: Schema.NullOr(Schema.BigInt),
  cacheWriteTokens: Schema.NullOr(Schema.BigInt),
  reasoningTokens: Schema.NullOr(Schema.BigInt),
  latencyMs: Schema.NullOr(Schema.BigInt),
  timeToFirstTokenMs: Schema.NullOr(Schema.BigInt),
  place: Schema.String
})
export type ListedRow = typeof ListedRow.Type

/** One read of an export: its lines as one text, and the place of the last. */
const Chunk = Schema.Struct({
  lines: Schema.NullOr(Schema.String),
  lastTenant: Schema.NullOr(Schema.String),
  lastMoment: Schema.NullOr(Schema.String),
  lastId: Schema.NullOr(Schema.String)
})
export interface ExportPlace {
  readonly tenant: string
  readonly moment: string
  readonly id: string
}
export const exportStart: ExportPlace = {
  tenant: "00000000-0000-0000-0000-000000000000",
  moment: "-infinity",
  id: "00000000-0000-0000-0000-000000000000"
}

const utc = `to_char(u.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/** The members of a row on the wire, each with the expression that it comes from. */
const exported: Readonly<Record<keyof typeof UsageRow.fields, string>> = {
  id: "u.charge_id",
  tenantId: "u.tenant_id",
  occurredAt: utc,
  costUsd: "trim_scale(u.cost::numeric / 1000000000)",
  agentId: "u.agent_id",
  planId: "u.plan_id",
  applicationId: "u.application_id",
  apiKeyId: "u.api_key_id",
  userId: "u.user_id",
  taskType: "u.task_type",
  model: "u.model",
  modelServed: "u.model_served",
  provider: "u.provider",
  operation: "u.operation",
  inputTokens: "u.input_tokens",
  outputTokens: "u.output_tokens",
  cachedInputTokens: "u.cached_input_tokens",
  cacheWriteTokens: "u.cache_write_tokens",
  reasoningTokens: "u.reasoning_tokens",
  method: "u.method",
  status: "u.status",
  latencyMs: "u.latency_ms",
  timeToFirstTokenMs: "u.time_to_first_token_ms",
  late: "u.late",
  reservationId: "u.reservation_id",
  createdBy: "u.created_by"
}
const members = Object.entries(exported)
export const csvHeader = `${members.map(([member]) => member).join(",")}\n`

// A spreadsheet takes a cell that begins with one of these for a formula; a quote before it makes it text.
const csvText = (expression: string) =>
  `CASE WHEN ${expression} IS NULL THEN '' ELSE '"' || replace(CASE WHEN ${expression} ~ '^[-=+@\\t\\r]' THEN '''' ELSE '' END || ${expression}, '"', '""') || '"' END`
const csvLine = members
  .map(([member, expression]) => (usageTexts.has(member) ? csvText(expression) : `coalesce((${expression})::text, '')`))
  .join(" || ',' || ")
const jsonRow = members.map(([member, expression]) => `${expression} AS "${member}"`).join(", ")

/** What counts as a request: a gateway call that was sent, or a reservation that was reconciled. */
const isRequest = "u.method NOT IN ('released', 'refunded', 'cached')"

/** The conditions that a filter puts on rows; which tenants there are is up to the statement. */
export const usageConditions = (sql: SqlClient.SqlClient, filter: UsageFilter): ReadonlyArray<Statement.Fragment> =>
  Object.values(usageDimensions).flatMap(({ column, filter: name }) => {
    const value = filter[name]
    return value === undefined ? [] : [sql`u.${sql.literal(column)} = ${value}`]
  })

const between = (sql: SqlClient.SqlClient, { from, to }: Range) =>
  sql`u.occurred_at >= ${new Date(from)} AND u.occurred_at < ${new Date(to)}`

export class UsageRepository extends Context.Service<UsageRepository>()("app/insights/UsageRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const decodeRows = Schema.decodeUnknownEffect(Schema.Array(ListedRow))
    const decodeChunk = Schema.decodeUnknownEffect(Schema.Tuple([Chunk]))
    const dropMonths = SqlSchema.findOne({
      Request: Schema.Struct({ days: Schema.Int, moment: Schema.UndefinedOr(Schema.DateTimeUtcFromDate) }),
      Result: Schema.Struct({ months: Schema.Array(Schema.String) }),
      execute: ({ days, moment }) =>
        sql`SELECT usage_drop_months(${days}, coalesce(${moment ?? null}::timestamptz, now())) AS months`
    })

    return {
      /** Rows from the newest on, behind a place. The index has the tenant first, so each tenant is read by itself. */
      list: Effect.fn("UsageRepository.list")(
        (filter: UsageFilter, range: Range, after: UsagePlace | undefined, limit: number) => {
          const conditions = [
            sql`u.tenant_id = t.id`,
            sql.literal(isRequest),
            between(sql, range),
            ...usageConditions(sql, filter),
            ...(after === undefined
              ? []
              : [
                  sql`u.occurred_at <= ${after[0]}::timestamptz`,
                  sql`(u.occurred_at, u.charge_id) < (${after[0]}::timestamptz, ${after[1]}::uuid)`
                ])
          ]
          return sql`
            SELECT u.charge_id AS id, u.tenant_id, u.occurred_at, u.occurred_at::text AS place, u.cost AS cost_usd,
              u.agent_id, u.plan_id, u.application_id, u.api_key_id, u.user_id, u.task_type, u.model, u.model_served,
              u.provider, u.operation, u.input_tokens, u.output_tokens, u.cached_input_tokens, u.cache_write_tokens,
              u.reasoning_tokens, u.method, u.status, u.latency_ms, u.time_to_first_token_ms, u.late, u.reservation_id,
              u.created_by
            FROM tenants t CROSS JOIN LATERAL (
              SELECT * FROM usage_rows u WHERE ${sql.and(conditions)}
              ORDER BY u.occurred_at DESC, u.charge_id DESC LIMIT ${limit}
            ) u
            WHERE ${filter.tenantId === undefined ? sql`true` : sql`t.id = ${filter.tenantId}`}
            ORDER BY u.occurred_at DESC, u.charge_id DESC LIMIT ${limit}`.pipe(Effect.flatMap(decodeRows), Effect.orDie)
        }
      ),
      /** Up to `limit` lines behind a place, in the order of tenants and times. */
      exportChunk: Effect.fn("UsageRepository.exportChunk")(
        (filter: UsageFilter, range: Range, format: "jsonl" | "csv", after: ExportPlace, limit: number) => {
          const conditions = [
            sql.literal(isRequest),
            between(sql, range),
            ...usageConditions(sql, filter),
            ...(filter.tenantId === undefined ? [] : [sql`u.tenant_id = ${filter.tenantId}`]),
            sql`(u.tenant_id, u.occurred_at) >= (${after.tenant}::uuid, ${after.moment}::timestamptz)`,
            sql`(u.tenant_id, u.occurred_at, u.charge_id)
              > (${after.tenant}::uuid, ${after.moment}::timestamptz, ${after.id}::uuid)`
          ]
          const line =
            format === "csv"
              ? sql.literal(csvLine)
              : sql`(SELECT row_to_json(r)::text FROM (SELECT ${sql.literal(jsonRow)}) r)`
          return sql`
            SELECT string_agg(l.line || E'\\n', '' ORDER BY l.place) AS lines,
              (array_agg(l.tenant ORDER BY l.place DESC))[1] AS last_tenant,
              (array_agg(l.moment ORDER BY l.place DESC))[1] AS last_moment,
              (array_agg(l.id ORDER BY l.place DESC))[1] AS last_id
            FROM (
              SELECT row_number() OVER (ORDER BY u.tenant_id, u.occurred_at, u.charge_id) AS place, ${line} AS line,
                u.tenant_id::text AS tenant, u.occurred_at::text AS moment, u.charge_id::text AS id
              FROM (
                SELECT * FROM usage_rows u WHERE ${sql.and(conditions)}
                ORDER BY u.tenant_id, u.occurred_at, u.charge_id LIMIT ${limit}
              ) u
            ) l`.pipe(
            Effect.flatMap(decodeChunk),
            Effect.map(([chunk]) => chunk),
            Effect.orDie
          )
        }
      ),
      /** Makes the partitions of so many months, from this one on. Writers queue behind it, so it gives up rather than block. */
      makePartitions: Effect.fn("UsageRepository.makePartitions")((months: number) =>
        sql`SET LOCAL lock_timeout = '500ms'`.pipe(
          Effect.andThen(sql`SELECT usage_make_partitions(now(), ${months})`),
          sql.withTransaction,
          Effect.asVoid,
          Effect.orDie
        )
      ),
      /** Drops the months that ended so many days ago; none while another replica does. */
      dropMonths: Effect.fn("UsageRepository.dropMonths")((days: number) =>
        dropMonths({ days, moment: undefined }).pipe(
          Effect.map(({ months }) => months),
          Effect.orDie
        )
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
