import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Ledger } from "../../../src/budgets/ledger/service.ts"
import { OwnDatabase } from "../../support/clock.ts"
import { ledgerLayer, makeTenant } from "../../support/ledger.ts"
import { asSuperuser } from "../../support/statements.ts"

const many = 20_000

layer(ledgerLayer(), { timeout: "60 seconds" })("the fold of the ledger", (it) => {
  it.effect("is compared with many counters in one pass", () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const tenantId = yield* makeTenant
      yield* asSuperuser(yield* OwnDatabase, (sql) =>
        Effect.gen(function* () {
          const id = sql.literal("('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid")
          const rows = sql`generate_series(1, ${many}::integer) AS n`
          yield* sql`
            INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at,
              spent, reserved)
            SELECT ${tenantId}::uuid, ${id}, ${tenantId}::uuid, n::text, '-infinity', 'infinity', 'usd', now(),
              CASE n WHEN 4711 THEN 6 ELSE 5 END, 7 FROM ${rows}`
          yield* sql`
            INSERT INTO budget_reservations (tenant_id, id, state, origin, amount, tokens, ttl_seconds, expires_at,
              created_at, created_by, counter_ids)
            SELECT ${tenantId}::uuid, ${id}, 'open', 'api', 7, 0, 300, now(), now(), 'system', ARRAY[${id}] FROM ${rows}`
          yield* sql`
            INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests,
              occurred_at, created_by, counter_ids, buckets)
            SELECT ${tenantId}::uuid, ${id}, ${id}, 'charge', ${id}, 5, 0, 1, now(), 'system', ARRAY[${id}], '{}'
            FROM ${rows}`
        })
      )
      // The pool's statements end after thirty seconds; looked up counter by counter it took minutes.
      const drift = yield* ledger.drift
      assert.deepStrictEqual(
        drift.map(({ counterKey, reserved, spent, spentFold }) => ({ counterKey, reserved, spent, spentFold })),
        [{ counterKey: "4711", reserved: 7n, spent: 6n, spentFold: "5" }]
      )
    })
  )
})
