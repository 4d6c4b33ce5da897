import { assert, layer } from "@effect/vitest"
import { DateTime, Effect } from "effect"
import { makeKey, makeTenant, refusesStrangers } from "../../support/authority.ts"
import { writeUsage } from "../../support/insights.ts"
import { assertProblem } from "../../support/problem.ts"
import { faults, problem, refuses, type Sent } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

const path = "/api/subscriptions"
const least = {
  provider: "openai",
  name: "Team",
  priceUsd: 20,
  quota: { unit: "tokens", amount: 1000 },
  period: "month"
}

const isBetween = (value: number, one: number, other: number) => {
  assert.isAtLeast(value, Math.min(one, other) - 0.01)
  assert.isAtMost(value, Math.max(one, other) + 0.01)
}

/** A zone in which a moment is in an hour of the day. */
const zoneWhereItIs = (hour: number, moment: DateTime.Utc): string => {
  // Zones by offset are named by the hours to Greenwich: those west of it have a plus.
  const behind = ((DateTime.getPartUtc(moment, "hour") - hour + 36) % 24) - 12
  return behind === 0 ? "UTC" : `Etc/GMT${behind > 0 ? "+" : ""}${behind}`
}

const setting = Effect.gen(function* () {
  const service = yield* TestService
  const tenantId = yield* makeTenant(service.database)
  const { key } = yield* makeKey(service, ["*:*"], { tenantId })
  const call = (method: string, at: string, body?: unknown) =>
    service.call(method, at, { key, ...(body === undefined ? {} : { body }) })
  const create = Effect.fnUntraced(function* (members: object = {}) {
    const made = yield* call("POST", path, { ...least, ...members })
    assert.strictEqual(made.status, 201, made.text)
    return made.body
  })
  return { service, tenantId, key, call, create }
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(path, (it) => {
  refusesStrangers(it, [
    { name: "list", method: "GET", path, capability: "subscriptions:read", systemOnly: false },
    { name: "create", method: "POST", path, body: least, capability: "subscriptions:write", systemOnly: false }
  ])

  it.effect("201: what is not said is the calendar in UTC, from now, with overage", () =>
    Effect.gen(function* () {
      const { call, create, tenantId } = yield* setting
      const { createdAt, id, startsAt, updatedAt, ...made } = yield* create()
      assert.deepStrictEqual(made, {
        ...least,
        tenantId,
        plan: null,
        anchor: 1,
        timeZone: "UTC",
        endsAt: null,
        overage: "allow",
        status: "active",
        pending: null
      })
      assert.deepStrictEqual([startsAt, updatedAt], [createdAt, createdAt])
      assert.deepStrictEqual((yield* call("GET", path)).body.items[0].id, id)
      assert.strictEqual((yield* call("DELETE", `${path}/${id}`)).status, 204)
      assertProblem(yield* call("GET", `${path}/${id}`), 404, "subscription-not-found")
    })
  )

  it.effect("another quota waits for the next period, in which it applies once; it can be replaced and cancelled", () =>
    Effect.gen(function* () {
      const { call, create, service } = yield* setting
      const { id } = yield* create({ timeZone: "Asia/Kathmandu" })
      const put = (members: object) => call("PUT", `${path}/${id}`, { ...least, ...members })
      const quota = { unit: "tokens", amount: 5000 }
      const { body } = yield* put({ quota, priceUsd: 80 })
      const { periodEnd } = (yield* call("GET", `${path}/${id}/utilization`)).body
      assert.deepInclude(body, {
        quota: least.quota,
        priceUsd: 20,
        pending: { quota, priceUsd: 80, effectiveAt: periodEnd }
      })
      // The first of a month begins in Kathmandu at 18:15 UTC.
      assert.match(periodEnd, /T18:15:00\.000Z$/)
      const replaced = { unit: "tokens", amount: 7000 }
      assert.deepStrictEqual((yield* put({ quota: replaced })).body.pending.quota, replaced)
      assert.isNotNull((yield* put({ name: "Renamed" })).body.pending)
      assert.isNull((yield* put({ pending: null })).body.pending)
      yield* put({ quota, priceUsd: 80 })
      // The boundary passes.
      yield* asSuperuser(
        service.database,
        (sql) => sql`
          UPDATE subscriptions SET pending = jsonb_set(pending, '{effectiveAt}', '"2026-01-01T00:00:00.000Z"')
          WHERE id = ${id}`
      )
      const crossed = (yield* call("GET", `${path}/${id}`)).body
      assert.deepInclude(crossed, { quota, priceUsd: 80, pending: null })
      assert.deepStrictEqual((yield* call("GET", `${path}/${id}/utilization`)).body.quota, quota)
      // A later change starts from it, and the one that has passed does not come back.
      const back = (yield* call("PUT", `${path}/${id}`, { ...least, effective: "immediate" })).body
      assert.deepInclude(back, { quota: least.quota, priceUsd: 20, pending: null })
      assert.deepInclude((yield* call("GET", `${path}/${id}`)).body, { quota: least.quota, pending: null })
    })
  )

  it.effect("another period applies at once, with its quota; a change that waits does so until its end", () =>
    Effect.gen(function* () {
      const { call, create } = yield* setting
      const { id } = yield* create()
      const put = (members: object) => call("PUT", `${path}/${id}`, { ...least, ...members })
      const quota = { unit: "tokens", amount: 50 }
      assert.isNotNull((yield* put({ quota })).body.pending)
      const kept = (yield* put({ period: "week" })).body
      const { periodEnd } = (yield* call("GET", `${path}/${id}/utilization`)).body
      assert.deepInclude(kept, { quota: least.quota, pending: { quota, priceUsd: 20, effectiveAt: periodEnd } })
      const daily = (yield* put({ period: "day", quota })).body
      assert.deepInclude(daily, { period: "day", quota, pending: null })
      assert.deepInclude((yield* put({ period: "day", quota, timeZone: "Asia/Tokyo", priceUsd: 1 })).body, {
        priceUsd: 1,
        pending: null
      })
    })
  )

  it.effect("utilization has no less than nothing used after a refund of an earlier period's charge, in all", () =>
    Effect.gen(function* () {
      const { call, create, service, tenantId } = yield* setting
      const now = yield* DateTime.now
      const at = DateTime.formatIso(now)
      yield* writeUsage(service.database, tenantId, [
        { at, cost: 2_000_000_000, provider: "openai" },
        { at, cost: -5_000_000_000, provider: "openai", method: "refunded" }
      ])
      const { id } = yield* create({ quota: { unit: "usd", amount: 100 } })
      const { body } = yield* call("GET", `${path}/${id}/utilization`)
      assert.deepInclude(body, { used: 0, remaining: 100, percentUsed: 0, exhaustsAt: null })
      assert.deepInclude(body.byDay.at(-1), { used: -3 })
    })
  )

  it.effect("utilization counts the tenant's rows of the provider in the period, in the unit of the quota", () =>
    Effect.gen(function* () {
      const { call, create, service, tenantId } = yield* setting
      const now = DateTime.formatIso(yield* DateTime.now)
      const rows = [
        { at: now, cost: 2_500_000_000, provider: "openai", input_tokens: 300, output_tokens: 200 },
        { at: now, cost: 0, provider: "openai", input_tokens: 100, synthetic: true },
        { at: now, cost: 9_000_000_000, provider: "anthropic", input_tokens: 300 },
        { at: "2020-01-01T00:00:00Z", cost: 1_000_000_000, provider: "openai", input_tokens: 9 }
      ]
      yield* writeUsage(service.database, tenantId, rows)
      for (const [unit, amount, used] of [
        ["usd", 10, 2.5],
        ["tokens", 1000, 600],
        ["requests", 4, 2]
      ] as const) {
        const { id } = yield* create({ quota: { unit, amount } })
        const { body } = yield* call("GET", `${path}/${id}/utilization`)
        assert.deepInclude(body, { used, remaining: amount - used, percentUsed: (100 * used) / amount })
        assert.strictEqual(
          body.byDay.reduce((sum: number, day: { used: number }) => sum + day.used, 0),
          used
        )
      }
    })
  )

  it.effect(
    "utilization projects the rate since the period began to its end, and says when the quota is exhausted",
    () =>
      Effect.gen(function* () {
        const { call, create, service, tenantId } = yield* setting
        const now = yield* DateTime.now
        yield* writeUsage(service.database, tenantId, [
          { at: DateTime.formatIso(now), cost: 1, provider: "openai", input_tokens: 600, output_tokens: 200 }
        ])
        for (const [hour, amount, exhausts] of [
          [12, 1000, "later"],
          [12, 800, "now"],
          [12, 100_000, "never"],
          // In the first tenth of a period its rate says nothing about its end.
          [1, 1000, "later"]
        ] as const) {
          const { id } = yield* create({
            quota: { unit: "tokens", amount },
            period: "day",
            timeZone: zoneWhereItIs(hour, now)
          })
          const before = yield* DateTime.now
          const { body } = yield* call("GET", `${path}/${id}/utilization`)
          const after = yield* DateTime.now
          const start = Date.parse(body.periodStart)
          const span = Date.parse(body.periodEnd) - start
          const [first, last] = [before, after].map(({ epochMilliseconds }) => epochMilliseconds - start) as [
            number,
            number
          ]
          assert.strictEqual(span, 86_400_000)
          isBetween(body.percentElapsed, (100 * first) / span, (100 * last) / span)
          if (hour === 1) assert.isNull(body.projected)
          else isBetween(body.projected, Math.floor((800 * span) / first), Math.floor((800 * span) / last))
          if (exhausts === "never") assert.isNull(body.exhaustsAt)
          else {
            const left = (amount - 800) / 800
            isBetween(Date.parse(body.exhaustsAt) - start, Math.floor(first * (1 + left)), last * (1 + left))
          }
        }
      })
  )

  it.effect("another tenant's subscription is 404", () =>
    Effect.gen(function* () {
      const { create } = yield* setting
      const { id } = yield* create()
      const other = yield* setting
      for (const [method, at, body] of [
        ["GET", `${path}/${id}`],
        ["GET", `${path}/${id}/utilization`],
        ["PUT", `${path}/${id}`, least],
        ["DELETE", `${path}/${id}`]
      ] as const) {
        assertProblem(yield* other.call(method, at, body), 404, "subscription-not-found")
      }
      assert.isEmpty((yield* other.call("GET", path)).body.items)
    })
  )

  const creating =
    (members: object) =>
    ({ key }: { readonly key: string }): Sent => ["POST", path, { key, body: { ...least, ...members } }]
  refuses(
    it,
    [
      ["an id of one's own choice", creating({ id: "0198a5b0-7c00-7000-8000-00000000002a" }), faults("payload.id")],
      ["a status, which the server sets", creating({ status: "active" }), faults("payload.status")],
      ["a zone that is none", creating({ timeZone: "Europe/Atlantis" }), faults("payload.timeZone")],
      ["half a token", creating({ quota: { unit: "tokens", amount: 1.5 } }), faults("payload.quota.amount")],
      ["a period that is none", creating({ period: "minute" }), faults("payload.period")],
      ["the eighth day of a week", creating({ period: "week", anchor: 8 }), faults("payload.anchor")],
      ["an end that is over", creating({ endsAt: "2020-01-01T00:00:00Z" }), faults("payload.endsAt")],
      [
        "a tenant's caller names a tenant",
        (given) => creating({ tenantId: given.tenantId })(given),
        problem(403, "forbidden")
      ]
    ],
    { given: setting, unchanged: ({ call }) => Effect.map(call("GET", path), ({ body }) => body) }
  )
})
