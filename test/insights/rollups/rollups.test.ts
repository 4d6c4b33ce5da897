import { assert, layer } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { foldAll } from "../../support/insights.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

const days = ["2026-04-01", "2026-04-02", "2026-05-01"] as const
const agents = ["0198a5b0-7c00-7000-8000-00000000000a", "0198a5b0-7c00-7000-8000-00000000000b"] as const

const between = (minimum: number, maximum: number) =>
  Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum, maximum })))

/** What happens to a ledger: a charge, or a refund of some of one; booked in any order of their times. */
const Booking = Schema.Struct({
  day: Schema.Literals(days),
  minute: between(0, 1439),
  cost: between(0, 2_000_000_000),
  kind: Schema.Literals(["charge", "late", "refund"]),
  method: Schema.Literals(["provider_usage", "reported", "estimated", "unanswered", "aborted"]),
  agent: Schema.NullOr(Schema.Literals(agents)),
  model: Schema.NullOr(Schema.Literals(["gpt-5", "claude-opus"])),
  user: Schema.NullOr(Schema.Literals(["ada", "bob"])),
  tokens: between(0, 100_000),
  latency: Schema.NullOr(between(0, 600_000)),
  status: Schema.NullOr(Schema.Literals([200, 429, 500]))
})
type Booking = typeof Booking.Type

const Fold = Schema.Struct({ fold: between(1, 5) })
const Rebuild = Schema.Struct({ rebuild: Schema.Literals(days) })
const Bookings = Schema.Array(Booking).pipe(Schema.check(Schema.isBetweenLength(1, 25)))

/** Bookings between which roll-ups are folded or a day is rebuilt. */
const History = Schema.Array(Schema.Union([Bookings, Fold, Bookings, Rebuild])).pipe(
  Schema.check(Schema.isBetweenLength(1, 8))
)

const at = ({ day, minute }: Booking) => new Date(Date.parse(day) + minute * 60_000).toISOString()
const costOf = ({ cost, kind }: Booking) => (kind === "refund" ? -(cost + 1) : cost)
const methodOf = ({ kind, method }: Booking) => (kind === "refund" ? "refunded" : method)

const write = (database: TestService["Service"]["database"], tenantId: string, bookings: ReadonlyArray<Booking>) => {
  const rows = bookings.map((one) => ({ ...one, at: at(one), cost: costOf(one), method: methodOf(one) }))
  return asSuperuser(
    database,
    (sql) => sql`
      WITH given AS (
        SELECT g.*, new_id() AS charge_id, new_id() AS reservation_id, nextval('usage_batches') AS batch
        FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS g(at timestamptz, cost bigint, kind text, method text,
          agent uuid, model text, "user" text, tokens bigint, latency bigint, status integer)),
      made AS (
        INSERT INTO usage_rows (tenant_id, charge_id, reservation_id, occurred_at, batch, cost, method, late, created_by,
          agent_id, model, user_id, input_tokens, output_tokens, latency_ms, status)
        SELECT ${tenantId}::uuid, g.charge_id, g.reservation_id, g.at, g.batch, g.cost, g.method, g.kind = 'late', 'test',
          g.agent, g.model, g."user", g.tokens, g.tokens / 7, g.latency, g.status FROM given g),
      entries AS (
        INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, occurred_at,
          late, created_by, counter_ids, buckets)
        SELECT ${tenantId}::uuid, g.charge_id, g.reservation_id, CASE WHEN g.kind = 'refund' THEN 'refund' ELSE 'charge' END,
          g.charge_id, g.cost, g.tokens, 1, g.at, g.kind = 'late', 'test', '{}', '{}' FROM given g)
      INSERT INTO usage_outbox (batch, tenant_id, occurred_at) SELECT g.batch, ${tenantId}::uuid, g.at FROM given g`
  )
}

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("roll-ups of usage", (it) => {
  it.effect.prop(
    "are the fold of the rows and of the ledger after any history of charges, late charges, refunds, folds and rebuilds",
    [History],
    ([steps]) =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { database } = service
        const tenantId = yield* makeTenant(database)
        const { key } = yield* makeKey(service, ["insights:read"], { tenantId })
        const bookings: Array<Booking> = []
        for (const step of steps) {
          if ("fold" in step) yield* asSuperuser(database, (sql) => sql`SELECT usage_fold(${step.fold})`)
          else if ("rebuild" in step) {
            yield* asSuperuser(database, (sql) => sql`SELECT usage_rebuild(${step.rebuild}::date)`)
          } else {
            bookings.push(...step)
            yield* write(database, tenantId, step)
          }
        }
        yield* foldAll(database)
        const differences = yield* asSuperuser(
          database,
          (sql) => sql`SELECT * FROM usage_differences() WHERE tenant_id = ${tenantId}`
        )
        assert.deepStrictEqual(differences, [])

        const range = "from=2026-03-01T00:00:00Z&to=2026-06-01T00:00:00Z&limit=200"
        const sums = new Map<string | null, { cost: number; requests: number; errors: number }>()
        for (const one of bookings) {
          const sum = sums.get(one.model) ?? { cost: 0, requests: 0, errors: 0 }
          sum.cost += costOf(one)
          if (one.kind !== "refund") {
            sum.requests += 1
            if (one.method === "unanswered" || (one.method !== "aborted" && (one.status ?? 0) >= 400)) sum.errors += 1
          }
          sums.set(one.model, sum)
        }
        const { body } = yield* service.call("GET", `/api/insights/by-model?${range}`, { key })
        const found = body.items as ReadonlyArray<{
          readonly key: string | null
          readonly costUsd: number
          readonly requests: number
          readonly errorRate: number
        }>
        assert.sameDeepMembers(
          found.map(({ costUsd, errorRate, key: model, requests }) => ({
            model,
            cost: Math.round(costUsd * 1e9),
            requests,
            errors: Math.round(errorRate * requests)
          })),
          [...sums].map(([model, sum]) => Object.assign({ model }, sum))
        )
      }),
    { arbitrary: { runs: 12 }, timeout: 60_000 }
  )
})
