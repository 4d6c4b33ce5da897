import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { makeDatabase } from "../../support/database.ts"
import { type MadeUsage, writeUsage } from "../../support/insights.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { startServer } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { Anomalies } from "#src/insights/anomalies/service.ts"

const hour = 3_600_000
const steady = "0198a5b0-7c00-7000-8000-00000000000a"
const looping = "0198a5b0-7c00-7000-8000-00000000000b"
const newcomer = "0198a5b0-7c00-7000-8000-00000000000c"

/** Five weeks of hourly cost until the hour that has begun; one agent loops in the last six hours, another has just come. */
const usageUntil = (now: number): ReadonlyArray<MadeUsage> => {
  const to = Math.floor(now / hour) * hour
  return Array.from({ length: 35 * 24 }, (_, index) => 35 * 24 - index).flatMap((ago): ReadonlyArray<MadeUsage> => {
    const at = new Date(to - ago * hour + 1000).toISOString()
    const usual = Math.round(1e9 * (2 + Math.sin((ago / 24) * 2 * Math.PI)) * (1 + 0.05 * Math.sin(ago * 12.9898)))
    const row = (agent_id: string, cost: number): MadeUsage => ({
      at,
      agent_id,
      cost,
      model: "gpt-5",
      provider: "openai",
      task_type: "research"
    })
    const old = [row(steady, 30 * usual), row(looping, ago <= 6 ? 40e9 : usual)]
    return ago <= 10 ? old.concat(row(newcomer, 60e9)) : old
  })
}

layer(Layer.empty, { excludeTestServices: true, timeout: "60 seconds" })("/api/insights/anomalies", (it) => {
  it.effect("has each episode once, with its contributors, until someone decides about it", () =>
    Effect.gen(function* () {
      const { context, service } = yield* startServer(yield* makeDatabase, {})
      const { database } = service
      const tenantId = yield* makeTenant(database)
      const { key } = yield* makeKey(service, ["insights:read", "insights:write", "audit-logs:read"], { tenantId })
      yield* writeUsage(database, tenantId, usageUntil(Date.now()))
      const cap = yield* service.call("POST", "/api/budgets/caps", {
        body: { name: "Tenant", unit: "usd", limit: 500, period: "month", tenantId }
      })
      assert.strictEqual(cap.status, 201, cap.text)
      const detect = asSuperuser(database, (sql) => sql`UPDATE anomaly_progress SET through = '-infinity'`).pipe(
        Effect.andThen(Context.get(context, Anomalies).detect)
      )
      assert.isAbove(yield* detect, 0)
      const list = (query = "") => service.call("GET", `/api/insights/anomalies${query}`, { key })
      const { body, status, text } = yield* list()
      assert.strictEqual(status, 200, text)
      const find = (of: string) => body.items.filter((item: { readonly key: string }) => item.key === of)
      const [loop, ...others] = find(looping)
      assert.lengthOf(others, 0)
      assert.deepInclude(loop, { dimension: "agent", kind: "loop", status: "open", reason: null, actualUsd: 240 })
      assert.approximately(loop.impactUsd, 228, 6)
      assert.sameDeepMembers(loop.contributors, [
        { dimension: "model", key: "gpt-5", costUsd: 240 },
        { dimension: "task-type", key: "research", costUsd: 240 }
      ])
      assert.deepInclude(find(newcomer)[0], { kind: "new", actualUsd: 600, expectedUsd: 0 })
      assert.lengthOf(find(steady), 0)
      // A cap has a usual rate from the third hour of its period on.
      const now = new Date()
      const hasRate = now.getUTCDate() > 1 || now.getUTCHours() > 2
      assert.deepEqual(
        find(cap.body.id).map(({ dimension, kind }: { readonly dimension: string; readonly kind: string }) => [
          dimension,
          kind
        ]),
        hasRate ? [["cap", "burn-rate"]] : []
      )

      const count = body.items.length
      assert.strictEqual(yield* detect, 0)
      assert.lengthOf((yield* list()).body.items, count)

      const bare = yield* service.call("PATCH", `/api/insights/anomalies/${loop.id}`, {
        key,
        body: { status: "dismissed" }
      })
      assert.deepStrictEqual(faultPaths(bare), ["payload.reason"])
      const decided = yield* service.call("PATCH", `/api/insights/anomalies/${loop.id}`, {
        key,
        body: { status: "dismissed", reason: "A planned import" }
      })
      assert.deepInclude(decided.body, { id: loop.id, status: "dismissed", reason: "A planned import" })
      assert.deepStrictEqual(
        (yield* list("?status=dismissed")).body.items.map(({ id }: { readonly id: string }) => id),
        [loop.id]
      )
      const log = yield* service.call("GET", `/api/audit-logs?entityType=Anomaly&entityId=${loop.id}`, { key })
      assert.deepStrictEqual(
        log.body.items.map(({ actionType }: { readonly actionType: string }) => actionType),
        ["AnomalyDismissed", "AnomalyDetected"]
      )

      const stranger = yield* makeKey(service, ["insights:write"], { tenantId: yield* makeTenant(database) })
      const foreign = yield* service.call("PATCH", `/api/insights/anomalies/${loop.id}`, {
        key: stranger.key,
        body: { status: "dismissed", reason: "not theirs" }
      })
      assertProblem(foreign, 404, "anomaly-not-found")
    }).pipe(Effect.scoped)
  )

  it.effect("takes neither usage that was booked late for a spike, nor what is still to be reported for a drop", () =>
    Effect.gen(function* () {
      const { context, service } = yield* startServer(yield* makeDatabase, {})
      const { database } = service
      const tenantId = yield* makeTenant(database)
      const cap = yield* service.call("POST", "/api/budgets/caps", {
        body: { name: "Tenant", unit: "usd", limit: 500, period: "year", tenantId }
      })
      assert.strictEqual(cap.status, 201, cap.text)
      const to = Math.floor(Date.now() / hour) * hour
      const hoursAgo = Array.from({ length: 35 * 24 }, (_, index) => 35 * 24 - index)
      const row = (agent_id: string, ago: number, more: Partial<MadeUsage> = {}): MadeUsage => ({
        at: new Date(to - ago * hour + 1000).toISOString(),
        agent_id,
        cost: Math.round(10e9 * (1 + 0.05 * Math.sin(ago * 12.9898))),
        model: agent_id,
        ...more
      })
      const [imported, nightly, silent] = [steady, looping, newcomer]
      yield* writeUsage(database, tenantId, [
        ...hoursAgo.map((ago) => row(imported, ago)),
        // Nothing of the last 20 hours, of which one reports with a delay.
        ...hoursAgo.filter((ago) => ago > 20).map((ago) => row(silent, ago)),
        ...hoursAgo.filter((ago) => ago > 20).map((ago) => row(nightly, ago, { happened_at: row(nightly, ago).at }))
      ])
      // What happened before bills were signed is booked in the last hour.
      const booked = Array.from({ length: 60 }, (_, index) =>
        row(imported, 1, { cost: 20e9, happened_at: new Date(to - (40 * 24 + index) * hour).toISOString() })
      )
      yield* writeUsage(database, tenantId, booked)
      yield* asSuperuser(database, (sql) => sql`UPDATE anomaly_progress SET through = '-infinity'`)
      yield* Context.get(context, Anomalies).detect
      const { body } = yield* service.call("GET", `/api/insights/anomalies?tenantId=${tenantId}`)
      assert.deepStrictEqual([...new Set(body.items.map(({ key }: { readonly key: string }) => key))], [silent])
    }).pipe(Effect.scoped)
  )
})
