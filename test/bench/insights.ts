import { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { Reactivity } from "effect/reactivity"
import { execFile } from "node:child_process"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { promisify } from "node:util"
import { connection, join } from "../../src/platform/embedded-postgres/embedded-postgres.ts"
import {
  postgresSeconds,
  print,
  root,
  type Row,
  type Server,
  serviceKey,
  startService,
  temporaryDirectory
} from "./rates.ts"

const sizes = (process.env.BENCH_ROWS ?? "1000000").split(",").map(Number)
const days = 365
const requests = Number(process.env.BENCH_REQUESTS ?? "60")
/** The data directory of an installation that has the rows already and is kept. */
const kept = process.env.BENCH_DATA

const wantedMillis = 50
const wantedExport = 50_000
const wantedBytes = 400
/** What the gateway settles in a second at its full rate. */
const wantedFold = 3_500
/** Three per cent of the time that two processors have for a call where they serve 2,250 a second. */
const wantedFoldMicros = 26
/** About what is settled between two folds at that rate: batches of ten, each of several tenants. */
const batchesTogether = 3000

const run = promisify(execFile)

const dataOf = (directory: string) => kept ?? path.join(directory, ".data")

const onDatabase = <A>(directory: string, statements: (sql: PgClient.PgClient) => Effect.Effect<A, unknown>) =>
  join({ directory: dataOf(directory) }).pipe(
    Effect.flatMap((server) => PgClient.makeClient(connection(server))),
    Effect.flatMap(statements),
    Effect.scoped,
    Effect.provide(Reactivity.layer),
    Effect.orDie,
    Effect.runPromise
  )

const get = async (url: string) => {
  const response = await fetch(url, { headers: { "x-api-key": serviceKey } })
  const text = await response.text()
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`)
  return text
}

const reports = [
  "overview",
  "overview?timeZone=Europe/Berlin",
  "by-agent",
  "by-model",
  "by-user",
  "by-day",
  "by-hour",
  "by-agent?timeZone=Europe/Berlin",
  "by-agent?timeZone=Asia/Kolkata",
  "by-hour?timeZone=Asia/Kolkata"
]

/** The 50th and the 95th percentile of the times that requests take one after the other, in milliseconds. */
const times = async (url: string): Promise<readonly [p50: number, p95: number]> => {
  for (let round = 0; round < 5; round++) await get(url)
  const taken: Array<number> = []
  for (let round = 0; round < requests; round++) {
    const started = performance.now()
    await get(url)
    taken.push(performance.now() - started)
  }
  const sorted = taken.toSorted((one, other) => one - other)
  return [sorted[Math.floor(requests / 2)] ?? 0, sorted[Math.floor(requests * 0.95)] ?? 0]
}

/** The rows a second of an export of the last days, read to its end. */
const exportRate = async (url: string, format: string): Promise<number> => {
  const from = new Date(Date.now() - days * 86_400_000).toISOString()
  const started = performance.now()
  const response = await fetch(`${url}/api/usage/export?format=${format}&from=${from}`, {
    headers: { "x-api-key": serviceKey }
  })
  let lines = 0
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines++
  }
  return lines / ((performance.now() - started) / 1000)
}

/**
 * Folds copies of the rows of the last days as if they were charged now, so many to a batch and so many batches at once;
 * answers the rows a second, and the processor time of PostgreSQL for each in microseconds.
 */
const foldRate = (
  directory: string,
  service: Server,
  together: number,
  atOnce: number
): Promise<{ readonly rate: number; readonly micros: number }> =>
  onDatabase(directory, (sql) =>
    Effect.gen(function* () {
      const [last] = yield* sql<{ readonly rows: number }>`
        WITH copied AS MATERIALIZED (
          SELECT c.*, (row_number() OVER () - 1) / ${together}::integer AS place FROM (
            SELECT * FROM usage_rows ORDER BY occurred_at DESC LIMIT 20000) c
        ), batches AS MATERIALIZED (
          SELECT place, nextval('usage_batches') AS batch FROM (SELECT DISTINCT place FROM copied ORDER BY place) p
        ), written AS (
          INSERT INTO usage_rows (tenant_id, reservation_id, charge_id, agent_id, occurred_at, batch, cost, saved,
            input_tokens, output_tokens, cached_input_tokens, latency_ms, status, method, created_by, user_id, task_type,
            model, provider)
          SELECT tenant_id, new_id(), new_id(), agent_id, now() - interval '10 seconds' + place * interval '250 us', b.batch, cost, saved, input_tokens,
            output_tokens, cached_input_tokens, latency_ms, status, method, created_by, user_id, task_type, model, provider
          FROM copied JOIN batches b USING (place)
          RETURNING batch, tenant_id, occurred_at
        ), queued AS (
          INSERT INTO usage_outbox (batch, tenant_id, occurred_at) SELECT DISTINCT * FROM written
        )
        SELECT count(*)::integer AS rows FROM written`
      const secondsBefore = yield* Effect.promise(() => postgresSeconds(service))
      const started = performance.now()
      let rest = 1
      while (rest > 0) {
        const [found] = yield* sql<{ readonly rest: number }>`
          SELECT usage_fold(${atOnce}), (SELECT count(*)::integer FROM usage_outbox) AS rest`
        rest = found?.rest ?? 0
      }
      const rows = last?.rows ?? 0
      const rate = rows / ((performance.now() - started) / 1000)
      const seconds = (yield* Effect.promise(() => postgresSeconds(service))) - secondsBefore
      return { rate, micros: (seconds * 1e6) / rows }
    })
  )

const bytesPerRow = (directory: string): Promise<number> =>
  onDatabase(directory, (sql) =>
    Effect.map(
      sql<{ readonly bytes: number }>`
        SELECT ((SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('usage_rows'))
          + pg_total_relation_size('usage_rollups'))::double precision / (SELECT count(*) FROM usage_rows) AS bytes`,
      ([row]) => row?.bytes ?? 0
    )
  )

const millis = (value: number) => `${value.toFixed(1)} ms`
const count = (value: number) => Math.round(value).toLocaleString("en")

const generate = async (rows: number, directory: string): Promise<Row> => {
  const started = performance.now()
  await run(
    process.execPath,
    [
      path.join(root, "src/cli/insights-generate.ts"),
      "--rows",
      `${rows}`,
      "--days",
      `${days}`,
      `--Database:Directory=${dataOf(directory)}`
    ],
    { env: { ...process.env, APP_ENVIRONMENT: "Development" } }
  )
  const generated = rows / ((performance.now() - started) / 1000)
  return { what: "generated, with roll-ups", measured: `${count(generated)} rows/s`, wanted: "", met: true }
}

const benchSize = async (rows: number): Promise<ReadonlyArray<Row>> => {
  const directory = await temporaryDirectory()
  const found: Array<Row> = []
  try {
    if (kept === undefined) found.push(await generate(rows, directory))
    const service = await startService(directory, { Database__Directory: dataOf(directory) })
    try {
      const started = performance.now()
      await get(`${service.url}/api/insights/by-user`)
      const first = performance.now() - started
      found.push({ what: "by-user, the first report after a start", measured: millis(first), wanted: "", met: true })
      // The first report would have the time that the service takes to compile what all of them share.
      for (const report of reports) await times(`${service.url}/api/insights/${report}`)
      for (const report of reports) {
        const [p50, p95] = await times(`${service.url}/api/insights/${report}`)
        found.push({
          what: report,
          measured: `p50 ${millis(p50)}, p95 ${millis(p95)}`,
          wanted: `(wanted p95 <= ${wantedMillis} ms)`,
          met: p95 <= wantedMillis
        })
      }
      const [both] = await times(`${service.url}/api/insights/by-day?model=gpt-5&taskType=research`)
      found.push({ what: "by-day of a model and a task type", measured: `p50 ${millis(both)}`, wanted: "", met: true })
      for (const format of ["jsonl", "csv"]) {
        const rate = await exportRate(service.url, format)
        found.push({
          what: `export as ${format}`,
          measured: `${count(rate)} rows/s`,
          wanted: `(wanted >= ${count(wantedExport)})`,
          met: rate >= wantedExport
        })
      }
      const bytes = await bytesPerRow(directory)
      found.push({
        what: "disk, with indexes and roll-ups",
        measured: `${count(bytes)} bytes a row`,
        wanted: `(wanted <= ${wantedBytes})`,
        met: bytes <= wantedBytes
      })
      for (const together of [1, 10]) {
        const { rate } = await foldRate(directory, service, together, 10_000)
        found.push({
          what: `fold, rows of a batch: ${together}`,
          measured: `${count(rate)} rows/s`,
          wanted: `(wanted >= ${count(wantedFold)})`,
          met: rate >= wantedFold
        })
      }
      const { micros } = await foldRate(directory, service, 10, batchesTogether)
      found.push({
        what: "fold at the gateway's full rate",
        measured: `${count(micros)} us of a processor a row`,
        wanted: `(wanted <= ${wantedFoldMicros} us, 3 % of a call)`,
        met: micros <= wantedFoldMicros
      })
    } finally {
      await service.stop()
    }
  } finally {
    await fs.rm(directory, { recursive: true, force: true })
  }
  return found
}

for (const rows of sizes)
  print(`Insights on ${count(rows)} rows of ${days} days, as a system caller`, await benchSize(rows))
