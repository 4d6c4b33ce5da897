import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { type Untyped } from "../../support/answers.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { makeDatabase } from "../../support/database.ts"
import { foldAll, writeUsage } from "../../support/insights.ts"
import { faultPaths } from "../../support/problem.ts"
import { sharedServiceLayer, startServer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"
import { Usage } from "#src/insights/usage/service.ts"

const setting = Effect.gen(function* () {
  const service = yield* TestService
  const tenantId = yield* makeTenant(service.database)
  const { key } = yield* makeKey(service, ["*:*"], { tenantId })
  const get = (path: string) => service.call("GET", path, { key })
  return { service, tenantId, key, get }
})

const row = (at: string, cost: number, model: string) => ({ at, cost: cost * 1e9, model })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the overview", (it) => {
  it.effect("counts what caches saved, and a cache hit as no request", () =>
    Effect.gen(function* () {
      const { get, service, tenantId } = yield* setting
      yield* asSuperuser(
        service.database,
        (sql) => sql`
          WITH made AS (
            INSERT INTO usage_rows (tenant_id, charge_id, reservation_id, occurred_at, batch, cost, saved, method,
              created_by, input_tokens, output_tokens, cached_input_tokens)
            SELECT ${tenantId}::uuid, new_id(), new_id(), '2026-03-01T10:00:00Z', nextval('usage_batches'), m.cost, m.saved,
              m.method, 'test', 50, 10, m.cached
            FROM (VALUES (1000000000, 500000000, 'provider_usage', 40), (0, 200000000, 'cached', 50))
              AS m(cost, saved, method, cached)
            RETURNING batch, tenant_id, occurred_at)
          INSERT INTO usage_outbox (batch, tenant_id, occurred_at) SELECT batch, tenant_id, occurred_at FROM made`
      )
      yield* foldAll(service.database)
      const range = "from=2026-03-01T00:00:00Z&to=2026-03-02T00:00:00Z"
      const { body } = yield* get(`/api/insights/overview?${range}`)
      assert.deepStrictEqual(body.totals, {
        costUsd: 1,
        requests: 1,
        inputTokens: 50,
        outputTokens: 10,
        cachedInputTokens: 40,
        errors: 0,
        savingsUsd: 0.7
      })
      assert.lengthOf((yield* get(`/api/usage?${range}`)).body.items, 1)
      for (const dimension of ["model", "agent"]) {
        const [item] = (yield* get(`/api/insights/by-${dimension}?${range}`)).body.items
        assert.deepInclude(item, { key: null, label: null, p50LatencyMs: null, p95LatencyMs: null, errorRate: 0 })
        assert.deepInclude(item, { cachedInputTokens: 40, cachedInputPercent: 80, savingsUsd: 0.7 })
      }
    })
  )

  it.effect("compares with the range before, and ranks agents and models by their cost", () =>
    Effect.gen(function* () {
      const { get, service, tenantId } = yield* setting
      yield* writeUsage(service.database, tenantId, [
        row("2026-03-02T10:00:00Z", 2, "old"),
        row("2026-03-03T10:00:00Z", 1, "gpt-5"),
        row("2026-03-03T11:00:00Z", 1.5, "claude-opus"),
        row("2026-03-03T12:00:00Z", 0.5, "gpt-5")
      ])
      const { body } = yield* get("/api/insights/overview?from=2026-03-03T00:00:00Z&to=2026-03-04T00:00:00Z")
      assert.strictEqual(body.changePercent, 50)
      assert.strictEqual(body.previous.costUsd, 2)
      assert.isNull(body.forecast)
      assert.deepStrictEqual(
        body.topModels.map((one: Record<string, unknown>) => [one.key, one.costUsd, one.sharePercent, one.requests]),
        [
          ["claude-opus", 1.5, 50, 1],
          ["gpt-5", 1.5, 50, 2]
        ]
      )
      assert.deepStrictEqual(
        body.topAgents.map(({ key }: { readonly key: string | null }) => key),
        [null]
      )
      const first = yield* get("/api/insights/overview?from=2026-03-02T00:00:00Z&to=2026-03-03T00:00:00Z")
      assert.isNull(first.body.changePercent, "nothing was spent before")
    })
  )

  it.effect("forecasts the month of the zone, is at most five seconds behind, and shows the use of caps", () =>
    Effect.gen(function* () {
      const { get, key, service } = yield* setting
      const cap = yield* service.call("POST", "/api/budgets/caps", {
        key,
        body: { name: "research", unit: "usd", limit: 10, period: "month", scope: { taskType: "research" } }
      })
      assert.strictEqual(cap.status, 201, cap.text)
      for (const taskType of ["research", "triage"]) {
        const { body } = yield* service.call("POST", "/api/spend/reserve", { key, body: { amountUsd: 3, taskType } })
        const spent = { reservationId: body.id, actualUsd: 2 }
        assert.strictEqual((yield* service.call("POST", "/api/spend/reconcile", { key, body: spent })).status, 200)
      }
      const { body } = yield* eventually(
        get("/api/insights/overview?timeZone=Asia/Kathmandu"),
        ({ body: { asOf, totals } }) => totals.costUsd === 4 && Date.now() - Date.parse(asOf) < 5000
      )
      // A forecast is made from the second day of a month on.
      if (body.forecast !== null) {
        assert.match(body.forecast.periodEnd, /T18:15:00\.000Z$/)
        assert.isAtLeast(body.forecast.costUsd, 4)
        assert.isAtLeast(body.forecast.low, 4)
        assert.isAtMost(body.forecast.low, body.forecast.costUsd)
        assert.isAtLeast(body.forecast.high, body.forecast.costUsd)
      } else assert.isBelow(new Date().getUTCDate(), 3)
      assert.deepInclude(body.caps[0], { capId: cap.body.id, spent: 2 })
      const status = yield* get(`/api/insights/caps-status?capId=${cap.body.id}`)
      const { series } = status.body.items[0]
      assert.strictEqual(
        series.reduce((sum: number, { costUsd }: { readonly costUsd: number }) => sum + costUsd, 0),
        2
      )
    })
  )

  it.effect(
    "shows with each counter of a cap what its tenant spent that it counts, also where a value is missing",
    () =>
      Effect.gen(function* () {
        const { get, key, service, tenantId } = yield* setting
        const taskType = `counted-${tenantId.slice(-12)}`
        const other = yield* makeKey(service, ["*:*"], { tenantId: yield* makeTenant(service.database) })
        const scopes = [
          { taskType },
          { agentId: "each", taskType },
          { applicationId: "each", taskType },
          { userId: "each" }
        ]
        for (const scope of scopes) {
          const body = { name: JSON.stringify(scope), unit: "usd", limit: 100, period: "month", scope }
          assert.strictEqual((yield* service.call("POST", "/api/budgets/caps", { key, body })).status, 201)
        }
        for (const caller of [key, other.key]) {
          const asked = yield* service.call("POST", "/api/spend/reserve", {
            key: caller,
            body: { amountUsd: 3, taskType }
          })
          const body = { reservationId: asked.body.id, actualUsd: 3 }
          assert.strictEqual((yield* service.call("POST", "/api/spend/reconcile", { key: caller, body })).status, 200)
        }
        yield* foldAll(service.database)
        const seriesOf = ({ body, status, text }: { body: Untyped; status: number; text: string }) => {
          assert.strictEqual(status, 200, text)
          return body.items
            .filter(({ name }: { readonly name: string }) => scopes.some((scope) => JSON.stringify(scope) === name))
            .map(({ series, spent }: { readonly series: ReadonlyArray<Untyped>; readonly spent: number }) => [
              spent,
              series.reduce((sum, { costUsd }) => sum + costUsd, 0)
            ])
        }
        const counted = scopes.map(() => [3, 3])
        assert.deepStrictEqual(seriesOf(yield* get("/api/insights/caps-status?limit=200")), counted)
        const [first] = (yield* get("/api/budgets/caps")).body.items
        const ofAll = yield* service.call("GET", `/api/insights/caps-status?capId=${first.id}`)
        assert.deepStrictEqual(seriesOf(ofAll), counted.slice(0, 1))
      })
  )
})

layer(Layer.empty, { excludeTestServices: true, timeout: "60 seconds" })("an installation", (it) => {
  it.effect("drops months of rows after Usage:RetentionDays and keeps their sums, and names who invoices", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const { context, service } = yield* startServer(database, {
        Usage__RetentionDays: "400",
        Insights__InvoiceIssuer: "Acme Ltd"
      })
      const tenantId = yield* makeTenant(database)
      const recent = new Date(Date.now() - 3_600_000).toISOString()
      yield* asSuperuser(database, (sql) => sql`SELECT usage_make_partitions('2020-01-15'::timestamptz, 2)`)
      const old = ["2020-01-31T23:00:00Z", "2020-02-01T01:00:00Z"].map((at) => ({ at, cost: 1e9, model: "gpt-5" }))
      yield* writeUsage(database, tenantId, [...old, { at: recent, cost: 3e9, model: "gpt-5" }])
      yield* Context.get(context, Usage).retire
      const range = (from: string, to: string) => `tenantId=${tenantId}&from=${from}&to=${to}`
      const past = range("2020-01-01T00:00:00Z", "2020-03-01T00:00:00Z")
      assert.isEmpty((yield* service.call("GET", `/api/usage?${past}`)).body.items)
      assert.strictEqual((yield* service.call("GET", `/api/insights/overview?${past}`)).body.totals.costUsd, 2)
      // What has no sums needs the rows: it is refused and not told to be nothing.
      const body = { tenantId, from: "2020-01-15T00:00:00Z", to: "2020-03-01T00:00:00Z", format: "json", sign: true }
      const bill = yield* service.call("POST", "/api/insights/billing-report", { body })
      assert.deepStrictEqual(faultPaths(bill), ["payload.from"], bill.text)
      for (const at of [
        "overview?model=gpt-5&provider=openai",
        "by-agent?model=gpt-5",
        "by-day?model=gpt-5&userId=ada"
      ]) {
        const refused = yield* service.call("GET", `/api/insights/${at}&${past}`)
        assert.deepStrictEqual(faultPaths(refused), ["query.from"], refused.text)
      }
      for (const at of ["overview?model=gpt-5", "by-agent?", "by-day?model=gpt-5"]) {
        assert.strictEqual((yield* service.call("GET", `/api/insights/${at}&${past}`)).status, 200)
      }
      const now = range(new Date(Date.parse(recent) - 1).toISOString(), new Date(Date.now() + 1000).toISOString())
      assert.lengthOf((yield* service.call("GET", `/api/usage?${now}`)).body.items, 1)
      const report = yield* service.call("POST", "/api/insights/billing-report", {
        body: {
          from: new Date(Date.parse(recent) - 1).toISOString(),
          to: new Date().toISOString(),
          format: "focus",
          columns: ["BilledCost", "InvoiceIssuerName"]
        }
      })
      assert.strictEqual(report.text, "BilledCost,InvoiceIssuerName\r\n3,Acme Ltd\r\n")
    }).pipe(Effect.scoped)
  )
})
