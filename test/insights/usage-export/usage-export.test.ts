import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { makeTenant } from "../../support/authority.ts"
import { copyOf, makeDatabase, type TestDatabase } from "../../support/database.ts"
import { foldAll, type MadeUsage, writeUsage } from "../../support/insights.ts"
import { bucket, exportTo, startStorage } from "../../support/object-storage.ts"
import { makeSetting } from "../../support/plans.ts"
import { startService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { bookedIn, costOf, exportState, linesOf, rowsIn, untilExported } from "../../support/usage-export.ts"
import { eventually } from "../../support/waiting.ts"

const at = (minute: number) => new Date(Date.UTC(2026, 2, 1, 10, minute)).toISOString()

const rowsOf = (count: number, first = 0): ReadonlyArray<MadeUsage> =>
  Array.from({ length: count }, (_, index) => ({ at: at(first + index), cost: index + 1, model: "m" }))

/** Writes rows in an open transaction, and runs `meanwhile` before it ends. */
const whileOpen = <A>(database: TestDatabase, tenantId: string, cost: number, meanwhile: Effect.Effect<A>) =>
  asSuperuser(database, (sql) =>
    sql.withTransaction(
      Effect.andThen(
        sql`
          WITH made AS (
            INSERT INTO usage_rows (tenant_id, charge_id, reservation_id, occurred_at, batch, cost, method, created_by)
            SELECT ${tenantId}::uuid, new_id(), new_id(), '2026-03-01T10:00:00Z', nextval('usage_batches'), ${cost}::bigint,
              'reported', 'test' RETURNING batch, tenant_id, occurred_at
          ) INSERT INTO usage_outbox (batch, tenant_id, occurred_at) SELECT batch, tenant_id, occurred_at FROM made`,
        meanwhile
      )
    )
  )

const ahead = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()

describe("the export of usage", () => {
  it.live("puts rows into files of their hour, with the members that /api/usage has", () =>
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
      const rows = yield* untilExported(database, storage, 4)
      assert.strictEqual(costOf(rows), 9_000_000_000_000_001n + 1n - 5n)
      const [first = "", second] = [...storage.objects.keys()].toSorted()
      assert.match(first, new RegExp(`^${bucket}/usage/v1/dt=2026-03-01/hour=10/\\d{12}-[0-9a-f]{8}\\.jsonl\\.gz$`))
      assert.match(second ?? "", /hour=11/)
      assert.strictEqual(linesOf(storage.objects.get(first))[0]?.["model"], `a "model"\n é`)
      assert.deepStrictEqual(rows.map(({ kind }) => kind).toSorted(), ["refund", "request", "request", "request"])
      const listed = yield* service.call("GET", "/api/usage?from=2026-03-01T00:00:00Z&to=2026-03-02T00:00:00Z")
      assert.lengthOf(listed.body.items, 3)
      for (const { costUsd: _, ...item } of listed.body.items) {
        const row = rows.find(({ id }) => id === item.id)
        for (const [name, value] of Object.entries(item)) assert.deepStrictEqual(row?.[name], value, name)
      }
    }).pipe(Effect.scoped)
  )

  it.live("has what the ledger has: charges, refunds, late charges", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const storage = yield* startStorage
      const service = yield* startService(database, exportTo(storage))
      const { call } = yield* makeSetting(service, [{ limit: 1000 }])
      for (const actualUsd of [0.75, 0.000000001, 0]) {
        const reserved = yield* call("POST", "/api/spend/reserve", { amountUsd: 1, model: "m" })
        const reservationId = reserved.body.id
        const settled = yield* call("POST", "/api/spend/reconcile", { reservationId, actualUsd })
        assert.strictEqual(settled.status, 200, settled.text)
        if (actualUsd !== 0.75) continue
        for (const amountUsd of [0.25, 0.125]) {
          const refunded = yield* service.call("POST", "/api/spend/refunds", {
            body: { chargeId: settled.body.charge.id, amountUsd, reason: "A test" }
          })
          assert.strictEqual(refunded.status, 201, refunded.text)
        }
      }
      const { cost, rows } = yield* bookedIn(database)
      assert.strictEqual(cost, "375000001")
      const exported = yield* untilExported(database, storage, Number(rows))
      assert.strictEqual(String(costOf(exported)), cost)
    }).pipe(Effect.scoped)
  )

  it.live("has what was booked before it began once: folded, in the outbox, and not committed yet", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const tenantId = yield* makeTenant(database)
      const storage = yield* startStorage
      yield* writeUsage(database, tenantId, [...rowsOf(150), { at: "2025-12-31T23:59:59.999Z", cost: 7 }])
      yield* whileOpen(
        database,
        tenantId,
        1000,
        whileOpen(
          database,
          tenantId,
          2000,
          Effect.gen(function* () {
            yield* startService(database, exportTo(storage))
            yield* eventually(exportState(database), (state) => state?.rows === "151" && state.open === "0")
          }).pipe(Effect.scoped, Effect.orDie)
        )
      )
      yield* startService(database, exportTo(storage))
      yield* writeUsage(database, tenantId, rowsOf(3))
      yield* untilExported(database, storage, 156)
    }).pipe(Effect.scoped)
  )

  it.live("a transaction that commits behind later ones gets a file of its own, and others stay as they are", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const tenantId = yield* makeTenant(database)
      const storage = yield* startStorage
      yield* startService(database, exportTo(storage))
      yield* whileOpen(
        database,
        tenantId,
        77,
        Effect.andThen(writeUsage(database, tenantId, rowsOf(5)), untilExported(database, storage, 5))
      )
      const before = new Map(storage.objects)
      yield* untilExported(database, storage, 6)
      assert.strictEqual(storage.objects.size, before.size + 1)
      for (const [path, content] of before) assert.deepStrictEqual(storage.objects.get(path), content)
    }).pipe(Effect.scoped)
  )

  it.live("takes what a rebuilt day had in the outbox", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const tenantId = yield* makeTenant(database)
      const storage = yield* startStorage
      yield* startService(database, exportTo(storage))
      yield* eventually(exportState(database), (state) => state !== undefined)
      yield* asSuperuser(database, (sql) =>
        sql.withTransaction(
          Effect.andThen(
            // The service folds nothing before this ends.
            sql`SELECT pg_advisory_xact_lock(hashtext('usage-fold'))`,
            Effect.andThen(
              sql`
                WITH made AS (
                  INSERT INTO usage_rows (tenant_id, charge_id, occurred_at, batch, cost, method, created_by)
                  SELECT ${tenantId}::uuid, new_id(), '2026-03-01T10:00:00Z', nextval('usage_batches'), i, 'reported', 'test'
                  FROM generate_series(1, 10) i RETURNING batch, tenant_id, occurred_at
                ) INSERT INTO usage_outbox (batch, tenant_id, occurred_at) SELECT batch, tenant_id, occurred_at FROM made`,
              sql`SELECT usage_rebuild('2026-03-01')`
            )
          )
        )
      )
      yield* untilExported(database, storage, 10)
    }).pipe(Effect.scoped)
  )

  it.live("begins another file at so many rows, and gives the answers of a cache rows of their own", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const tenantId = yield* makeTenant(database)
      const storage = yield* startStorage
      yield* writeUsage(database, tenantId, rowsOf(25))
      yield* asSuperuser(database, (sql) =>
        Effect.andThen(
          sql`SELECT usage_cached((SELECT json_agg(json_build_object('tenant_id', ${tenantId}::text, 'saved', 3, 'model', 'm'))
            FROM generate_series(1, 4)))`,
          sql`UPDATE usage_outbox SET written_at = now()`
        )
      )
      yield* foldAll(database)
      yield* startService(database, { ...exportTo(storage), Usage__Export__MaxRows: "10" })
      const rows = yield* untilExported(database, storage, 29)
      const cached = rows.filter(({ kind }) => kind === "cached")
      assert.deepStrictEqual(
        cached.map(({ costNanoUsd, id, savedNanoUsd }) => [id, costNanoUsd, savedNanoUsd]),
        Array.from({ length: 4 }, () => [null, 0, 3])
      )
      const sizes = [...storage.objects]
        .filter(([path]) => path.includes("dt=2026-03-01"))
        .map(([, body]) => linesOf(body).length)
      assert.deepStrictEqual(
        sizes.toSorted((a, b) => a - b),
        [5, 10, 10]
      )
    }).pipe(Effect.scoped)
  )

  it.live.each(["metadata", "error"])("counts rows with much %s several times", (column) =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const tenantId = yield* makeTenant(database)
      const storage = yield* startStorage
      yield* writeUsage(database, tenantId, rowsOf(10))
      // Hexadecimal digits that differ compress to no less than a half.
      yield* asSuperuser(
        database,
        (sql) => sql`
          UPDATE usage_rows SET ${sql(column)} =
            (SELECT jsonb_build_object('text', string_agg(md5(cost || ' ' || i), '')) FROM generate_series(1, 200) i)
          WHERE cost > 5`
      )
      yield* startService(database, { ...exportTo(storage), Usage__Export__MaxRows: "4" })
      yield* untilExported(database, storage, 10)
      const sizes = [...storage.objects].toSorted(([one], [two]) => (one < two ? -1 : 1))
      assert.deepStrictEqual(
        sizes.map(([, body]) => linesOf(body).length),
        [4, 2, 1, 1, 1, 1]
      )
    }).pipe(Effect.scoped)
  )

  it.live("has what a clock that was ahead had booked before it began", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const tenantId = yield* makeTenant(database)
      const storage = yield* startStorage
      yield* writeUsage(database, tenantId, [
        { at: at(0), cost: 1 },
        { at: ahead(0.9), cost: 2 },
        { at: ahead(3), cost: 3 },
        { at: ahead(9), cost: 4 }
      ])
      yield* startService(database, exportTo(storage))
      yield* untilExported(database, storage, 4)
      yield* writeUsage(database, tenantId, [{ at: ahead(12), cost: 5 }])
      yield* untilExported(database, storage, 5)
    }).pipe(Effect.scoped)
  )

  it.live("a restored database, whose numbers come again, overwrites nothing", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const tenantId = yield* makeTenant(database)
      const storage = yield* startStorage
      yield* Effect.scoped(
        Effect.andThen(
          startService(database, exportTo(storage)),
          eventually(exportState(database), (state) => state !== undefined)
        )
      )
      const restored = yield* copyOf(database)
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* startService(database, exportTo(storage))
          yield* writeUsage(database, tenantId, rowsOf(1))
          yield* untilExported(database, storage, 1)
        })
      )
      const [[path, content] = assert.fail("no file")] = storage.objects
      yield* startService(restored, exportTo(storage))
      yield* writeUsage(restored, tenantId, [{ at: at(0), cost: 2 }])
      yield* eventually(
        Effect.sync(() => storage.objects.size),
        (size) => size === 2
      )
      assert.deepStrictEqual(storage.objects.get(path), content)
      assert.lengthOf(rowsIn(storage), 2)
    }).pipe(Effect.scoped)
  )
})
