import { PgClient } from "@effect/sql-pg"
import { Effect, Schedule } from "effect"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { superuserIn } from "../support/service-process.ts"
import { median, print, type Row, serviceKey, startService, temporaryDirectory } from "./rates.ts"

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

const rounds = 3

/** How many a second, the median of some rounds; the first of a process is slower than those after it. */
const rateOf = async (work: () => Promise<number>) => {
  const rates: Array<number> = []
  for (let round = 0; round < rounds; round++) {
    const started = performance.now()
    const count = await work()
    rates.push((1000 * count) / (performance.now() - started))
  }
  return median(rates)
}

const get = async (url: string) => {
  const response = await fetch(url, { headers: { "x-api-key": serviceKey } })
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
  return response
}

const linesOf = async (response: Response) => {
  let lines = 0
  for await (const chunk of response.body ?? []) {
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++
  }
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
  const { url } = yield* Effect.acquireRelease(
    Effect.promise(() => startService(directory)),
    (service) => Effect.promise(() => service.stop())
  )
  const options = yield* superuserIn(path.join(directory, ".data"))
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
      const verified = await rateOf(async () => {
        const answer = await (await get(`${url}/api/audit-logs/verify`)).json()
        if (!answer.ok) throw new Error(JSON.stringify(answer))
        return answer.checked
      })
      const exported = (query: string) => rateOf(async () => linesOf(await get(`${url}/api/audit-logs/export${query}`)))
      return [
        atLeast("verifying over HTTP", verified, 100_000),
        atLeast("exporting JSON Lines", await exported(""), 50_000),
        atLeast("exporting with a filter", await exported("?actionType=UserUpdated"), 50_000),
        atLeast("exporting CSV", await exported("?format=csv"), 50_000)
      ]
    }))
  )
  print(`The proof of the audit log, ${rounded(backlog + load.written)} entries`, rows)
}).pipe(Effect.scoped)

if (import.meta.main) await Effect.runPromise(benchAuditChain)
