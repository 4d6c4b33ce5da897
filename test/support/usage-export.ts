import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { gunzipSync } from "node:zlib"
import { type TestDatabase } from "./database.ts"
import { type ObjectStorage } from "./object-storage.ts"
import { asSuperuser } from "./statements.ts"
import { eventually } from "./waiting.ts"

export type ExportedRow = Readonly<Record<string, unknown>>

export const linesOf = (content: Buffer = Buffer.of()): ReadonlyArray<ExportedRow> =>
  gunzipSync(content)
    .toString("utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line))

/** The rows of all files; no file has one of another. */
export const rowsIn = (storage: ObjectStorage): ReadonlyArray<ExportedRow> => {
  const rows = [...storage.objects.values()].flatMap(linesOf)
  assert.strictEqual(new Set(rows.map(({ rowId }) => rowId)).size, rows.length, "a row is exported twice")
  return rows
}

export const costOf = (rows: ReadonlyArray<ExportedRow>) =>
  rows.reduce((sum, { costNanoUsd }) => sum + BigInt(Number(costNanoUsd)), 0n)

/** What a database has of its export. */
export const exportState = (database: TestDatabase) =>
  asSuperuser(
    database,
    (sql) => sql<{
      readonly files: string
      readonly rows: string
      readonly cost: string
      readonly queued: string
      readonly open: string
      readonly failure: string | null
    }>`
      SELECT e.files::text, e.rows::text, e.cost_nano_usd::text AS cost, e.failure,
        (SELECT count(*)::text FROM usage_export_queue) AS queued, (SELECT count(*)::text FROM usage_export_files) AS open
      FROM usage_export e`
  ).pipe(Effect.map(([state]) => state))

/** Waits until so many rows are exported, and none waits: what the service has counted is what the storage has. */
export const untilExported = Effect.fnUntraced(function* (
  database: TestDatabase,
  storage: ObjectStorage,
  rows: number
) {
  const state = yield* eventually(
    exportState(database),
    (found) => found?.rows === String(rows) && found.queued === "0" && found.open === "0"
  )
  const found = rowsIn(storage)
  assert.strictEqual(found.length, rows)
  assert.strictEqual(String(costOf(found)), state?.cost)
  assert.strictEqual(String(storage.objects.size), state?.files)
  return found
})

/** Ends the pause after failures. */
export const retryNow = (database: TestDatabase) =>
  asSuperuser(database, (sql) => sql`UPDATE usage_export SET retry_at = '-infinity'`)

/** Lets others take at once what a dead process had taken, and ends the pause after failures. */
export const forgiveClaims = (database: TestDatabase) =>
  Effect.andThen(
    asSuperuser(database, (sql) => sql`UPDATE usage_export_files SET claimed_until = '-infinity'`),
    retryNow(database)
  )

/** The usage that is booked, as the ledger has it: rows and nano-dollars. */
export const bookedIn = (database: TestDatabase) =>
  asSuperuser(
    database,
    (sql) => sql<{ readonly rows: string; readonly cost: string }>`
      SELECT count(*)::text AS rows, coalesce(sum(amount), 0)::text AS cost FROM budget_entries
      WHERE kind IN ('charge', 'refund')`
  ).pipe(Effect.map(([row]) => row ?? assert.fail("no sums")))
