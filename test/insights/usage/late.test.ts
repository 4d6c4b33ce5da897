import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { foldAll } from "../../support/insights.ts"
import { assertNoDrift, makeSetting } from "../../support/plans.ts"
import { type Answer, serviceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { untilBlocked } from "../../support/waiting.ts"

const hour = 3_600_000
const day = 24 * hour
const ago = (millis: number) => new Date(Date.now() - millis).toISOString()
const dateOf = (time: string) => time.slice(0, 10)

interface Row {
  readonly model: string
  readonly occurredAt: string
  readonly eventTime: string | null
  readonly costUsd: number
  readonly late: boolean
}

let made = 0

/** An event that reports usage. */
const event = (model: string, time: string | undefined, actualUsd: number) => ({
  specversion: "1.0",
  id: `late-${++made}`,
  source: "https://batch.example.com",
  type: "com.application-manager.usage.recorded",
  ...(time === undefined ? {} : { time }),
  data: { actualUsd, model, provider: "own" }
})

/** How a tenant reports usage, and what its reports, its bills and its ledger have of it. */
const setting = Effect.gen(function* () {
  const service = yield* TestService
  const { database } = service
  const { call, key, tenantId, utilization } = yield* makeSetting(service, [{ limit: 1000 }])
  const publish = Effect.fnUntraced(function* (...events: ReadonlyArray<object>) {
    const headers = { "content-type": "application/cloudevents-batch+json" }
    const answer = yield* service.call("POST", "/api/cloudevents", { key, body: events, headers })
    assert.strictEqual(answer.status, 201, answer.text)
  })
  const rows = Effect.map(
    call("GET", `/api/usage?from=${ago(100 * day)}&limit=200`),
    ({ body }) => body.items as ReadonlyArray<Row>
  )
  const rowOf = (model: string) =>
    Effect.map(rows, (all) => all.find((row) => row.model === model) ?? assert.fail(`no row of ${model}`))
  const costs = Effect.fnUntraced(function* (from: string, to: string) {
    yield* foldAll(database)
    const { body } = yield* call("GET", `/api/insights/by-day?from=${from}&to=${to}`)
    return Object.fromEntries(
      body.items.map(({ costUsd, key }: { readonly costUsd: number; readonly key: string }) => [key, costUsd])
    ) as Readonly<Record<string, number>>
  })
  const bill = (from: string, to: string, more: object = {}): Effect.Effect<Answer> =>
    call("POST", "/api/insights/billing-report", { from, to, format: "json", ...more })
  const assertAgrees = Effect.gen(function* () {
    yield* foldAll(database)
    const found = yield* asSuperuser(
      database,
      (sql) => sql`SELECT * FROM usage_differences() WHERE tenant_id = ${tenantId}`
    )
    assert.deepStrictEqual(found, [])
    yield* assertNoDrift(database)
  })
  return { assertAgrees, bill, call, costs, database, key, publish, rowOf, rows, tenantId, utilization }
})

layer(serviceLayer({ Usage__LateDays: "60" }), { excludeTestServices: true, timeout: 120_000 })("late usage", (it) => {
  it.effect("is booked as of its time, in one batch too, and caps are charged at once", () =>
    Effect.gen(function* () {
      const { assertAgrees, bill, call, costs, publish, rowOf, rows, utilization } = yield* setting
      const times = [ago(3 * day), ago(2 * day), ago(40 * day), ago(2 * day + 1)]
      const now = ago(0)
      yield* publish(...times.map((time, index) => event(`m${index}`, time, index + 1)), event("now", undefined, 10))
      for (const [index, time] of times.entries()) {
        assert.deepInclude(yield* rowOf(`m${index}`), { occurredAt: time, eventTime: time, late: true })
      }
      const unknown = yield* rowOf("now")
      assert.isNull(unknown.eventTime)
      assert.isAtLeast(Date.parse(unknown.occurredAt), Date.parse(now) - 1000)
      assert.lengthOf(yield* rows, 5)
      assert.strictEqual((yield* utilization()).spent, 20)

      const found = yield* costs(ago(50 * day), ago(-day))
      const expected: Record<string, number> = {}
      for (const [index, time] of times.entries()) {
        expected[dateOf(time)] = (expected[dateOf(time)] ?? 0) + index + 1
      }
      for (const [date, cost] of Object.entries(expected)) assert.strictEqual(found[date], cost, date)
      // The day of a zone that begins within an hour is made of rows.
      const [third = ""] = times
      const zoned = yield* call(
        "GET",
        `/api/insights/overview?from=${new Date(Date.parse(third) - 60_000).toISOString()}&to=${new Date(Date.parse(third) + 60_000).toISOString()}&timeZone=Asia/Kathmandu`
      )
      assert.strictEqual(zoned.body.totals.costUsd, 1)
      const billed = yield* bill(ago(41 * day), ago(39 * day))
      assert.strictEqual(billed.body.totals.costUsd, 3)
      const focus = yield* bill(ago(41 * day), ago(39 * day), {
        format: "focus",
        columns: ["BilledCost", "ChargePeriodStart"]
      })
      assert.include(focus.text, `${(times[2] ?? "").slice(0, 13)}:00:00Z`)
      yield* assertAgrees
    })
  )

  it.effect("is folded once, whatever was folded of its days and weeks before", () =>
    Effect.gen(function* () {
      const { assertAgrees, costs, publish } = yield* setting
      for (let round = 1; round <= 4; round++) {
        // One commit has several moments; days that were over have one part each, which is made again.
        yield* publish(
          ...[1, 1, 2, 9, 20, 33].map((days, index) => event(`f${index}`, ago(days * day + index * hour), 1))
        )
        const found = yield* costs(ago(40 * day), ago(0))
        assert.strictEqual(
          Object.values(found).reduce((sum, cost) => sum + cost, 0),
          6 * round
        )
        yield* assertAgrees
      }
    })
  )

  it.effect("is in the partition of its month, which there is before it comes", () =>
    Effect.gen(function* () {
      const { database, publish, tenantId } = yield* setting
      yield* publish(event("p", ago(59 * day), 1), event("q", ago(31 * day), 1))
      const places = yield* asSuperuser(
        database,
        (sql) => sql<{ readonly place: string; readonly month: string }>`
          SELECT tableoid::regclass::text AS place, to_char(occurred_at AT TIME ZONE 'UTC', '"usage_rows_"YYYY_MM') AS month
          FROM usage_rows WHERE tenant_id = ${tenantId}`
      )
      assert.lengthOf(places, 2)
      for (const { month, place } of places) assert.strictEqual(place, month)
    })
  )

  it.effect("is booked as of now where it is too old or in the future, and keeps its own time", () =>
    Effect.gen(function* () {
      const { assertAgrees, call, publish, rowOf } = yield* setting
      const since = Date.now()
      const times = { old: ago(61 * day), older: "1999-12-31T23:59:59.000Z", skewed: ago(-30_000), ahead: ago(-day) }
      yield* publish(...Object.entries(times).map(([model, time]) => event(model, time, 1)))
      for (const [model, time] of Object.entries(times)) {
        const row = yield* rowOf(model)
        assert.strictEqual(row.eventTime, time)
        assert.isAtLeast(Date.parse(row.occurredAt), since - 1000)
        assert.isAtMost(Date.parse(row.occurredAt), Date.now() + 1000)
      }
      const exported = yield* call("GET", `/api/usage/export?format=jsonl&model=older`)
      assert.strictEqual(JSON.parse(exported.text).eventTime, times.older)
      const csv = yield* call("GET", `/api/usage/export?format=csv&model=older`)
      assert.match(csv.text, /,eventTime,traceId,error\n.*,1999-12-31T23:59:59\.000Z,,\n$/)
      yield* assertAgrees
    })
  )

  it.effect("never changes a bill that was signed: what would fall into it is booked as of now", () =>
    Effect.gen(function* () {
      const { assertAgrees, bill, publish, rowOf } = yield* setting
      const [from, to] = [ago(10 * day), ago(5 * day)]
      yield* publish(event("before", ago(7 * day), 1))
      // One that was not signed closes nothing, nor does one of another tenant.
      assert.strictEqual((yield* bill(from, to)).body.totals.costUsd, 1)
      const other = yield* setting
      assert.strictEqual((yield* other.bill(from, to, { sign: true })).status, 200)
      yield* publish(event("between", ago(7 * day), 2))
      const signed = yield* bill(from, to, { sign: true })
      assert.strictEqual(signed.body.totals.costUsd, 3)
      const time = ago(7 * day)
      yield* publish(
        event("after", time, 4),
        event("edge", from, 8),
        event("end", to, 16),
        event("open", ago(4 * day), 32)
      )
      const again = yield* bill(from, to)
      assert.deepStrictEqual([again.body.lines, again.body.totals], [signed.body.lines, signed.body.totals])
      for (const model of ["after", "edge"]) {
        const row = yield* rowOf(model)
        assert.isAbove(Date.parse(row.occurredAt), Date.parse(ago(hour)))
        assert.notStrictEqual(row.eventTime, row.occurredAt)
      }
      for (const model of ["end", "open"]) {
        const row = yield* rowOf(model)
        assert.strictEqual(row.occurredAt, row.eventTime)
      }
      yield* assertAgrees
    })
  )

  it.effect("a bill that reaches into the future closes what was over as it was signed", () =>
    Effect.gen(function* () {
      const { bill, publish, rowOf } = yield* setting
      yield* bill(ago(2 * day), ago(-2 * day), { sign: true })
      yield* publish(event("past", ago(day), 1))
      assert.notStrictEqual((yield* rowOf("past")).occurredAt, (yield* rowOf("past")).eventTime)
      const time = ago(0)
      yield* publish(event("since", time, 1))
      assert.strictEqual((yield* rowOf("since")).occurredAt, time)
    })
  )

  it.effect("has all that is in the range of a bill, or none of what comes while it is signed", () =>
    Effect.gen(function* () {
      const { assertAgrees, bill, publish } = yield* setting
      for (let round = 0; round < 8; round++) {
        const [from, to] = [ago((30 - round) * day), ago((29 - round) * day)]
        const time = () => ago((30 - round) * day - hour)
        const [, signed] = yield* Effect.all(
          [
            Effect.forEach([1, 2, 3, 4, 5, 6], () => publish(event("storm", time(), 1), event("storm", time(), 1)), {
              concurrency: 3
            }),
            bill(from, to, { sign: true })
          ],
          { concurrency: "unbounded" }
        )
        const after = yield* bill(from, to)
        assert.deepStrictEqual(after.body.lines, signed.body.lines)
      }
      yield* assertAgrees
    })
  )

  it.effect("that waited for a bill to be signed is booked after the range of the bill", () =>
    Effect.gen(function* () {
      const { database, publish, rowOf, tenantId } = yield* setting
      const [asked, closes] = yield* asSuperuser(database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT pg_advisory_xact_lock(hashtext('billing-closings'))`
            const asked = yield* Effect.forkDetach(publish(event("waited", ago(hour), 1)))
            yield* untilBlocked(sql)
            const [closing] = yield* sql<{ readonly closes: Date }>`
              INSERT INTO billing_closings (id, tenant_id, opens, closes, begun_at, signed_at)
              SELECT gen_random_uuid(), ${tenantId}, at - interval '1 day', at, at, at
              FROM (SELECT date_trunc('milliseconds', clock_timestamp()) AS at) t RETURNING closes`
            return [asked, closing?.closes ?? assert.fail("none")] as const
          })
        )
      )
      yield* Fiber.join(asked)
      assert.isAtLeast(Date.parse((yield* rowOf("waited")).occurredAt), closes.getTime())
    })
  )

  it.effect("counts for the quota of the period that it happened in", () =>
    Effect.gen(function* () {
      const { call, database, publish } = yield* setting
      const subscription = yield* call("POST", "/api/subscriptions", {
        provider: "own",
        name: "Plan",
        priceUsd: 1,
        quota: { unit: "usd", amount: 100 },
        period: "week"
      })
      assert.strictEqual(subscription.status, 201, subscription.text)
      yield* publish(event("week", ago(8 * day), 5), event("now", ago(0), 2))
      yield* foldAll(database)
      const { body } = yield* call("GET", `/api/subscriptions/${subscription.body.id}/utilization`)
      assert.strictEqual(body.used, 2)
    })
  )

  it.effect("is refunded as of the refund, and its refund has its dimensions", () =>
    Effect.gen(function* () {
      const { assertAgrees, bill, call, publish } = yield* setting
      yield* publish(event("refunded", ago(6 * day), 5))
      const { body } = yield* call("GET", `/api/usage?from=${ago(10 * day)}`)
      const service = yield* TestService
      const refund = yield* service.call("POST", "/api/spend/refunds", {
        body: { chargeId: body.items[0].id, amountUsd: 2, reason: "Counted twice" }
      })
      assert.strictEqual(refund.status, 201, refund.text)
      assert.strictEqual((yield* bill(ago(7 * day), ago(5 * day))).body.totals.costUsd, 5)
      const { body: now } = yield* bill(ago(day), ago(-hour), { groupBy: ["model"] })
      assert.deepInclude(now.lines[0], { model: "refunded", costUsd: -2 })
      yield* assertAgrees
    })
  )
})

layer(serviceLayer({ Usage__LateDays: "7", Usage__RetentionDays: "2" }), {
  excludeTestServices: true,
  timeout: 60_000
})("late usage where rows are kept for less", (it) => {
  it.effect("is booked as of now once its month may be dropped", () =>
    Effect.gen(function* () {
      const { publish, rowOf } = yield* setting
      const time = ago(day)
      yield* publish(event("kept", time, 1), event("dropped", ago(3 * day), 1))
      assert.strictEqual((yield* rowOf("kept")).occurredAt, time)
      assert.isAbove(Date.parse((yield* rowOf("dropped")).occurredAt), Date.parse(time))
    })
  )
})
