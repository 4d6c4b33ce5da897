import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { foldAll } from "../../support/insights.ts"
import { assertNoDrift, makeSetting } from "../../support/plans.ts"
import { type Sql } from "../../support/races.ts"
import { type Answer, serviceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually, untilBlocked } from "../../support/waiting.ts"

const hour = 3_600_000
const ago = (millis: number) => new Date(Date.now() - millis).toISOString()

type Setting = Effect.Success<typeof setting>
/** Locks what a booking waits for, until the transaction ends. */
type Lock = (sql: Sql, tenantId: string) => Effect.Effect<unknown, unknown>

const lockCounters: Lock = (sql, tenantId) => sql`SELECT FROM budget_counters WHERE tenant_id = ${tenantId} FOR UPDATE`
const lockReservations: Lock = (sql, tenantId) =>
  sql`SELECT FROM budget_reservations WHERE tenant_id = ${tenantId} FOR UPDATE`
const lockUsage: Lock = (sql) => sql`LOCK TABLE usage_rows IN SHARE MODE`

interface Way {
  readonly locks: ReadonlyArray<Lock>
  readonly cap?: object
  /** Prepares the booking, which is then asked of another replica than the bill. */
  prepare(setting: Setting): Effect.Effect<Effect.Effect<unknown>, unknown>
}

let made = 0
const event = (members: object) => ({
  specversion: "1.0",
  id: `range-${++made}`,
  source: "https://batch.example.com",
  type: "com.application-manager.usage.recorded",
  data: { actualUsd: 1, model: "reported", provider: "own" },
  ...members
})

/** A tenant, of which one replica makes bills while another one books. */
const setting = Effect.gen(function* () {
  const service = yield* TestService
  const replica = yield* service.replica
  const made = yield* makeSetting(service, [])
  const { key } = made
  const book = (method: string, path: string, body: unknown, headers: Record<string, string> = {}) =>
    Effect.map(replica.call(method, path, { key, body, headers }), (answer) => {
      assert.isBelow(answer.status, 300, answer.text)
      return answer
    })
  const bill = (from: string, to: string, more: object = {}): Effect.Effect<Answer> =>
    Effect.map(made.call("POST", "/api/insights/billing-report", { from, to, format: "json", ...more }), (answer) => {
      assert.strictEqual(answer.status, 200, answer.text)
      return answer
    })
  const cap = (members: object = {}) =>
    Effect.map(
      made.call("POST", "/api/budgets/caps", { name: "all", unit: "usd", limit: 1000, period: "month", ...members }),
      ({ status, text }) => assert.strictEqual(status, 201, text)
    )
  const charge = Effect.fnUntraced(function* (amountUsd: number) {
    const { body } = yield* book("POST", "/api/spend/reserve", { amountUsd })
    return yield* book("POST", "/api/spend/reconcile", { reservationId: body.id, actualUsd: amountUsd })
  })
  const assertAgrees = Effect.gen(function* () {
    yield* foldAll(service.database)
    const found = yield* asSuperuser(service.database, (sql) => sql`SELECT * FROM usage_differences()`)
    assert.deepStrictEqual(found, [])
    yield* assertNoDrift(service.database)
  })
  const closings = asSuperuser(
    service.database,
    (sql) => sql`SELECT id FROM billing_closings WHERE tenant_id = ${made.tenantId}`
  )
  return { ...made, service, replica, book, bill, cap, charge, closings, assertAgrees }
})

const reserved = ({ book }: Setting) =>
  Effect.map(book("POST", "/api/spend/reserve", { amountUsd: 2 }), ({ body }) => body.id as string)
const settled = (given: Setting) =>
  Effect.map(reserved(given), (reservationId) =>
    given.book("POST", "/api/spend/reconcile", { reservationId, actualUsd: 1 })
  )

const ways: Readonly<Record<string, Way>> = {
  "a settlement": { locks: [lockCounters, lockReservations, lockUsage], prepare: settled },
  "a settlement on a rolling window": {
    locks: [lockCounters],
    cap: { period: "rolling", windowSeconds: 3600 },
    prepare: settled
  },
  "a settlement under an idempotency key": {
    locks: [lockCounters],
    prepare: (given) =>
      Effect.map(reserved(given), (reservationId) =>
        given.book(
          "POST",
          "/api/spend/reconcile",
          { reservationId, actualUsd: 1 },
          { "idempotency-key": crypto.randomUUID() }
        )
      )
  },
  "a settlement after its plan has ended": {
    locks: [lockCounters],
    prepare: Effect.fnUntraced(function* (given: Setting) {
      const { id: planId } = yield* given.start()
      const { body } = yield* given.draw(planId, 2)
      yield* given.planCall(planId, "abort")
      return given.book("POST", "/api/spend/reconcile", { reservationId: body.id, actualUsd: 1 })
    })
  },
  "a refund": {
    locks: [lockCounters, lockUsage],
    prepare: Effect.fnUntraced(function* (given: Setting) {
      const { body } = yield* given.charge(5)
      return Effect.map(
        given.replica.call("POST", "/api/spend/refunds", {
          body: { chargeId: body.charge.id, amountUsd: 2, reason: "Counted twice" }
        }),
        ({ status, text }) => assert.strictEqual(status, 201, text)
      )
    })
  },
  "an event without a time": {
    locks: [lockCounters],
    prepare: ({ book, charge }) =>
      Effect.as(
        charge(1),
        book("POST", "/api/cloudevents", [event({})], { "content-type": "application/cloudevents-batch+json" })
      )
  },
  "an event whose time is in the range": {
    locks: [lockCounters, lockUsage],
    prepare: ({ book, charge }) =>
      Effect.as(
        charge(1),
        Effect.suspend(() =>
          book("POST", "/api/cloudevents", [event({ time: ago(hour / 2) }), event({ time: ago(2 * hour) })], {
            "content-type": "application/cloudevents-batch+json"
          })
        )
      )
  },
  "a call of the gateway": {
    locks: [lockUsage],
    prepare: ({ key, replica }) =>
      Effect.succeed(
        Effect.map(
          replica.call("POST", "/v1/chat/completions", {
            key,
            body: { model: "loopback-1", messages: [{ role: "user", content: "Hello" }] }
          }),
          ({ status, text }) => assert.strictEqual(status, 200, text)
        )
      )
  },
  "the end of a gateway's reservation that expired": {
    locks: [lockCounters, lockUsage],
    prepare: (given) =>
      Effect.map(reserved(given), (id) =>
        asSuperuser(
          given.service.database,
          (sql) => sql`
            UPDATE budget_reservations SET origin = 'gateway', expires_at = now() - interval '1 second'
            WHERE id = ${id}`
        ).pipe(
          Effect.andThen(
            eventually(given.call("GET", `/api/spend/reservations/${id}`), ({ body }) => body.state === "settled")
          ),
          Effect.orDie
        )
      )
  }
}

layer(serviceLayer({ Usage__LateDays: "60" }), { excludeTestServices: true, timeout: 120_000 })(
  "the range of a signed bill",
  (it) => {
    for (const [name, { cap, locks, prepare }] of Object.entries(ways)) {
      for (const [place, lock] of locks.entries()) {
        it.effect(`stays as it was signed, though ${name} had begun (lock ${place + 1})`, () =>
          Effect.gen(function* () {
            const given = yield* setting
            yield* given.cap(cap)
            yield* given.charge(3)
            const book = yield* prepare(given)
            const from = ago(hour)
            const { booking, signed, to } = yield* asSuperuser(given.service.database, (sql) =>
              sql.withTransaction(
                Effect.gen(function* () {
                  yield* lock(sql, given.tenantId)
                  const booking = yield* Effect.forkDetach(book)
                  yield* untilBlocked(sql)
                  const to = ago(0)
                  return { booking, to, signed: yield* given.bill(from, to, { sign: true }) }
                })
              )
            )
            yield* Fiber.join(booking)
            const count = Effect.map(given.bill(ago(3 * hour), ago(-hour)), ({ body }) => body.lines.length as number)
            yield* eventually(count, (lines) => lines > signed.body.lines.length)
            const again = yield* given.bill(from, to)
            assert.deepStrictEqual([again.body.lines, again.body.totals], [signed.body.lines, signed.body.totals])
            yield* given.assertAgrees
          })
        )
      }
    }

    it.effect("has what was booked before it was closed, and committed since", () =>
      Effect.gen(function* () {
        const given = yield* setting
        yield* given.cap()
        const { body: charged } = yield* given.charge(5)
        const { database } = given.service
        const from = ago(hour)
        const { signing, to } = yield* asSuperuser(database, (sql) =>
          sql.withTransaction(
            Effect.gen(function* () {
              const refund = {
                charge: charged.charge.id,
                amount: "2000000000",
                id: crypto.randomUUID(),
                principal: "test",
                system: true,
                reason: "Counted twice",
                entries: []
              }
              yield* sql`SELECT budgets_once('refund', ${JSON.stringify(refund)}::text::json)`
              const to = ago(-1000)
              const signing = yield* Effect.forkDetach(given.bill(from, to, { sign: true }))
              yield* eventually(given.closings, (rows) => rows.length === 1)
              return { signing, to }
            })
          )
        )
        const signed = yield* Fiber.join(signing)
        assert.strictEqual(signed.body.totals.costUsd, 3)
        assert.strictEqual((yield* given.bill(from, to)).body.totals.costUsd, 3)
      })
    )

    it.effect("does not hold up what is booked while a bill waits for it", () =>
      Effect.gen(function* () {
        const given = yield* setting
        yield* given.charge(1)
        const { database } = given.service
        const signing = yield* asSuperuser(database, (sql) =>
          sql.withTransaction(
            Effect.gen(function* () {
              yield* sql`SELECT usage_keep_bills(nextval('usage_batches'), now())`
              const signing = yield* Effect.forkDetach(given.bill(ago(hour), ago(0), { sign: true }))
              yield* eventually(given.closings, (rows) => rows.length === 1)
              yield* given.charge(1)
              return signing
            })
          )
        )
        assert.strictEqual((yield* Fiber.join(signing)).body.totals.costUsd, 1)
      })
    )

    it.effect("stays as it was signed while charges and refunds come from two replicas", () =>
      Effect.gen(function* () {
        const given = yield* setting
        yield* given.cap()
        const work = Effect.forEach(
          Array.from({ length: 24 }, (_, index) => index),
          Effect.fnUntraced(function* (index) {
            const { body } = yield* given.charge(1)
            if (index % 3 > 0) return
            const refund = yield* given.service.call("POST", "/api/spend/refunds", {
              body: { chargeId: body.charge.id, amountUsd: 0.5, reason: "Half" }
            })
            assert.strictEqual(refund.status, 201, refund.text)
          }),
          { concurrency: 6 }
        )
        const bills = Effect.forEach(
          Array.from({ length: 8 }),
          Effect.fnUntraced(function* () {
            const [from, to] = [ago(hour), ago(0)]
            return [from, to, yield* given.bill(from, to, { sign: true })] as const
          })
        )
        const [, signed] = yield* Effect.all([work, bills], { concurrency: "unbounded" })
        for (const [from, to, { body }] of signed) {
          const again = yield* given.bill(from, to)
          assert.deepStrictEqual([again.body.lines, again.body.totals], [body.lines, body.totals])
        }
        yield* given.assertAgrees
      })
    )
  }
)
