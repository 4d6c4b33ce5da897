import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeTenant } from "../../support/authority.ts"
import { writeUsage } from "../../support/insights.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

const whole = 9

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the parts of roll-ups", (it) => {
  const setting = Effect.gen(function* () {
    const { call, database } = yield* TestService
    const tenantId = yield* makeTenant(database)
    return {
      tenantId,
      /** Folds a row of usage for each cost, one after the other. */
      write: (at: string, costs: ReadonlyArray<number>) =>
        Effect.forEach(costs, (cost) =>
          writeUsage(database, tenantId, [{ at, cost, model: "gpt-5", latency_ms: 100 }])
        ),
      parts: asSuperuser(
        database,
        (sql) => sql<{ readonly grain: string; readonly level: number; readonly cost: number }>`
          SELECT grain::text, level, (SELECT sum(c)::double precision FROM unnest(cost) c) AS cost FROM usage_rollups
          WHERE tenant_id = ${tenantId} AND dimension = 2`
      ),
      differences: asSuperuser(database, (sql) => sql`SELECT * FROM usage_differences() WHERE tenant_id = ${tenantId}`),
      totals: Effect.map(
        call("GET", `/api/insights/by-model?tenantId=${tenantId}&from=2026-01-01T00:00:00Z&to=2026-12-31T00:00:00Z`),
        ({ body }) => body.items[0]
      )
    }
  })

  it.effect("become one when there are 16, and their sums stay", () =>
    Effect.gen(function* () {
      const { differences, parts, write } = yield* setting
      const costs = Array.from({ length: 20 }, (_, index) => index + 1)
      yield* write(new Date().toISOString(), costs)
      for (const grain of ["w", "d", "h"]) {
        const found = (yield* parts).filter((part) => part.grain === grain)
        assert.isBelow(found.length, 16)
        assert.isTrue(found.some(({ level }) => level === 1))
        assert.strictEqual(
          found.reduce((sum, { cost }) => sum + cost, 0),
          costs.reduce((sum, cost) => sum + cost, 0)
        )
      }
      assert.deepStrictEqual(
        (yield* differences).filter(({ what }) => what !== "the ledger and the rows"),
        []
      )
    })
  )

  it.effect("of a day that is over become one, also with what comes late", () =>
    Effect.gen(function* () {
      const { differences, parts, totals, write } = yield* setting
      for (const cost of [3, 4]) {
        yield* write("2026-03-05T10:00:00Z", [cost])
        yield* write("2026-03-05T22:00:00Z", [cost])
        yield* eventually(parts, (found) => found.length === 3 && found.every(({ level }) => level === whole))
        // The second report has what the first one kept of the parts, and no more of it than is still there.
        for (const item of [yield* totals, yield* totals]) {
          assert.deepInclude(item, {
            key: "gpt-5",
            costUsd: cost === 3 ? 6e-9 : 14e-9,
            requests: cost === 3 ? 2 : 4,
            p50LatencyMs: item.p95LatencyMs
          })
        }
      }
      assert.deepStrictEqual(
        (yield* differences).filter(({ what }) => what !== "the ledger and the rows"),
        []
      )
    })
  )

  it.effect("are divided by rows where a day of a zone begins within an hour, also with what comes late", () =>
    Effect.gen(function* () {
      const { call } = yield* TestService
      const { parts, tenantId, write } = yield* setting
      const by = (dimension: string) =>
        call(
          "GET",
          `/api/insights/by-${dimension}?tenantId=${tenantId}&timeZone=Asia/Kolkata&from=2026-03-08T18:30:00Z&to=2026-03-11T18:30:00Z`
        )
      const days = Effect.map(by("model"), ({ body }) =>
        body.items[0].series.map(({ costUsd }: Record<string, unknown>) => costUsd)
      )
      const hours = Effect.map(by("hour"), ({ body }) =>
        body.items.map(({ costUsd, key, p50LatencyMs }: Record<string, unknown>) => [
          key,
          costUsd,
          p50LatencyMs !== null
        ])
      )
      yield* write("2026-03-10T18:10:00Z", [1e9])
      for (const [time, cost] of [1, 2, 3].entries()) {
        yield* write("2026-03-10T18:40:00Z", [1e9])
        yield* eventually(parts, (found) => found.length === 3 && found.every(({ level }) => level === whole))
        for (const series of [yield* days, yield* days]) {
          assert.deepStrictEqual(series, [0, 1, cost], `after ${time + 1} rows`)
        }
        for (const found of [yield* hours, yield* hours]) {
          assert.sameDeepMembers(found, [
            ["2026-03-10T17:30:00.000Z", 1, true],
            ["2026-03-10T18:30:00.000Z", cost, true]
          ])
        }
      }
    })
  )

  it.effect("have other versions at a server that started on a backup", () =>
    Effect.gen(function* () {
      const { database } = yield* TestService
      const { parts, tenantId, write } = yield* setting
      yield* write("2026-03-13T10:05:00Z", [1e9])
      yield* eventually(parts, (found) => found.length === 3 && found.every(({ level }) => level === whole))
      const found = yield* asSuperuser(
        database,
        (sql) => sql<{ readonly isOfServer: boolean }>`
          SELECT starts_with(version, extract(epoch FROM pg_postmaster_start_time())::text) AS "isOfServer" FROM (
            SELECT version FROM usage_parts_between(ARRAY[${tenantId}]::uuid[], 2, '{d}', '{2026-03-13}', '{2026-03-13}')
            UNION ALL SELECT version FROM usage_row_parts(ARRAY[${tenantId}]::uuid[], 2,
              '{2026-03-13T10:00:00Z}', '{2026-03-13T10:10:00Z}', '{}', false)) v`
      )
      assert.deepStrictEqual(
        found.map(({ isOfServer }) => isOfServer),
        [true, true]
      )
    })
  )

  it.effect("that were made of rows have the latencies of their keys, also where rows wait to be folded", () =>
    Effect.gen(function* () {
      const { call, database } = yield* TestService
      const { parts, tenantId, write } = yield* setting
      const range = `tenantId=${tenantId}&from=2026-03-12T10:00:00Z&to=2026-03-12T10:10:00Z`
      yield* write("2026-03-12T10:05:00Z", [1e9])
      yield* eventually(parts, (found) => found.length === 3 && found.every(({ level }) => level === whole))
      assert.lengthOf((yield* call("GET", `/api/insights/spend-by-model?${range}&keys=gpt-5`)).body.items, 1)
      // It waits to be folded for as long as nothing in the outbox names it.
      yield* asSuperuser(
        database,
        (sql) => sql`
          INSERT INTO usage_rows (tenant_id, occurred_at, batch, cost, method, created_by, model, latency_ms)
          VALUES (${tenantId}, '2026-03-12T10:06:00Z', 0, 1, 'provider_usage', 'test', 'claude', 60000)`
      )
      for (const { body } of [
        yield* call("GET", `/api/insights/by-model?${range}`),
        yield* call("GET", `/api/insights/by-model?${range}`)
      ]) {
        const item = body.items.find(({ key }: Record<string, unknown>) => key === "gpt-5")
        assert.isBelow(item.p50LatencyMs, 110)
      }
    })
  )

  it.effect("of the days of this week become one of each day, and the week has them all", () =>
    Effect.gen(function* () {
      const { call } = yield* TestService
      const { differences, parts, tenantId, write } = yield* setting
      for (const cost of [3, 4]) {
        for (const days of [3, 2]) yield* write(new Date(Date.now() - days * 86_400_000).toISOString(), [cost])
        yield* eventually(parts, (found) => found.every(({ level }) => level >= whole - 1))
      }
      const { body } = yield* call("GET", `/api/insights/by-model?tenantId=${tenantId}`)
      assert.deepInclude(body.items[0], { key: "gpt-5", costUsd: 14e-9, requests: 4 })
      assert.deepStrictEqual(
        (yield* differences).filter(({ what }) => what !== "the ledger and the rows"),
        []
      )
    })
  )

  it.effect("of more days than are joined at once become one of each, although no more rows come", () =>
    Effect.gen(function* () {
      const { database } = yield* TestService
      const { parts, tenantId } = yield* setting
      const days = Array.from({ length: 28 }, (_, index) => `2026-02-${String(index + 1).padStart(2, "0")}T10:00:00Z`)
      yield* writeUsage(
        database,
        tenantId,
        days.map((at) => ({ at, cost: 1, model: "gpt-5" }))
      )
      const found = yield* eventually(parts, (found) => found.every(({ level }) => level === whole))
      for (const [grain, count] of [
        ["h", 28],
        ["d", 28],
        // February of 2026 begins on a Sunday.
        ["w", 5]
      ]) {
        assert.lengthOf(
          found.filter((part) => part.grain === grain),
          Number(count)
        )
      }
      // Of the other dimensions, too, so that nothing else is due.
      const open = asSuperuser(
        database,
        (sql) => sql`SELECT FROM usage_rollups WHERE tenant_id = ${tenantId} AND level < ${whole}`
      )
      yield* eventually(open, (found) => found.length === 0)
      // As a week has them until it is over.
      yield* asSuperuser(
        database,
        (sql) => sql`UPDATE usage_rollups SET level = ${whole - 1} WHERE tenant_id = ${tenantId} AND grain = 'w'`
      )
      yield* eventually(open, (found) => found.length === 0)
    })
  )

  it.effect("have the last half second of an hour in that hour", () =>
    Effect.gen(function* () {
      const { call } = yield* TestService
      const { tenantId, write } = yield* setting
      yield* write("2026-03-07T23:59:59.700Z", [5])
      const { body } = yield* call(
        "GET",
        `/api/insights/by-hour?tenantId=${tenantId}&from=2026-03-07T00:00:00Z&to=2026-03-08T00:00:00Z`
      )
      assert.deepStrictEqual(
        body.items.map(({ key, requests }: Record<string, unknown>) => ({ key, requests })),
        [{ key: "2026-03-07T23:00:00.000Z", requests: 1 }]
      )
    })
  )

  it.effect("of a dimension begin with its first value, and have what was before as without one", () =>
    Effect.gen(function* () {
      const { call, database } = yield* TestService
      const { differences, tenantId } = yield* setting
      const by = (dimension: string) =>
        Effect.map(
          call(
            "GET",
            `/api/insights/by-${dimension}?tenantId=${tenantId}&from=2026-03-01T00:00:00Z&to=2026-03-03T00:00:00Z`
          ),
          ({ body }) =>
            body.items.map(({ costUsd, key, p50LatencyMs, requests }: Record<string, unknown>) => ({
              key,
              costUsd,
              requests,
              hasLatency: p50LatencyMs !== null
            }))
        )
      const dimensions = asSuperuser(
        database,
        (sql) => sql<{ readonly dimension: number }>`
          SELECT DISTINCT dimension FROM usage_rollups WHERE tenant_id = ${tenantId} ORDER BY 1`
      ).pipe(Effect.map((rows) => rows.map(({ dimension }) => dimension)))
      const row = { at: "2026-03-01T10:00:00Z", cost: 1e9, model: "gpt-5", latency_ms: 100 }
      yield* writeUsage(database, tenantId, [row])
      assert.deepStrictEqual(yield* dimensions, [0, 2])
      const without = { key: null, costUsd: 1, requests: 1, hasLatency: true }
      assert.deepStrictEqual(yield* by("user"), [without])
      yield* writeUsage(database, tenantId, [{ ...row, at: "2026-03-02T10:00:00Z", cost: 2e9, user_id: "ada" }])
      assert.deepStrictEqual(yield* dimensions, [0, 2, 7])
      assert.deepStrictEqual(yield* by("user"), [{ key: "ada", costUsd: 2, requests: 1, hasLatency: true }, without])
      assert.deepStrictEqual(yield* by("application"), [{ ...without, costUsd: 3, requests: 2 }])
      // The only day with a user is computed anew, and the day before it.
      for (const day of ["2026-03-02", "2026-03-01"]) {
        yield* asSuperuser(database, (sql) => sql`SELECT usage_rebuild(${day}::date)`)
        assert.deepStrictEqual(yield* by("user"), [{ key: "ada", costUsd: 2, requests: 1, hasLatency: true }, without])
      }
      assert.deepStrictEqual(
        (yield* differences).filter(({ what }) => what !== "the ledger and the rows"),
        []
      )
    })
  )
})
