import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { gunzipSync } from "node:zlib"
import { makeTenant } from "../../support/authority.ts"
import { makeDatabase, type TestDatabase } from "../../support/database.ts"
import { writeUsage } from "../../support/insights.ts"
import { bucket, exportTo, type ObjectStorage, startStorage } from "../../support/object-storage.ts"
import { startService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

type Row = Readonly<Record<string, unknown>>

const linesOf = (content: Buffer): ReadonlyArray<Row> =>
  gunzipSync(content)
    .toString("utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line))

const rowsIn = (storage: ObjectStorage): ReadonlyArray<Row> => [...storage.objects.values()].flatMap(linesOf)

const costOf = (rows: ReadonlyArray<Row>) => rows.reduce((sum, { costNanoUsd }) => sum + BigInt(Number(costNanoUsd)), 0n)

const untilExported = (storage: ObjectStorage, rows: number) =>
  eventually(
    Effect.sync(() => rowsIn(storage).length),
    (found) => found >= rows
  )

/** What a database has of its export. */
const stateOf = (database: TestDatabase) =>
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
  ).pipe(Effect.map(([row]) => row))

describe("usage export", () => {
  it.live("puts what a tenant spends, and its refunds, into files of their hour", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const tenantId = yield* makeTenant(database)
      const storage = yield* startStorage
      const service = yield* startService(database, exportTo(storage))
      yield* writeUsage(database, tenantId, [
        { at: "2026-03-01T10:59:59.999Z", cost: 1, model: `a "model"\n é`, attempts: [] },
        { at: "2026-03-01T11:00:00Z", cost: 9_000_000_000_000_001, happened_at: "2026-02-28T23:00:00Z" },
        { at: "2026-03-01T11:30:00Z", cost: -5, method: "refunded" },
        { at: "2026-03-01T11:31:00Z", method: "released", attempts: [] },
        { at: "2026-03-01T11:31:00Z", method: "released", attempts: [{ provider: "openai" }] }
      ])
      yield* untilExported(storage, 4)
      const state = yield* eventually(stateOf(database), (state) => state?.rows === "4")
      assert.deepStrictEqual(state, {
        files: "2",
        rows: "4",
        cost: "8999999999999997".replace("8999999999999997", String(9_000_000_000_000_001n + 1n - 5n)),
        queued: "0",
        open: "0",
        failure: null
      })
      const paths = [...storage.objects.keys()].toSorted()
      assert.match(paths[0] ?? "", new RegExp(`^${bucket}/usage/v1/dt=2026-03-01/hour=10/\\d{12}-[0-9a-f]{8}\\.jsonl\\.gz$`))
      assert.match(paths[1] ?? "", /hour=11/)
      assert.strictEqual(costOf(rowsIn(storage)), 9_000_000_000_000_001n + 1n - 5n)
      const [first] = linesOf(storage.objects.get(paths[0] ?? "") ?? Buffer.of())
      assert.strictEqual(first?.["model"], `a "model"\n é`)
      const listed = yield* service.call("GET", "/api/usage?from=2026-03-01T00:00:00Z&to=2026-03-02T00:00:00Z")
      for (const item of listed.body.items) {
        const row = rowsIn(storage).find(({ id }) => id === item.id)
        for (const [name, value] of Object.entries(item)) {
          if (name !== "costUsd") assert.deepStrictEqual(row?.[name], value, name)
        }
      }
    }).pipe(Effect.scoped)
  )
})
