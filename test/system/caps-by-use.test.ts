import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey, makeTenant } from "../support/authority.ts"
import { type TestDatabase } from "../support/database.ts"
import { assertNoDrift } from "../support/plans.ts"
import { assertProblem } from "../support/problem.ts"
import { serviceLayer, sharedServiceLayer, TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"

interface Item {
  readonly name: string
  readonly percentUsed: number
}

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("caps by use", (it) => {
  it.effect("are sorted by the share of the limit and its grants that is spent, page by page", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["*:*"], { tenantId })
      const post = (address: string, body: object) => service.call("POST", address, { key, body })
      const cap = (name: string, limit: number, more: object = {}) =>
        Effect.map(
          post("/api/budgets/caps", { name, unit: "usd", limit, period: "month", mode: "soft", ...more }),
          ({ body }): string => body.id
        )
      yield* cap("half", 8)
      yield* cap("unused", 8, { scope: { model: "other" } })
      yield* cap("rolling", 5, { period: "rolling", windowSeconds: 3600 })
      yield* cap("over", 2)
      const raised = yield* cap("raised", 1)
      yield* cap("each", 10, { scope: { model: "each" } })
      yield* post(`/api/budgets/caps/${raised}/grants`, { amount: 39, reason: "Month-end close" })
      for (const [model, actualUsd] of [
        ["large", 3],
        ["small", 1]
      ] as const) {
        const { body } = yield* post("/api/spend/reserve", { amountUsd: actualUsd, model })
        yield* post("/api/spend/reconcile", { reservationId: body.id, actualUsd })
      }
      const page = (query: string) => service.call("GET", `/api/budgets/caps-status?${query}`, { key })
      /** Every item of the list, by pages of two. */
      const listAll = Effect.fnUntraced(function* (sort: string) {
        const items: Array<Item> = []
        let cursor = ""
        do {
          const { body, status, text } = yield* page(`sort=${sort}&limit=2${cursor}`)
          assert.strictEqual(status, 200, text)
          items.push(...body.items)
          cursor = body.nextCursor === null ? "" : `&cursor=${body.nextCursor}`
        } while (cursor !== "")
        return items
      })
      const wanted = [
        ["over", 200],
        ["rolling", 80],
        ["half", 50],
        ["each", 30],
        ["each", 10],
        ["raised", 10],
        ["unused", 0]
      ]
      for (const sort of ["-percentUsed", "percentUsed"]) {
        const items = yield* listAll(sort)
        const shares = items.map(({ percentUsed }) => percentUsed)
        assert.deepStrictEqual(
          shares,
          shares.toSorted((one, other) => (sort === "percentUsed" ? one - other : other - one))
        )
        assert.sameDeepMembers(
          items.map(({ name, percentUsed }) => [name, percentUsed]),
          wanted
        )
      }
      const { body } = yield* page("limit=1")
      assertProblem(yield* page(`sort=percentUsed&cursor=${body.nextCursor}`), 400, "validation-failed")
      const byUse = yield* page("sort=-percentUsed&limit=1")
      assertProblem(yield* page(`cursor=${byUse.body.nextCursor}`), 400, "validation-failed")
      assertProblem(yield* page(`sort=percentUsed&cursor=${byUse.body.nextCursor}`), 400, "validation-failed")
    })
  )
})

interface Place {
  readonly cap_id: string
  readonly counter_id: string
  readonly share: number
}

/** The uses that a caller sees, by pages of so many, and all of them in the same order. */
const usesOf = (database: TestDatabase, tenantId: string, isDown: boolean, most: number) =>
  asSuperuser(database, (sql) =>
    Effect.gen(function* () {
      yield* sql`SELECT set_config('app.tenant_id', ${tenantId}, false)`
      const source = `(SELECT * FROM budget_caps WHERE ${tenantId === "*" ? "true" : `tenant_id = '${tenantId}'`}) c
        LEFT JOIN budget_counters b ON b.tenant_id = c.tenant_id AND b.cap_id = c.id
          AND b.period_end > now() AND b.period_start <= now()`
      const all = yield* sql<Place>`SELECT * FROM budget_uses_of(now(), ${source}, 'true', ${isDown}, 100000)`
      const paged: Array<Place> = []
      let last: Place | undefined
      do {
        const page: ReadonlyArray<Place> = yield* sql<Place>`
          SELECT * FROM budget_uses(now(), NULL, NULL, ${isDown}, ${last?.share ?? null}::double precision,
            ${last?.cap_id ?? null}::uuid, ${last?.counter_id ?? null}::uuid, ${most})`
        paged.push(...page)
        last = page.at(-1)
      } while (last !== undefined)
      return { all, paged }
    })
  )

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("pages of caps by use", (it) => {
  const orders = [
    ["*", true],
    ["*", false],
    ["tenant", true],
    ["tenant", false]
  ] as const

  it.effect("follow a changed limit at once, and what is spent and refunded then", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["*:*"], { tenantId })
      const post = (address: string, body: object) => service.call("POST", address, { key, body })
      const cap = { name: "changed", unit: "usd", limit: 10, period: "month", mode: "soft" }
      const changed = yield* post("/api/budgets/caps", cap)
      yield* post("/api/budgets/caps", { ...cap, name: "other", limit: 2 })
      const charge = Effect.fnUntraced(function* (actualUsd: number) {
        const { body } = yield* post("/api/spend/reserve", { amountUsd: actualUsd })
        const settled = yield* post("/api/spend/reconcile", { reservationId: body.id, actualUsd })
        assert.strictEqual(settled.status, 200, settled.text)
        return settled.body
      })
      const ranked = Effect.map(
        service.call("GET", "/api/budgets/caps-status?sort=-percentUsed", { key }),
        ({ body }): ReadonlyArray<unknown> => body.items.map((item: Item) => [item.name, item.percentUsed])
      )
      const follow = (at: string) =>
        asSuperuser(service.database, (sql) => sql`SELECT budgets_follow_limits(now() + ${at}::interval, 1000)`).pipe(
          Effect.andThen(
            asSuperuser(
              service.database,
              (sql) =>
                sql<{ readonly behind: boolean }>`
                  SELECT limit_changed_at IS NOT NULL AS behind FROM budget_caps WHERE id = ${changed.body.id}`
            )
          ),
          Effect.map(([row]) => row?.behind)
        )
      yield* charge(1)
      assert.deepStrictEqual(yield* ranked, [
        ["other", 50],
        ["changed", 10]
      ])
      const put = yield* service.call("PUT", `/api/budgets/caps/${changed.body.id}`, {
        key,
        body: { name: "changed", limit: 1 }
      })
      assert.strictEqual(put.status, 200, put.text)
      const after = [
        ["changed", 100],
        ["other", 50]
      ]
      assert.deepStrictEqual(yield* ranked, after)
      assert.isTrue(yield* follow("0 seconds"))
      assert.deepStrictEqual(yield* ranked, after)
      assert.isFalse(yield* follow("2 minutes"))
      assert.deepStrictEqual(yield* ranked, after)
      const { charge: half } = yield* charge(0.5)
      yield* assertNoDrift(service.database)
      const refund = yield* service.call("POST", "/api/spend/refunds", {
        body: { chargeId: half.id, amountUsd: 0.25, reason: "test" }
      })
      assert.strictEqual(refund.status, 201, refund.text)
      yield* assertNoDrift(service.database)
      assert.deepStrictEqual(yield* ranked, [
        ["changed", 125],
        ["other", 62.5]
      ])
    })
  )

  it.effect("together are all uses in their order", () =>
    Effect.gen(function* () {
      const { database } = yield* TestService
      const [tenantId, other] = [yield* makeTenant(database), yield* makeTenant(database)]
      yield* asSuperuser(database, (sql) =>
        Effect.gen(function* () {
          // Every seventh cap is of a rolling window, every fifth has no counter, every third is a cap of each user's.
          yield* sql`
            INSERT INTO budget_caps (tenant_id, name, scope, unit, limit_amount, period, window_seconds, time_zone, anchor, mode,
              alert_thresholds, status, version, created_at, created_by, updated_at, deleted_at, limit_changed_at)
            SELECT CASE WHEN i % 4 = 0 THEN ${other}::uuid ELSE ${tenantId}::uuid END, 'cap ' || i,
              CASE WHEN i % 3 = 0 THEN '{"userId": "each"}'::jsonb ELSE '{}' END, 'usd', (i % 11) * 1000000,
              CASE WHEN i % 7 = 0 THEN 'rolling' ELSE 'month' END, CASE WHEN i % 7 = 0 THEN 3600 END, 'UTC', 1, 'soft', '[]',
              'active', 1, now(), 'test', now(), CASE WHEN i % 13 = 0 THEN now() END, CASE WHEN i % 17 = 0 THEN now() END
            FROM generate_series(1, 200) i`
          yield* sql`
            INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at, spent,
              bucket_seconds, ring_head, ring, cap_limit, use_level)
            SELECT c.tenant_id, new_id(), c.id, k.key, p.starts, p.ends, 'usd', now(), s.spent, r.seconds,
              budget_bucket(now(), r.seconds), CASE WHEN c.period = 'rolling' THEN ARRAY[0, s.spent] END,
              CASE WHEN c.period <> 'rolling' THEN l.amount END,
              CASE WHEN c.period <> 'rolling' THEN budget_counter_level(s.spent, l.amount) END
            FROM (SELECT * FROM budget_caps WHERE name LIKE 'cap %' OFFSET 0) c
            CROSS JOIN LATERAL (SELECT substr(c.name, 5)::integer AS i) n
            CROSS JOIN LATERAL (SELECT CASE WHEN c.scope = '{}' THEN '' ELSE 'user-' || u END AS key, u
              FROM generate_series(1, CASE WHEN c.scope = '{}' THEN 1 ELSE 4 END) u) k
            CROSS JOIN LATERAL (SELECT CASE WHEN c.period = 'rolling' THEN 60 END AS seconds) r
            CROSS JOIN generate_series(0, 1) months
            CROSS JOIN LATERAL budget_period(c.period, 'UTC', 1, now() - months * interval '1 month') p
            CROSS JOIN LATERAL (SELECT CASE WHEN (n.i + k.u) % 6 = 0 THEN 0
              ELSE floor(exp((n.i * 37 + k.u * 91) % 160 / 10.0))::bigint END AS spent) s
            CROSS JOIN LATERAL (SELECT CASE WHEN c.limit_changed_at IS NULL THEN c.limit_amount ELSE 5000 END AS amount) l
            WHERE n.i % 5 > 0 AND (months = 0 OR c.period <> 'rolling')`
          yield* sql`
            INSERT INTO budget_grants (tenant_id, cap_id, counter_key, amount, reason, created_at, created_by)
            SELECT c.tenant_id, c.id, CASE WHEN c.scope <> '{}' THEN 'user-2' END, 7000000, 'test', now(), 'test'
            FROM (SELECT * FROM budget_caps WHERE name LIKE 'cap %' OFFSET 0) c WHERE substr(c.name, 5)::integer % 9 = 2`
        })
      )
      for (const [whose, isDown] of orders) {
        const { all, paged } = yield* usesOf(database, whose === "*" ? "*" : tenantId, isDown, 19)
        assert.isAbove(all.length, 200)
        assert.deepStrictEqual(paged, all, `${whose} ${isDown}`)
      }
      // More of a level, and more whose level says nothing, than a page reads.
      const many = (limitChangedAt: string | null, share: number) =>
        asSuperuser(
          database,
          (sql) => sql`
            WITH cap AS (
              INSERT INTO budget_caps (tenant_id, name, scope, unit, limit_amount, period, time_zone, anchor, mode,
                alert_thresholds, status, version, created_at, created_by, updated_at, limit_changed_at)
              VALUES (${tenantId}, 'many', '{"userId": "each"}', 'usd', 100000, 'month', 'UTC', 1, 'soft', '[]', 'active', 1,
                now(), 'test', now(), ${limitChangedAt}::timestamptz)
              RETURNING *
            )
            INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at, spent,
              cap_limit, use_level)
            SELECT c.tenant_id, new_id(), c.id, 'user-' || i, p.starts, p.ends, 'usd', now(), s.spent, c.limit_amount,
              budget_counter_level(s.spent, c.limit_amount)
            FROM cap c, budget_period('month', 'UTC', 1, now()) p, generate_series(1, 6000) i,
              LATERAL (SELECT ${share}::integer * 1000 + i % 900 AS spent) s`
        )
      yield* many(null, 75)
      for (const [whose, isDown] of orders.slice(0, 2)) {
        const { all, paged } = yield* usesOf(database, whose === "*" ? "*" : tenantId, isDown, 1500)
        assert.deepStrictEqual(paged, all, `${whose} ${isDown}`)
      }
      yield* many("2026-01-01T00:00:00Z", 5)
      for (const [whose, isDown] of orders.slice(0, 2)) {
        const { all, paged } = yield* usesOf(database, whose === "*" ? "*" : tenantId, isDown, 3000)
        assert.deepStrictEqual(paged, all, `${whose} ${isDown}`)
      }
    })
  )
})
