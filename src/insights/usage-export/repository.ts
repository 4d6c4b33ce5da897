import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { readRows } from "../../platform/database/table.ts"
import { type ColumnName, columns } from "./domain.ts"

const Count = Schema.Int
/** A `numeric` without decimals, or a `bigint`. */
const Whole = Schema.BigIntFromString

const StoredFile = Schema.Struct({
  number: Whole,
  hour: Schema.String,
  digest: Schema.String,
  rows: Count,
  costNanoUsd: Whole,
  counts: Schema.Array(Count)
})

/** Some lines of a file in UTF-8, how many, and what their rows cost. */
const Lines = Schema.Struct({ lines: Schema.Uint8Array, rows: Count, costNanoUsd: Whole })

const Backlog = Schema.Struct({
  /** How long the oldest row has waited since it was folded; 0 where none waits. */
  waitingSeconds: Schema.Finite,
  /** Rows in files that are not uploaded yet. */
  rows: Count,
  hasHistory: Schema.Boolean,
  failures: Count,
  failure: Schema.NullOr(Schema.String),
  files: Whole,
  uploadedRows: Whole,
  uploadedNanoUsd: Whole
})
export type Backlog = typeof Backlog.Type

const utc = (column: string) => `to_char(u.${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
const rowName = "coalesce(u.charge_id, u.reservation_id)"
/** A call that was released before it was sent is no usage. */
const isUsage = "(u.method <> 'released' OR u.attempts <> '[]')"

/** The columns, each with its expression of a row `u` of an element of a file. */
const expressions: Readonly<Record<ColumnName, string>> = {
  // What the gateway's cache answered has no id; all of its columns are equal where its place is another one.
  rowId: `concat(u.batch, '-', coalesce(${rowName}::text, concat(u.tenant_id, '-', row_number() OVER (
    PARTITION BY u.place ORDER BY CASE WHEN ${rowName} IS NULL THEN u::text END))))`,
  kind: "CASE u.method WHEN 'refunded' THEN 'refund' WHEN 'cached' THEN 'cached' ELSE 'request' END",
  id: rowName,
  tenantId: "u.tenant_id",
  occurredAt: utc("occurred_at"),
  costNanoUsd: "u.cost",
  savedNanoUsd: "u.saved",
  agentId: "u.agent_id",
  planId: "u.plan_id",
  applicationId: "u.application_id",
  apiKeyId: "u.api_key_id",
  userId: "u.user_id",
  taskType: "u.task_type",
  model: "u.model",
  modelAsked: "u.model_asked",
  modelServed: "u.model_served",
  provider: "u.provider",
  operation: "u.operation",
  dialect: "u.dialect",
  inputTokens: "u.input_tokens",
  outputTokens: "u.output_tokens",
  cachedInputTokens: "u.cached_input_tokens",
  cacheWriteTokens: "u.cache_write_tokens",
  cacheWrite1hTokens: "u.cache_write_1h_tokens",
  reasoningTokens: "u.reasoning_tokens",
  method: "u.method",
  status: "u.status",
  latencyMs: "u.latency_ms",
  upstreamLatencyMs: "u.upstream_latency_ms",
  timeToFirstTokenMs: "u.time_to_first_token_ms",
  late: "u.late",
  reservationId: "u.reservation_id",
  createdBy: `CASE u.created_by WHEN 'agent' THEN 'agent:' || u.agent_id WHEN 'api-key' THEN 'api-key:' || u.api_key_id
    ELSE u.created_by END`,
  servedTier: "u.price_terms->>'tier'",
  priceTerms: "u.price_terms",
  toolUses: "u.tool_uses",
  metadata: "u.metadata",
  catalogueVersion: "u.catalogue_version",
  traceId: "u.trace_id",
  synthetic: "u.synthetic",
  eventTime: utc("happened_at"),
  error: "u.error"
}
const selected = columns.map(({ name }) => `${expressions[name]} AS "${name}"`).join(", ")

/** A message of the database has so many lines, as those of an export over HTTP. */
const linesTogether = 50
/** Rows that are uploaded in a second on a slow line. */
const rowsASecond = 1000
/** What callers and providers put into a row may compress badly, and a file is kept in memory: so much of it counts as a row. */
const bytesOfRow = 1024
/** The elements of the queue that become files in one step. */
const elementsAtOnce = 20_000

/** The export's queue and files; it sees the rows of all tenants. */
export class UsageExportRepository extends Context.Service<UsageExportRepository>()(
  "app/insights/UsageExportRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const files = readRows(StoredFile)
      const content = readRows(Lines)
      const backlogs = readRows(Backlog)
      const due = readRows(Schema.Struct({ isDue: Schema.Boolean, isFull: Schema.Boolean }))
      const leads = readRows(Schema.Struct({ leads: Schema.Boolean }))
      const history = readRows(Schema.Struct({ hour: Schema.NullOr(Schema.String) }))

      // Elements of rows booked before the start wait until no hour of the history can have them too.
      const isReady = sql`(k.is_history OR k.batch > (SELECT first_batch FROM usage_export)
        OR (SELECT history_from FROM usage_export) IS NULL)`
      /** The rows \`u\` of elements \`t\`: many elements may have one moment, whose rows are read once. */
      const rowsOf = (elements: string) =>
        sql.literal(`(${elements}) t JOIN (
          SELECT u.* FROM (SELECT DISTINCT d.tenant_id, d.occurred_at FROM (${elements}) d) m
          CROSS JOIN LATERAL (
            SELECT *, coalesce(pg_column_size(metadata), 0) + coalesce(pg_column_size(error), 0) AS bytes
            FROM usage_rows u WHERE u.tenant_id = m.tenant_id AND u.occurred_at = m.occurred_at AND ${isUsage} OFFSET 0
          ) u
        ) u ON u.batch = t.batch AND u.tenant_id = t.tenant_id AND u.occurred_at = t.occurred_at`)
      const next = sql`SELECT k.ctid, k.queued_at FROM usage_export_queue k WHERE ${isReady}
        ORDER BY k.batch, k.tenant_id, k.occurred_at LIMIT ${elementsAtOnce}`

      return {
        /** The time of the database. */
        now: Effect.map(
          readRows(Schema.Struct({ now: Schema.String }))(sql`SELECT clock_timestamp()::text AS now`),
          ([row]) => row?.now ?? "-infinity"
        ),
        /** Starts the export where there is none, unless one was ended since this replica began. */
        start: Effect.fn("UsageExportRepository.start")((replicaBegan: string) =>
          Effect.orDie(Effect.asVoid(sql`SELECT usage_export_start(${replicaBegan}::timestamptz)`))
        ),
        /**
         * Ends an export that was started before this replica began, and drops what waits for it; no fold is under way meanwhile.
         * Whether there was one. Replicas that began before start none.
         */
        stop: Effect.fn("UsageExportRepository.stop")(function* (replicaBegan: string) {
          yield* sql`SELECT pg_advisory_xact_lock(hashtext('usage-fold'))`
          yield* sql`
            INSERT INTO installation AS i (name, value, created_at)
            VALUES ('usage-export-ended', 'true', ${replicaBegan}::timestamptz)
            ON CONFLICT (name) DO UPDATE SET created_at = greatest(i.created_at, EXCLUDED.created_at)`
          const ended =
            yield* sql`DELETE FROM usage_export WHERE started_at <= ${replicaBegan}::timestamptz RETURNING 1`
          if (ended.length === 0) return false
          yield* sql`DELETE FROM usage_export_queue`
          yield* sql`DELETE FROM usage_export_files`
          return true
        }, Effect.orDie),
        /** Whether this transaction is the one that decides files; the others leave it to that. */
        lead: leads(sql`
          SELECT pg_try_advisory_xact_lock(hashtext('usage-export')) AS leads, set_config('statement_timeout', '10min', true),
            -- The planner takes the elements for few, and would compare each with all rows.
            set_config('enable_nestloop', 'off', true)`).pipe(Effect.map(([row]) => row?.leads === true)),
        /** Queues the rows of the next hour that has some from before the start; whether there may be more. */
        queueHistory: Effect.gen(function* () {
          // A statement of its own: one that names the rows waits while their partitions change.
          const [begun] = yield* sql`SELECT FROM usage_export WHERE history_from IS NOT NULL`
          if (begun === undefined) return false
          const [found] = yield* history(sql`
            SELECT (SELECT date_trunc('hour', min(u.occurred_at), 'UTC')::text FROM tenants t CROSS JOIN LATERAL (
              SELECT r.occurred_at FROM usage_rows r WHERE r.tenant_id = t.id AND r.occurred_at >= e.history_from
                -- What is booked from then on is no history; only a clock that was ahead has put some there.
                AND (r.occurred_at < e.started_at + interval '1 day' OR r.batch <= e.first_batch)
              ORDER BY r.occurred_at LIMIT 1
            ) u) AS hour
            FROM usage_export e`)
          const hour = found?.hour ?? null
          if (hour !== null) {
            yield* sql`
              INSERT INTO usage_export_queue (batch, tenant_id, occurred_at, is_history)
              SELECT DISTINCT u.batch, u.tenant_id, u.occurred_at, true FROM usage_rows u, usage_export e
              WHERE u.occurred_at >= ${hour}::timestamptz AND u.occurred_at < ${hour}::timestamptz + interval '1 hour'
                AND u.batch <= e.first_batch AND NOT EXISTS (SELECT FROM usage_outbox o
                  WHERE o.batch = u.batch AND o.tenant_id = u.tenant_id AND o.occurred_at = u.occurred_at)
              ON CONFLICT DO NOTHING`
          }
          yield* sql`UPDATE usage_export SET history_from = ${hour}::timestamptz + interval '1 hour'`
          return hour !== null
        }).pipe(Effect.orDie, Effect.withSpan("UsageExportRepository.queueHistory")),
        /** Whether elements have waited for so long, or make a whole step. */
        due: Effect.fn("UsageExportRepository.due")((everySeconds: number) =>
          Effect.map(
            due(sql`
              SELECT coalesce(min(k.queued_at) <= now() - ${everySeconds}::integer * interval '1 second', false) OR
                count(*) = ${elementsAtOnce} AS is_due, count(*) = ${elementsAtOnce} AS is_full FROM (${next}) k`),
            ([row]) => row ?? { isDue: false, isFull: false }
          )
        ),
        /** Makes files of the oldest elements, each of one hour and about so many rows; large rows count several times. */
        decide: Effect.fn("UsageExportRepository.decide")((maxRows: number) =>
          sql`
            WITH taken AS (
              DELETE FROM usage_export_queue q
              WHERE q.ctid = ANY (ARRAY(SELECT k.ctid FROM (${next}) k))
              RETURNING q.*
            ), counted AS (
              SELECT t.batch, t.tenant_id, t.occurred_at, t.queued_at, date_trunc('hour', t.occurred_at, 'UTC') AS hour,
                count(*) AS rows, sum(u.cost) AS cost,
                count(*) + div(sum(u.bytes), ${bytesOfRow}::integer) AS weight
              FROM ${rowsOf("SELECT * FROM taken")}
              GROUP BY t.batch, t.tenant_id, t.occurred_at, t.queued_at
            ), placed AS (
              SELECT c.*, div(sum(c.weight) OVER (PARTITION BY c.hour ORDER BY c.batch, c.tenant_id, c.occurred_at) - c.weight,
                ${maxRows}::integer) AS part FROM counted c
            )
            INSERT INTO usage_export_files (hour, batches, tenants, moments, counts, digest, rows, cost_nano_usd,
              queued_at)
            SELECT p.hour, array_agg(p.batch ORDER BY p.batch, p.tenant_id, p.occurred_at),
              array_agg(p.tenant_id ORDER BY p.batch, p.tenant_id, p.occurred_at),
              array_agg(p.occurred_at ORDER BY p.batch, p.tenant_id, p.occurred_at),
              array_agg(p.rows::integer ORDER BY p.batch, p.tenant_id, p.occurred_at),
              left(md5(string_agg(concat(p.batch, p.tenant_id, extract(epoch FROM p.occurred_at), p.rows, p.cost), ','
                ORDER BY p.batch, p.tenant_id, p.occurred_at)), 8),
              sum(p.rows), sum(p.cost), min(p.queued_at)
            FROM placed p GROUP BY p.hour, p.part ORDER BY p.hour, p.part`.pipe(Effect.asVoid, Effect.orDie)
        ),
        /** Takes a file that no other replica has had for so long, unless uploads pause. */
        claim: Effect.fn("UsageExportRepository.claim")((seconds: number) =>
          Effect.map(
            files(sql`
              UPDATE usage_export_files f SET claimed_until = clock_timestamp()
                + (${seconds}::integer + f.rows / ${rowsASecond}) * interval '1 second'
              WHERE f.number = (
                SELECT k.number FROM usage_export_files k, usage_export e
                -- After a clock that was ahead, what it noted lies far in the future.
                WHERE (k.claimed_until < clock_timestamp() OR k.claimed_until > clock_timestamp() + interval '1 day')
                  AND (e.retry_at < clock_timestamp() OR e.retry_at > clock_timestamp() + interval '1 hour')
                ORDER BY k.claimed_until, k.number LIMIT 1 FOR UPDATE OF k SKIP LOCKED)
              RETURNING f.number::text, to_char(f.hour AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24') AS hour, f.digest,
                f.rows::integer, f.cost_nano_usd::text, f.counts`),
            ([file]) => file
          )
        ),
        /** The lines of the parts of a file between two places; none where it was uploaded by another replica. */
        lines: Effect.fn("UsageExportRepository.lines")((number: bigint, first: number, last: number) =>
          content(
            sql`
            SELECT convert_to(string_agg(l.line, '' ORDER BY l.nth), 'UTF8') AS lines, count(*)::integer AS rows,
              sum(l.cost)::text AS cost_nano_usd
            FROM (
              SELECT to_json(l)::text || E'\n' AS line, c.cost, row_number() OVER (ORDER BY c.place, c."rowId" COLLATE "C") AS nth
              FROM (
                SELECT u.cost, u.place, ${sql.literal(selected)} FROM (
                  SELECT t.place, u.* FROM ${rowsOf(`
                    SELECT e.* FROM usage_export_files f CROSS JOIN LATERAL unnest(f.batches[${first}:${last}],
                      f.tenants[${first}:${last}], f.moments[${first}:${last}])
                      WITH ORDINALITY AS e(batch, tenant_id, occurred_at, place) WHERE f.number = ${number}`)}
                ) u
              ) c CROSS JOIN LATERAL (SELECT ${sql.literal(columns.map(({ name }) => `c."${name}"`).join(", "))}) l
            ) l GROUP BY (l.nth - 1) / ${linesTogether}::integer ORDER BY min(l.nth)`.unprepared
          )
        ),
        /** Whether a file is still to be uploaded. */
        isOpen: Effect.fn("UsageExportRepository.isOpen")((number: bigint) =>
          Effect.map(
            Effect.orDie(sql`SELECT FROM usage_export_files WHERE number = ${String(number)}::bigint`),
            (rows) => rows.length > 0
          )
        ),
        /** Notes that a file is uploaded; the second time nothing. */
        finish: Effect.fn("UsageExportRepository.finish")((number: bigint) =>
          sql`
            WITH finished AS (
              DELETE FROM usage_export_files WHERE number = ${String(number)}::bigint RETURNING rows, cost_nano_usd
            )
            UPDATE usage_export e SET files = e.files + 1, rows = e.rows + f.rows,
              cost_nano_usd = e.cost_nano_usd + f.cost_nano_usd, failures = 0, failure = NULL, retry_at = '-infinity'
            FROM finished f`.pipe(Effect.asVoid, Effect.orDie)
        ),
        /** Notes that the upload of a file failed, and gives the claim back, behind other files; answers how often in a row. */
        fail: Effect.fn("UsageExportRepository.fail")((number: bigint, failure: string) =>
          Effect.map(
            readRows(Schema.Struct({ failures: Count }))(sql`
              WITH failed AS (
                UPDATE usage_export_files SET claimed_until = clock_timestamp() WHERE number = ${String(number)}::bigint RETURNING 1
              )
              UPDATE usage_export e SET failures = e.failures + 1, failure = ${failure} WHERE EXISTS (SELECT FROM failed)
              RETURNING e.failures`),
            ([row]) => row?.failures
          )
        ),
        pause: Effect.fn("UsageExportRepository.pause")((seconds: number) =>
          sql`UPDATE usage_export SET retry_at = clock_timestamp() + ${seconds}::integer * interval '1 second'`.pipe(
            Effect.asVoid,
            Effect.orDie
          )
        ),
        /** What waits and what is uploaded; undefined where there is no export. */
        backlog: Effect.map(
          backlogs(sql`
            SELECT greatest(coalesce(extract(epoch FROM clock_timestamp() - least(f.queued_at, q.queued_at)), 0), 0)
                ::double precision AS waiting_seconds,
              coalesce(f.rows, 0)::integer AS rows, e.history_from IS NOT NULL AS has_history, e.failures, e.failure,
              e.files::text, e.rows::text AS uploaded_rows, e.cost_nano_usd::text AS uploaded_nano_usd
            FROM usage_export e
            CROSS JOIN (SELECT min(queued_at) AS queued_at, sum(rows) AS rows FROM usage_export_files) f
            CROSS JOIN (SELECT min(k.queued_at) AS queued_at FROM (
              SELECT queued_at FROM usage_export_queue ORDER BY batch, tenant_id, occurred_at LIMIT 100) k) q`),
          ([row]) => row
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
