import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Logger, Option, Schedule } from "effect"
import { HttpServer } from "effect/http"
import * as fs from "node:fs/promises"
import { DatabaseConnection } from "../../src/platform/connection.ts"
import { poolLayer } from "../../src/platform/database.ts"
import { connection, start } from "../../src/platform/embedded-postgres.ts"
import { migrate } from "../../src/platform/migrations.ts"
import { Settings } from "../../src/platform/settings.ts"
import { ServerLayer } from "../../src/server.ts"
import { print, type Row, serviceKey, temporaryDirectory } from "./rates.ts"

const backlog = Number(process.env.BENCH_CHAIN_ENTRIES ?? "300000")
const perSecond = 10_000
const seconds = 10
const writers = 4
const perTransaction = 50

/** Entries as requests write them: of one transaction, by its own id. */
const insert = (sql: PgClient.PgClient, count: number) => sql`
  INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, tenant_id, outcome,
    ip_address, user_agent, trace_id, changes, transaction_id)
  SELECT clock_timestamp(), 'UserUpdated', 'TrialUser', (random() * 5000)::int::text, 'api-key:' || (random() * 200)::int,
    'api-key', '00000000-0000-7000-8000-000000000001'::uuid, 'success', '203.0.113.7', 'bench/1.0', md5(i::text),
    jsonb_build_object('before', jsonb_build_object('id', i, 'firstName', 'Ada', 'isActive', true,
      'createdAt', '2026-01-31T09:30:00.000Z'), 'after', jsonb_build_object('id', i, 'firstName', 'Ada', 'isActive', false,
      'createdAt', '2026-01-31T09:30:00.000Z')), pg_current_xact_id()
  FROM generate_series(1, ${count}::integer) i`

/** Seconds that the oldest entry without a link has waited; 0 when all are linked. */
const behind = (sql: PgClient.PgClient) =>
  Effect.map(
    sql<{ readonly seconds: number }>`
      SELECT coalesce(extract(epoch FROM clock_timestamp() - min(e.occurred_at)), 0)::double precision AS seconds
      FROM audit_chain c, audit_entries e
      WHERE e.transaction_id >= pg_snapshot_xmin(c.linked)
        AND NOT EXISTS (SELECT FROM audit_links l WHERE l.entry_id = e.id AND l.occurred_at = e.occurred_at)`,
    ([row]) => row?.seconds ?? 0
  )

/** Writes at a steady rate beside the service, and answers the longest that an entry waited for its link. */
const steady = Effect.fnUntraced(function* (options: PgClient.PgClientConfig) {
  const worst = { seconds: 0, written: 0 }
  const every = (1000 * writers * perTransaction) / perSecond
  const writer = Effect.flatMap(PgClient.PgClient, (sql) =>
    insert(sql, perTransaction).pipe(
      Effect.andThen(Effect.sync(() => void (worst.written += perTransaction))),
      Effect.repeat(Schedule.fixed(every))
    )
  )
  const watcher = Effect.flatMap(PgClient.PgClient, (sql) =>
    behind(sql).pipe(
      Effect.andThen((waited) => Effect.sync(() => void (worst.seconds = Math.max(worst.seconds, waited)))),
      Effect.repeat(Schedule.spaced("50 millis"))
    )
  )
  yield* Effect.all([...Array.from({ length: writers }, () => writer), watcher], { concurrency: "unbounded" }).pipe(
    Effect.provide(PgClient.layer({ ...options, maxConnections: writers + 1 })),
    Effect.timeoutOption(seconds * 1000)
  )
  return worst
})

const timed = async (work: () => Promise<number>) => {
  const started = performance.now()
  const count = await work()
  return { count, rate: (1000 * count) / (performance.now() - started) }
}

const get = async (url: string) => {
  const response = await fetch(url, { headers: { "x-api-key": serviceKey } })
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
  return response
}

const linesOf = async (response: Response) => {
  let lines = 0
  for await (const chunk of response.body ?? []) for (const byte of chunk) if (byte === 10) lines++
  return lines
}

const rounded = (value: number) => Math.round(value).toLocaleString("en")
const atLeast = (what: string, rate: number, wanted: number): Row => ({
  what,
  measured: `${rounded(rate)} /s`,
  wanted: `wanted ≥ ${rounded(wanted)}`,
  met: rate >= wanted
})

/** How fast the audit log is chained, verified and exported. */
export const benchAuditChain = Effect.gen(function* () {
  const directory = yield* Effect.acquireRelease(
    Effect.promise(() => temporaryDirectory()),
    (path) => Effect.promise(() => fs.rm(path, { recursive: true, force: true }))
  )
  const server = yield* start({ directory })
  const options = connection(server)
  yield* migrate(options)
  const service = yield* Layer.build(
    ServerLayer.pipe(
      Layer.provide(poolLayer({ connection: options, maxConnections: 10, statementTimeoutSeconds: 60 })),
      Layer.provide(Layer.succeed(DatabaseConnection, { options, embeddedIn: Option.some(directory) })),
      Layer.provide(Settings.layerMemory({ environment: { Api__Port: "0", Api__ApiKey: serviceKey } })),
      Layer.provide(Logger.layer([]))
    )
  )
  const url = HttpServer.formatAddress((yield* Effect.provideContext(HttpServer.HttpServer, service)).address)
  const rows: Array<Row> = []

  const load = yield* steady(options)
  rows.push({
    what: `linking behind ${rounded(load.written / seconds)} entries/s`,
    measured: `${rounded(load.seconds * 1000)} ms`,
    wanted: "behind at worst (wanted ≤ 250)",
    met: load.seconds <= 0.25
  })

  const chained = yield* Effect.gen(function* () {
    const sql = yield* PgClient.PgClient
    const head = Effect.map(
      sql<{ readonly sequence: number }>`SELECT sequence::integer AS sequence FROM audit_chain`,
      ([row]) => row?.sequence ?? 0
    )
    const before = yield* head
    yield* insert(sql, backlog)
    const started = performance.now()
    yield* head.pipe(
      Effect.repeat({ until: (sequence) => sequence >= before + backlog, schedule: Schedule.spaced("20 millis") })
    )
    const rate = (1000 * backlog) / (performance.now() - started)
    yield* sql`VACUUM ANALYZE audit_entries`
    yield* sql`VACUUM ANALYZE audit_links`
    return rate
  }).pipe(Effect.provide(PgClient.layer({ ...options, maxConnections: 1 })))
  rows.push(atLeast(`linking a backlog of ${rounded(backlog)}`, chained, perSecond))

  rows.push(
    ...(yield* Effect.promise(async () => {
      const verified = await timed(async () => {
        const answer = await (await get(`${url}/api/audit-logs/verify`)).json()
        if (!answer.ok) throw new Error(JSON.stringify(answer))
        return answer.checked
      })
      const exported = await timed(async () => linesOf(await get(`${url}/api/audit-logs/export`)))
      const filtered = await timed(async () =>
        linesOf(await get(`${url}/api/audit-logs/export?actionType=UserUpdated`))
      )
      const csv = await timed(async () => linesOf(await get(`${url}/api/audit-logs/export?format=csv`)))
      return [
        atLeast("verifying over HTTP", verified.rate, 100_000),
        atLeast("exporting JSON Lines", exported.rate, 50_000),
        atLeast("exporting with a filter", filtered.rate, 50_000),
        atLeast("exporting CSV", csv.rate, 50_000)
      ]
    }))
  )
  print(`The proof of the audit log, ${rounded(backlog + load.written)} entries`, rows)
}).pipe(Effect.scoped)

if (import.meta.main) await Effect.runPromise(benchAuditChain)
