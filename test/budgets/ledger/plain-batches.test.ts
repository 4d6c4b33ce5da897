import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { asSystem } from "../../../src/audit/log/service.ts"
import { type Cap, type CapCreation } from "../../../src/budgets/caps/domain.ts"
import { Grants } from "../../../src/budgets/caps/grants.ts"
import { type CloseItem, type ReserveItem } from "../../../src/budgets/ledger/protocol-domain.ts"
import { Ledger } from "../../../src/budgets/ledger/service.ts"
import { type TenantId } from "../../../src/kernel/identifier.ts"
import { OwnDatabase } from "../../support/clock.ts"
import { audit, closeItem, ledgerLayer, makeCap, makeTenant, reserveItem, utilizationOf } from "../../support/ledger.ts"
import { asSuperuser } from "../../support/statements.ts"

const nano = 1_000_000_000n

const rolling = { period: "rolling", windowSeconds: 3600 } as const

/** A tenant with a cap of every unit and mode, of which one has room for nothing. */
const makeSetting = Effect.fnUntraced(function* (window: Partial<CapCreation> = rolling) {
  const tenantId = yield* makeTenant
  const caps = [
    yield* makeCap(tenantId, { limit: 20, alertThresholds: [{ measure: "committed", percent: 10 }] }),
    yield* makeCap(tenantId, { unit: "tokens", limit: 5, mode: "soft" }),
    yield* makeCap(tenantId, { unit: "requests", limit: 50, mode: "approval", scope: { userId: "each" } }),
    yield* makeCap(tenantId, { limit: 30, scope: { model: "large" }, ...window }),
    yield* makeCap(tenantId, { limit: 0, scope: { model: "none" } })
  ]
  return { tenantId, caps }
})

const itemsOf = (tenantId: TenantId, members: Partial<ReserveItem> = {}) => [
  reserveItem(tenantId, nano, { tokens: 3, dimensions: { model: "large", userId: "ada" }, ...members }),
  reserveItem(tenantId, 2n * nano, { tokens: 4, dimensions: { model: "large" }, ...members, ttlSeconds: 5 }),
  reserveItem(tenantId, 0n, { dimensions: { userId: "grace" }, metadata: { note: `"a", {b} \\ NULL` }, ...members }),
  reserveItem(tenantId, 3n * nano, { tokens: 7, dimensions: { userId: "ada" }, ...members })
]

const rowsOf = Effect.fnUntraced(function* (tenantId: TenantId) {
  const rows = yield* asSuperuser(
    yield* OwnDatabase,
    (sql) => sql<{ readonly row: unknown }>`
      SELECT json_build_array(b.state, b.amount, b.tokens, b.user_id, b.model, b.metadata, b.created_by, b.late, b.actual,
          b.actual_tokens, b.expires_at - b.created_at,
          (SELECT json_agg(json_build_array(k.unit, k.counter_key, k.period_end) ORDER BY e.place)
            FROM unnest(b.counter_ids) WITH ORDINALITY AS e(id, place) JOIN budget_counters k ON k.id = e.id),
          json_build_array(e.kind, e.amount, e.tokens, e.requests, e.overrun, e.late, e.usage, e.metadata, e.created_by,
            e.occurred_at - b.created_at, e.buckets, e.counter_ids = b.counter_ids),
          to_jsonb(u) - ARRAY['tenant_id', 'reservation_id', 'charge_id', 'occurred_at', 'batch'], u.charge_id = b.charge_id
        ) AS row
      FROM budget_reservations b
      LEFT JOIN budget_entries e ON e.tenant_id = b.tenant_id AND e.id = b.charge_id
      LEFT JOIN usage_rows u ON u.tenant_id = b.tenant_id AND u.reservation_id = b.id
      WHERE b.tenant_id = ${tenantId} ORDER BY b.id`
  )
  return rows.map(({ row }) => row)
})

const alertsOf = Effect.fnUntraced(function* (tenantId: TenantId) {
  return yield* asSuperuser(
    yield* OwnDatabase,
    (sql) => sql`SELECT measure, percent, spent, reserved FROM budget_alerts WHERE tenant_id = ${tenantId} ORDER BY id`
  )
})

const standingsOf = Effect.fnUntraced(function* (caps: ReadonlyArray<{ readonly id: string }>) {
  const utilizations = yield* Effect.forEach(caps, ({ id }) => utilizationOf(id))
  // Ids of counters that are made together have no order before PostgreSQL 18.
  return utilizations
    .flat()
    .map(({ grants, headroom, held, reserved, scope, spent }) => ({ grants, headroom, held, reserved, scope, spent }))
    .toSorted((one, other) => JSON.stringify(one).localeCompare(JSON.stringify(other)))
})

layer(ledgerLayer(), { timeout: "60 seconds" })("what is decided at once", (it) => {
  // Invariant L13
  it.effect.each([
    ["where one of its caps rolls", rolling],
    ["where no cap does", {}]
  ] as const)("is what would be decided one by one, %s", ([, window]) =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const together = yield* makeSetting(window)
      const apart = yield* makeSetting(window)

      const asked = yield* ledger.reserveBatch(itemsOf(together.tenantId))
      // One that is refused lets nobody be decided at once.
      const refused = reserveItem(apart.tenantId, nano, { dimensions: { model: "none" } })
      const others = yield* ledger.reserveBatch([...itemsOf(apart.tenantId), refused])
      assert.strictEqual(others.at(-1)?.verdict, "denied")
      const told = (results: typeof asked) =>
        results.map((result) => [
          result.verdict,
          ...("available" in result
            ? result.available.map(({ cap, headroom, resetsAt }) => [cap.unit, headroom, resetsAt])
            : [])
        ])
      assert.deepStrictEqual(told(asked), told(others.slice(0, -1)))
      assert.deepStrictEqual(
        asked.map(({ verdict }) => verdict),
        ["open", "open", "open", "open"]
      )
      assert.deepStrictEqual(yield* rowsOf(together.tenantId), yield* rowsOf(apart.tenantId))
      assert.deepStrictEqual(yield* standingsOf(together.caps), yield* standingsOf(apart.caps))
      const alerts = yield* alertsOf(together.tenantId)
      assert.isNotEmpty(alerts)
      assert.deepStrictEqual(alerts, yield* alertsOf(apart.tenantId))
      assert.deepStrictEqual(yield* ledger.drift, [])
    })
  )

  it.effect.each([1, 2])("tells the room that there is under %i caps, whatever rolled away or was granted", (count) =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const grants = yield* Grants
      const headrooms = Effect.fnUntraced(function* (tenantId: TenantId) {
        const [result] = yield* ledger.reserveBatch([reserveItem(tenantId, nano)])
        return result !== undefined && "available" in result ? result.available.map(({ headroom }) => headroom) : []
      })
      const rolls = yield* makeTenant
      const granted = yield* makeTenant
      const caps: Array<Cap> = []
      for (let place = 0; place < count; place++) {
        yield* makeCap(rolls, { limit: 10, ...rolling })
        caps.push(yield* makeCap(granted, { limit: 10 }))
      }
      const used = reserveItem(rolls, 4n * nano)
      yield* ledger.reserveBatch([used])
      yield* ledger.closeBatch([closeItem("settle", used.id, { tenantId: rolls, amount: 4n * nano })])
      assert.deepStrictEqual(yield* headrooms(rolls), Array(count).fill(5n * nano))
      yield* TestClock.adjust("2 hours")
      assert.deepStrictEqual(yield* headrooms(rolls), Array(count).fill(8n * nano))

      assert.deepStrictEqual(yield* headrooms(granted), Array(count).fill(9n * nano))
      yield* Effect.forEach(caps, ({ id }) => asSystem(grants.create(id, { amount: 5, reason: "Month-end close" })))
      assert.deepStrictEqual(yield* headrooms(granted), Array(count).fill(13n * nano))
      assert.deepStrictEqual(yield* ledger.drift, [])
    })
  )

  for (const tenancy of ["of their tenant", "of any tenant"]) {
    it.effect(`is charged as it would be one by one, ${tenancy}`, () =>
      Effect.gen(function* () {
        const ledger = yield* Ledger
        const together = yield* makeSetting()
        const apart = yield* makeSetting()
        const opened = { together: itemsOf(together.tenantId), apart: itemsOf(apart.tenantId) }
        yield* ledger.reserveBatch(opened.together)
        yield* ledger.reserveBatch(opened.apart)
        yield* TestClock.adjust("10 seconds")

        const closing = (items: ReadonlyArray<ReserveItem>): ReadonlyArray<CloseItem> =>
          items.map(({ id, tenantId }, index) =>
            closeItem("settle", id, {
              tenantId: tenancy === "of their tenant" ? tenantId : null,
              amount: BigInt(index) * nano,
              ...(index % 2 === 0 ? { tokens: index } : {}),
              usage: index === 1 ? { inputTokens: 1 } : undefined,
              metadata: index === 2 ? { note: `{"a", \\}` } : undefined,
              call:
                index === 3
                  ? undefined
                  : {
                      operation: "chat",
                      modelAsked: "a,{b}",
                      provider: index === 0 ? "openai" : undefined,
                      usage: {
                        inputTokens: 5,
                        outputTokens: 4,
                        cachedInputTokens: 3,
                        cacheWriteTokens: 2,
                        cacheWrite1hTokens: 1,
                        reasoningTokens: 0
                      },
                      rates: `{ "input": "1" }`,
                      method: "provider_usage",
                      status: 200,
                      attempts: [{ provider: `"x"`, durationMs: 3 }],
                      traceId: "0123456789abcdef0123456789abcdef"
                    }
            })
          )
        const done = yield* ledger.closeBatch(closing(opened.together))
        const missing = closeItem("settle", reserveItem(apart.tenantId, nano).id, { amount: nano })
        const others = yield* ledger.closeBatch([...closing(opened.apart), missing])
        assert.strictEqual(others.at(-1)?.verdict, "missing")
        const verdicts = done.map(({ verdict }) => verdict)
        assert.deepStrictEqual(verdicts, ["done", "done", "done", "done"])
        assert.deepStrictEqual(
          others.slice(0, -1).map(({ verdict }) => verdict),
          verdicts
        )
        assert.deepStrictEqual(
          done.map((result) => "closed" in result && result.closed?.reservation.id),
          opened.together.map(({ id }) => id)
        )
        const rows = yield* rowsOf(together.tenantId)
        assert.include(JSON.stringify(rows), `"a,{b}"`)
        assert.deepStrictEqual(rows, yield* rowsOf(apart.tenantId))
        assert.deepStrictEqual(yield* standingsOf(together.caps), yield* standingsOf(apart.caps))
        assert.deepStrictEqual(yield* alertsOf(together.tenantId), yield* alertsOf(apart.tenantId))
        assert.deepStrictEqual(yield* ledger.drift, [])
      })
    )
  }

  it.effect("is not what an approval let in: what it raised its cap by ends when it is charged", () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const tenantId = yield* makeTenant
      const cap = yield* makeCap(tenantId, { limit: 1, mode: "approval" })
      const held = reserveItem(tenantId, 3n * nano)
      yield* ledger.reserveBatch([held])
      yield* ledger.reserveBatch([{ ...held, kind: "override", audit }])
      assert.deepInclude((yield* utilizationOf(cap.id))[0], { reserved: 3, grants: 2 })
      const [result] = yield* ledger.closeBatch([closeItem("settle", held.id, { tenantId, amount: nano / 2n })])
      assert.strictEqual(result?.verdict, "done")
      assert.deepInclude((yield* utilizationOf(cap.id))[0], { spent: 0.5, reserved: 0, grants: 0 })
      assert.deepStrictEqual(yield* ledger.drift, [])
    })
  )

  it.effect("is not decided again when it is asked again", () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const { caps, tenantId } = yield* makeSetting()
      const items = itemsOf(tenantId, { origin: "gateway" })
      yield* ledger.reserveBatch(items)
      const close = (members: Partial<CloseItem> = {}) =>
        Effect.map(
          ledger.closeBatch(
            items.map(({ id }) => closeItem("settle", id, { tenantId, origin: "gateway", amount: nano, ...members }))
          ),
          (results) => results.map(({ verdict }) => verdict)
        )
      const foreign = { principal: "api-key:another", canActForOthers: false }
      assert.deepStrictEqual(yield* close({ origin: "api" }), Array(4).fill("managed"))
      assert.deepStrictEqual(yield* close(foreign), Array(4).fill("foreign"))
      assert.deepStrictEqual(yield* close(), Array(4).fill("done"))
      const utilizations = yield* standingsOf(caps)
      assert.deepStrictEqual(yield* close(), Array(4).fill("same"))
      assert.deepStrictEqual(yield* close({ amount: 1n }), Array(4).fill("conflict"))
      assert.deepStrictEqual(yield* standingsOf(caps), utilizations)
      assert.deepStrictEqual(yield* ledger.drift, [])
    })
  )
})
