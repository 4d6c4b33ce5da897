import { Context, Effect, Layer, Schema, Struct } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import { ChargeId, Sum } from "../../budgets/ledger/domain.ts"
import { formulaStarts } from "../../kernel/csv.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { containing, inIndexOrder } from "../../platform/database/list.ts"
import { readRows } from "../../platform/database/table.ts"
import {
  type Range,
  type RequestFilter,
  UsageDetail,
  usageDimensions,
  type UsageFilter,
  type UsagePlace,
  UsageReservation,
  UsageRow,
  usageTexts
} from "./domain.ts"

/** A row as a list has it, and its place there. */
const ListedRow = Schema.Struct({
  ...UsageRow.fields,
  occurredAt: Schema.DateTimeUtcFromDate,
  eventTime: Schema.NullOr(Schema.DateTimeUtcFromDate),
  costUsd: Schema.BigInt,
  inputTokens: Schema.NullOr(Schema.BigInt),
  outputTokens: Schema.NullOr(Schema.BigInt),
  cachedInputTokens: Schema.NullOr(Schema.BigInt),
  cacheWriteTokens: Schema.NullOr(Schema.BigInt),
  reasoningTokens: Schema.NullOr(Schema.BigInt),
  place: Schema.String
})
export type ListedRow = typeof ListedRow.Type

/** Everything that is stored about a request. */
const DetailedRow = Schema.Struct({
  ...Struct.omit(UsageDetail.fields, ["pricing"]),
  ...Struct.omit(ListedRow.fields, ["place"]),
  cacheWrite1hTokens: Schema.NullOr(Schema.BigInt),
  savedUsd: Schema.BigInt,
  charges: Schema.Array(
    Schema.Struct({ meter: Schema.String, quantity: Schema.NullOr(Sum), rate: Schema.NullOr(Sum), costUsd: Sum })
  ),
  rates: Schema.NullOr(Schema.Record(Schema.String, Schema.Unknown)),
  reservation: Schema.NullOr(Schema.Struct({ ...UsageReservation.fields, amountUsd: Sum }))
})
export type DetailedRow = typeof DetailedRow.Type

/** The principal that usage_principal has shortened. */
const createdBy =
  "CASE u.created_by WHEN 'agent' THEN 'agent:' || u.agent_id WHEN 'api-key' THEN 'api-key:' || u.api_key_id ELSE u.created_by END"

/** What a row has for an id: its charge, or the reservation of a call that failed and was charged nothing. */
const rowId = "coalesce(u.charge_id, u.reservation_id)"

const listedColumns = `${rowId} AS id, u.tenant_id, u.occurred_at, u.occurred_at::text AS place, u.cost AS cost_usd,
  u.agent_id, u.plan_id, u.application_id, u.api_key_id, u.user_id, u.task_type, u.model, u.model_served, u.provider,
  u.operation, u.input_tokens, u.output_tokens, u.cached_input_tokens, u.cache_write_tokens, u.reasoning_tokens,
  u.method::text, u.status, u.latency_ms, u.time_to_first_token_ms, u.late, u.reservation_id, ${createdBy} AS created_by,
  u.price_terms->>'tier' AS served_tier, u.price_terms, u.synthetic,
  u.happened_at AS event_time, u.trace_id, u.error`

/** A row that a search read: whether it was found, and whether the search ended at it. */
const WalkedRow = Schema.Struct({
  tenantId: TenantId,
  place: Schema.String,
  id: ChargeId,
  isFound: Schema.Boolean,
  isEnd: Schema.Boolean
})
/** How many rows a search reads, of all tenants together. */
const maxWalked = 6000
/** The same of rows that are compared with figures alone. */
const maxCompared = 60_000
/** How many principals of each kind a search looks for. */
const maxPrincipals = 20

/** Some lines of an export in UTF-8, and the place of the last that was read. */
const Lines = Schema.Struct({ lines: Schema.Uint8Array, lastMoment: Schema.String, lastId: Schema.String })
/** A message of the database has so many lines: the driver allocates a buffer of its own for one that exceeds 64 KiB. */
const linesTogether = 50

/** Where an export goes on: in the rows of a tenant, behind one where there was one. */
export interface ExportPlace {
  readonly tenantId: TenantId
  readonly moment?: string
  readonly id?: string
}

const utc = (column: string) => `to_char(u.${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/** The members of a row on the wire, each with the expression that it comes from. */
const exported: Readonly<Record<keyof typeof UsageRow.fields, string>> = {
  id: rowId,
  tenantId: "u.tenant_id",
  occurredAt: utc("occurred_at"),
  costUsd: "trim_scale(u.cost * 0.000000001)",
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
  createdBy: "u.principal",
  servedTier: "(u.price_terms->>'tier')",
  priceTerms: "u.price_terms::text",
  synthetic: "u.synthetic",
  eventTime: utc("happened_at"),
  traceId: "u.trace_id",
  error: "u.error::text"
}
const members = Object.entries(exported)
export const csvHeader = new TextEncoder().encode(`${members.map(([member]) => member).join(",")}\n`)

const formulaCodes = Array.from(formulaStarts, (start) => start.codePointAt(0)).join(", ")
// As csvCell does, but always in quotes.
const csvText = (expression: string) =>
  `CASE WHEN ${expression} IS NOT NULL THEN concat(CASE WHEN ascii(${expression}) IN (${formulaCodes})
    THEN '"''' ELSE '"' END, replace(${expression}, '"', '""'), '"') END`
// What concat writes of a boolean is t or f.
const flags: ReadonlySet<string> = new Set(["late", "synthetic"])
/** What is JSON in itself, and a text in CSV. */
const objects: ReadonlySet<string> = new Set(["priceTerms", "error"])
const csvLine = `concat(${members
  .map(([member, expression]) =>
    usageTexts.has(member) || objects.has(member)
      ? csvText(expression)
      : flags.has(member)
        ? `${expression}::text`
        : expression
  )
  .join(", ',', ")}, E'\\n')`

/** The members that JSON writes without quotes. */
const jsonBare: ReadonlySet<string> = new Set([
  "costUsd",
  "applicationId",
  "inputTokens",
  "outputTokens",
  "cachedInputTokens",
  "cacheWriteTokens",
  "reasoningTokens",
  "status",
  "latencyMs",
  "timeToFirstTokenMs",
  "priceTerms",
  "error",
  "late",
  "synthetic"
])
/** The members that every row has. */
const always: ReadonlySet<string> = new Set([
  "tenantId",
  "occurredAt",
  "costUsd",
  "method",
  "late",
  "createdBy",
  "synthetic"
])
/** What `concat` writes a member of: it writes nothing of null, and a number or an id without a text in between. */
const jsonMember = ([member, expression]: readonly [string, string], index: number): string => {
  const name = `${index === 0 ? "{" : ","}"${member}":`
  const quote = usageTexts.has(member) || jsonBare.has(member) ? "" : '"'
  const value = usageTexts.has(member)
    ? `to_json(${expression})`
    : flags.has(member)
      ? `${expression}::text`
      : expression
  if (always.has(member)) return `'${name}${quote}', ${value}, '${quote}'`
  const opens = `CASE WHEN ${expression} IS NULL THEN '${name}null' ELSE '${name}${quote}' END`
  return quote === ""
    ? `${opens}, ${value}`
    : `${opens}, ${value}, CASE WHEN ${expression} IS NOT NULL THEN '${quote}' END`
}
// Texts put together take less time than row_to_json, and in one call less than one by one.
const jsonLine = `concat(${members.map(jsonMember).join(", ")}, E'}\\n')`

const mediaNames = ["audio", "image", "video"]
const tokensOf = (name: string) => `coalesce((u.price_terms->'tokens'->>'${name}')::bigint, 0)`
/** The tokens of media with a price of their own within a class of those of text. */
const mediaOf = (whole: "Input" | "CacheRead" | "Output") =>
  `(${mediaNames.map((medium) => tokensOf(`${medium}${whole}`)).join(" + ")})`
const mediaMeters = mediaNames
  .flatMap((medium) => [
    [`${medium}-input`, `${medium}Input`],
    [`${medium}-cached-input`, `${medium}CacheRead`],
    [`${medium}-output`, `${medium}Output`]
  ])
  .map(([meter, name]) => `('${meter}', ${tokensOf(name ?? "")}, (u.rates->>'${name}')::numeric, 1000000)`)
  .join(", ")

/** The time of a GPU is reported in hours of 12 decimals, and charged by its milliseconds. */
const gpuTime = (column: "upstreamMs" | "slots") => `(u.price_terms->'gpu'->>'${column}')::numeric`

/** A charge is split over its classes of tokens at their rates, or is the time of a GPU at its rate; what these do not explain, such as tools, is dollars. */
export const chargeMeters = `
  (SELECT * FROM (
    SELECT w.meter, w.rate,
      CASE WHEN w.is_rest AND w.is_priced THEN u.cost - w.explained ELSE w.quantity END AS quantity,
      CASE WHEN w.is_rest AND w.is_priced THEN u.cost - w.explained ELSE w.billed END AS billed
    FROM (SELECT v.*, sum(v.billed) FILTER (WHERE v.rate IS NOT NULL) OVER () AS explained,
        u.input_tokens IS NOT NULL AND u.rates IS NOT NULL
          AND coalesce(sum(v.billed) FILTER (WHERE v.rate IS NOT NULL) OVER () <= u.cost, false) AS is_priced
    FROM (
      SELECT t.meter, CASE t.meter WHEN 'gpu-time' THEN round(t.quantity * 1e12 / t.per) ELSE t.quantity END AS quantity,
        t.rate, ceil(t.quantity * t.rate / t.per) AS billed,
        false AS is_rest
      FROM (VALUES
        ('input', greatest(0, u.input_tokens - coalesce(u.cached_input_tokens, 0) - coalesce(u.cache_write_tokens, 0)
          - ${mediaOf("Input")}), (u.rates->>'input')::numeric, 1000000),
        ('cached-input', coalesce(u.cached_input_tokens, 0) - ${mediaOf("CacheRead")}, (u.rates->>'cacheRead')::numeric, 1000000),
        ('cache-write', coalesce(u.cache_write_tokens, 0) - coalesce(u.cache_write_1h_tokens, 0),
          (u.rates->>'cacheWrite')::numeric, 1000000),
        ('cache-write-1h', coalesce(u.cache_write_1h_tokens, 0), (u.rates->>'cacheWrite1h')::numeric, 1000000),
        ('output', coalesce(u.output_tokens, 0) - coalesce(u.reasoning_tokens, 0) - ${mediaOf("Output")},
          (u.rates->>'output')::numeric, 1000000),
        ('reasoning', coalesce(u.reasoning_tokens, 0), (u.rates->>'reasoning')::numeric, 1000000),
        ${mediaMeters},
        ('gpu-time', coalesce(${gpuTime("upstreamMs")}, 0), (u.rates->>'gpuHour')::numeric, 3600000 * ${gpuTime("slots")})
      ) t(meter, quantity, rate, per)
      UNION ALL
      SELECT CASE u.method WHEN 'refunded' THEN 'refund' ELSE 'spend' END, u.cost, NULL::numeric, u.cost, true
    ) v
    ) w WHERE w.is_rest OR (w.is_priced AND w.rate IS NOT NULL)
  ) x WHERE x.quantity <> 0)`

/** What counts as a request: a gateway call that was sent, or a reservation that was reconciled. */
const isRequest = "u.method NOT IN ('refunded', 'cached') AND (u.method <> 'released' OR u.attempts <> '[]')"

/** The conditions that a filter puts on rows; which tenants there are is up to the statement. */
export const usageConditions = (sql: SqlClient.SqlClient, filter: UsageFilter): ReadonlyArray<Statement.Fragment> =>
  Object.values(usageDimensions).flatMap(({ column, filter: name }) => {
    const value = filter[name]
    return value === undefined ? [] : [sql`u.${sql.literal(column)} = ${value}`]
  })

const mayHaveFailed = "(u.status >= 400 OR u.method IN ('unanswered', 'expired', 'released'))"
/** What the reports count as errors; the first condition is that of an index. */
const hasFailed = `${mayHaveFailed} AND u.method NOT IN ('aborted', 'refunded', 'cached')`

/** The same of a filter on requests. */
const requestConditions = (sql: SqlClient.SqlClient, filter: RequestFilter): ReadonlyArray<Statement.Fragment> => {
  const { failed, minCostUsd, minLatencyMs, status } = filter
  return [
    ...usageConditions(sql, filter),
    ...(status === undefined ? [] : [sql`u.status = ${status}`]),
    ...(status !== undefined && status >= 400 ? [sql.literal(mayHaveFailed)] : []),
    ...(failed === undefined ? [] : [sql.literal(failed ? hasFailed : `(${hasFailed}) IS NOT TRUE`)]),
    ...(minCostUsd === undefined ? [] : [sql`u.cost >= ${minCostUsd}`]),
    ...(minLatencyMs === undefined ? [] : [sql`u.latency_ms >= ${minLatencyMs}`])
  ]
}

/** What is asked of the list of requests. */
export interface RequestsAsked {
  readonly filter: RequestFilter
  readonly range: Range
  readonly after: UsagePlace | undefined
  readonly limit: number
  readonly search: string | undefined
  /** Whether it begins with the oldest. */
  readonly isUp: boolean
}

const between = (sql: SqlClient.SqlClient, { from, to }: Range) =>
  sql`u.occurred_at >= ${new Date(from)} AND u.occurred_at < ${new Date(to)}`

/** Rebuilds an index of a month that is over if it takes more space than it needs; answers its name, if there is one. */
const packMonth = (sql: SqlClient.SqlClient) =>
  SqlSchema.findOne({
    Request: Schema.Void,
    Result: Schema.Struct({ packed: Schema.NullOr(Schema.String) }),
    execute: () => sql`SELECT usage_pack_month() AS packed`
  })(undefined)

export class UsageRepository extends Context.Service<UsageRepository>()("app/insights/UsageRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const idOf = sql.literal(rowId)
    const listed = readRows(ListedRow)
    const kept = readRows(Schema.Struct({ day: Schema.String }))
    const exportedLines = readRows(Lines)
    const detailed = readRows(DetailedRow)
    const places = readRows(WalkedRow)
    const tenants = SqlSchema.findAll({
      Request: Schema.UndefinedOr(Schema.Never),
      Result: Schema.Struct({ id: TenantId }),
      execute: () => sql`SELECT id FROM tenants ORDER BY id`
    })
    const dropMonths = SqlSchema.findOne({
      Request: Schema.Struct({ days: Schema.Int, moment: Schema.UndefinedOr(Schema.DateTimeUtcFromDate) }),
      Result: Schema.Struct({ months: Schema.Array(Schema.String) }),
      execute: ({ days, moment }) =>
        sql`SELECT usage_drop_months(${days}, coalesce(${moment ?? null}::timestamptz, now())) AS months`
    })

    const ofTenant = ({ tenantId }: Pick<UsageFilter, "tenantId">) =>
      tenantId === undefined ? sql`true` : sql`t.id = ${tenantId}`
    const within = ({ after, isUp, range }: Pick<RequestsAsked, "after" | "isUp" | "range">) => {
      const than = sql.literal(isUp ? ">" : "<")
      return [
        sql`u.tenant_id = t.id`,
        sql.literal(isRequest),
        between(sql, range),
        ...(after === undefined
          ? []
          : [
              sql`u.occurred_at ${than}= ${after[0]}::timestamptz`,
              sql`(u.occurred_at, ${idOf}) ${than} (${after[0]}::timestamptz, ${after[1]}::uuid)`
            ])
      ]
    }
    /** Rows of a table or a query `u` in the order of a list. */
    const ordered = (isUp: boolean, id: string = rowId) =>
      sql.literal(`u.occurred_at ${isUp ? "ASC" : "DESC"}, ${id} ${isUp ? "ASC" : "DESC"}`)
    const select = (where: Statement.Fragment, { filter, isUp, limit }: RequestsAsked) => sql`
      SELECT ${sql.literal(listedColumns)} FROM tenants t CROSS JOIN LATERAL (
        SELECT * FROM usage_rows u WHERE ${where} ORDER BY ${ordered(isUp)} LIMIT ${limit}
      ) u
      WHERE ${ofTenant(filter)} ORDER BY ${ordered(isUp)} LIMIT ${limit}`

    /**
     * The rows that meet a condition among the next ones, of which it reads a bounded number, and the last row that it read where
     * there may be more behind it.
     */
    const walk = Effect.fnUntraced(function* (
      asked: RequestsAsked,
      isFound: Statement.Fragment,
      named: Statement.Fragment,
      mostRead: number
    ) {
      const { filter, isUp, limit } = asked
      const order = ordered(isUp, "u.id")
      const until = sql.literal(isUp ? "<=" : ">=")
      const walking = sql`
        WITH named AS MATERIALIZED (${named}), walked AS MATERIALIZED (
          SELECT u.*, s.most FROM named n
          CROSS JOIN (
            SELECT greatest(${limit}, ${mostRead} / greatest(count(*), 1)) AS most FROM tenants t WHERE ${ofTenant(filter)}
          ) s
          CROSS JOIN tenants t CROSS JOIN LATERAL (
            SELECT u.*, row_number() OVER (ORDER BY ${order}) AS nth FROM (
              SELECT u.tenant_id, u.occurred_at, ${idOf} AS id, ${isFound} AS is_found FROM usage_rows u
              WHERE ${sql.and(within(asked))} ORDER BY ${ordered(isUp)} LIMIT s.most
            ) u
          ) u
          WHERE ${ofTenant(filter)}
        ), bound AS (
          SELECT u.occurred_at, u.id FROM walked u WHERE u.nth = u.most ORDER BY ${order} LIMIT 1
        )
        SELECT u.tenant_id, u.occurred_at::text AS place, u.id, coalesce(u.is_found, false) AS is_found,
          coalesce(u.id = b.id, false) AS is_end
        FROM walked u LEFT JOIN bound b ON true
        WHERE (u.is_found OR u.id = b.id)
          AND (b.id IS NULL OR (u.occurred_at, u.id) ${until} (b.occurred_at, b.id))
        ORDER BY ${order} LIMIT ${limit}`.unprepared
      const walked = yield* inIndexOrder(sql, places(walking))
      const found = walked.filter((row) => row.isFound)
      const end = walked.find((row) => row.isEnd)
      const rows = yield* listed(sql`
        SELECT ${sql.literal(listedColumns)}
        FROM unnest(${found.map(({ tenantId }) => tenantId)}::uuid[], ${found.map(({ place }) => place)}::timestamptz[],
          ${found.map(({ id }) => id)}::uuid[]) AS f(tenant_id, occurred_at, id)
        JOIN usage_rows u ON u.tenant_id = f.tenant_id AND u.occurred_at = f.occurred_at AND ${idOf} = f.id
        ORDER BY ${ordered(isUp)}`)
      return { rows, end: found.length < limit && end !== undefined ? ([end.place, end.id] as const) : undefined }
    })

    /** Where the row of a charge or a reservation is: where its entry of the ledger is, or when it was released. */
    const placesOf = (id: string) => sql`
      SELECT e.tenant_id, e.occurred_at, e.counter_ids FROM budget_entries e
      WHERE e.id = ${id} OR e.id = (SELECT r.charge_id FROM budget_reservations r WHERE r.id = ${id})
      UNION ALL SELECT r.tenant_id, r.closed_at, r.counter_ids FROM budget_reservations r
      WHERE r.id = ${id} AND r.state = 'released'`
    const isOf = (id: string) => sql`(u.charge_id = ${id} OR u.reservation_id = ${id})`

    const search = Effect.fnUntraced(function* (given: string, asked: RequestsAsked) {
      const id = given.trim().toLowerCase()
      const conditions = requestConditions(sql, asked.filter)
      if (Schema.is(Uuid)(id)) {
        const where = sql.and([
          ...within(asked),
          ...conditions,
          sql`u.occurred_at = ANY (ARRAY(
          SELECT p.occurred_at FROM (${placesOf(id)}) p))`,
          isOf(id)
        ])
        const rows = yield* listed(select(where, asked))
        if (rows.length > 0) return { rows, end: undefined }
      }
      const pattern = sql`lower(${containing(given.trim())})`
      const isFound = sql.and([
        sql`(lower(concat_ws(' ', u.model, u.model_served, u.provider, u.task_type, u.user_id, u.trace_id)) LIKE ${pattern}
          OR u.agent_id::text = ANY (n.ids) OR u.api_key_id::text = ANY (n.ids) OR u.created_by = ANY (n.names))`,
        ...conditions
      ])
      const named = sql`
        SELECT array_agg(name) AS names, array_agg(substr(name, strpos(name, ':') + 1)) AS ids
        FROM search_principals(${pattern}, ${maxPrincipals}) AS name`
      return yield* walk(asked, isFound, named, maxWalked)
    })

    return {
      /**
       * A part of the requests behind a place; the index has the tenant first, so each tenant is read by itself. What no index
       * finds is looked for among so many rows, the last of which is answered where there may be more behind it.
       */
      list: Effect.fn("UsageRepository.list")(function* (asked: RequestsAsked) {
        const { filter, search: given } = asked
        if (given !== undefined) return yield* search(given, asked)
        const conditions = requestConditions(sql, filter)
        if (filter.minCostUsd !== undefined || filter.minLatencyMs !== undefined) {
          return yield* walk(asked, sql.and(conditions), sql`SELECT`, maxCompared)
        }
        const rows = yield* inIndexOrder(sql, listed(select(sql.and([...within(asked), ...conditions]), asked)))
        return { rows, end: undefined }
      }),
      /** The request of a charge or a reservation, with all that is stored about it. */
      find: Effect.fn("UsageRepository.find")((id: string, filter: UsageFilter) =>
        Effect.map(
          detailed(sql`
            SELECT ${sql.literal(listedColumns)}, u.model_asked, u.dialect, u.cache_write_1h_tokens AS "cacheWrite1hTokens",
              u.upstream_latency_ms, u.saved AS saved_usd, u.catalogue_version, u.metadata, u.tool_uses, u.rates, coalesce(u.attempts, '[]') AS attempts,
              (SELECT coalesce(json_agg(json_build_object('meter', m.meter, 'rate', m.rate::text,
                  'quantity', CASE WHEN m.rate IS NOT NULL THEN m.quantity::text END, 'costUsd', m.billed::text)), '[]')
                FROM ${sql.literal(chargeMeters)} m) AS charges,
              (SELECT coalesce(json_agg(json_build_object('capId', k.id, 'name', k.name, 'unit', k.unit, 'mode', k.mode,
                  'period', k.period) ORDER BY k.name, k.id), '[]')
                FROM budget_counters o JOIN budget_caps k ON k.tenant_id = o.tenant_id AND k.id = o.cap_id
                WHERE o.tenant_id IN (u.tenant_id, all_tenants()) AND o.id = ANY (u.counter_ids)) AS caps,
              (SELECT json_build_object('state', r.state, 'origin', r.origin, 'amountUsd', r.amount::text,
                  'createdAt', r.created_at, 'expiresAt', r.expires_at)
                FROM budget_reservations r WHERE r.tenant_id = u.tenant_id AND r.id = u.reservation_id) AS reservation,
              EXISTS (SELECT FROM gateway_contents g
                WHERE g.tenant_id = u.tenant_id AND g.reservation_id = u.reservation_id) AS has_transcript
            FROM (
              SELECT u.*, p.counter_ids FROM (${placesOf(id)}) p CROSS JOIN LATERAL (
                SELECT * FROM usage_rows u WHERE ${sql.and([
                  sql`u.tenant_id = p.tenant_id AND u.occurred_at = p.occurred_at`,
                  isOf(id),
                  sql.literal(isRequest),
                  ...usageConditions(sql, filter)
                ])}
              ) u LIMIT 1
            ) u WHERE ${filter.tenantId === undefined ? sql`true` : sql`u.tenant_id = ${filter.tenantId}`}`),
          ([row]) => row
        )
      ),
      /** The tenants that an export reads one after the other. */
      exportTenants: Effect.fn("UsageRepository.exportTenants")(({ tenantId }: UsageFilter) =>
        tenantId === undefined
          ? Effect.map(tenants(undefined), (rows) => rows.map(({ id }) => id))
          : Effect.succeed([tenantId])
      ),
      /** Up to `limit` lines of a tenant behind a place, in the order of their times. */
      exportChunk: Effect.fn("UsageRepository.exportChunk")(
        (
          filter: RequestFilter,
          range: Range,
          format: "jsonl" | "csv",
          { id, moment, tenantId }: ExportPlace,
          limit: number
        ) => {
          const conditions = [
            sql`u.tenant_id = ${tenantId}`,
            sql.literal(isRequest),
            between(sql, range),
            ...requestConditions(sql, filter),
            ...(moment === undefined
              ? []
              : [
                  sql`u.occurred_at >= ${moment}::timestamptz`,
                  sql`(u.occurred_at, ${idOf}) > (${moment}::timestamptz, ${id}::uuid)`
                ])
          ]
          // Partitions and their index are in the order of times: nothing but the rows of equal times is to be sorted.
          return sql`SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true)`.pipe(
            Effect.andThen(sql`
              SELECT convert_to(string_agg(l.line, ''), 'UTF8') AS lines, max(l.moment)::text AS last_moment,
                (array_agg(l.id))[count(*)]::text AS last_id
              FROM (
                SELECT ${sql.literal(format === "csv" ? csvLine : jsonLine)} AS line, u.occurred_at AS moment,
                  ${idOf} AS id, (row_number() OVER () - 1) / ${linesTogether}::integer AS place
                FROM (
                  SELECT u.*, ${sql.literal(createdBy)} AS principal FROM usage_rows u WHERE ${sql.and(conditions)}
                  ORDER BY u.occurred_at, ${idOf} LIMIT ${limit}
                ) u
              ) l GROUP BY l.place ORDER BY l.place`),
            exportedLines
          )
        }
      ),
      /**
       * Makes the partitions of so many months from this one on, and of those that so many days ago were in. Writers queue behind
       * it, so it gives up rather than block.
       */
      makePartitions: Effect.fn("UsageRepository.makePartitions")((daysBack: number, months: number) =>
        sql`SET LOCAL lock_timeout = '500ms'`.pipe(
          Effect.andThen(sql`
            SELECT usage_make_partitions(b.first, ${months} + extract(year FROM b.between)::integer * 12
              + extract(month FROM b.between)::integer)
            FROM (SELECT f.first, age(date_trunc('month', now() AT TIME ZONE 'UTC'),
                date_trunc('month', f.first AT TIME ZONE 'UTC')) AS between
              FROM (SELECT now() - ${daysBack}::integer * interval '24 hours' AS first) f) b`),
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
      ),
      /** The first day in UTC whose rows are kept, where the sums of a range have a day whose rows were dropped. */
      keptFrom: Effect.fn("UsageRepository.keptFrom")(
        (filter: Pick<UsageFilter, "tenantId">, { from, to }: Pick<Range, "from" | "to">) =>
          Effect.map(
            kept(sql`
              SELECT m.first::text AS day FROM (
                SELECT min(to_date(right(inhrelid::regclass::text, 7), 'YYYY_MM')) AS first FROM pg_inherits
                WHERE inhparent = 'usage_rows'::regclass AND inhrelid::regclass::text ~ '_[0-9]{4}_[0-9]{2}$'
              ) m
              WHERE EXISTS (
                SELECT FROM tenants t JOIN usage_rollups r ON r.tenant_id = t.id
                WHERE ${ofTenant(filter)} AND r.dimension = 0 AND r.grain = 'd' AND r.day < m.first
                  AND r.day >= (${new Date(from)}::timestamptz AT TIME ZONE 'UTC')::date
                  AND r.day < ${new Date(to)}::timestamptz AT TIME ZONE 'UTC'
                  AND NOT EXISTS (SELECT FROM usage_rows u WHERE u.tenant_id = t.id
                    AND u.occurred_at >= r.day::timestamp AT TIME ZONE 'UTC'
                    AND u.occurred_at < (r.day + 1)::timestamp AT TIME ZONE 'UTC'))`),
            ([row]) => row?.day
          )
      ),
      packMonth: sql`SET LOCAL statement_timeout = '10min'`.pipe(
        Effect.andThen(packMonth(sql)),
        sql.withTransaction,
        Effect.map(({ packed }) => packed),
        Effect.orDie,
        Effect.withSpan("UsageRepository.packMonth")
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
