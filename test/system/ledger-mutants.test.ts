import { assert, describe, it } from "@effect/vitest"
import { Array as Arr, Effect, Exit } from "effect"
import { OwnDatabase } from "../support/clock.ts"
import { guards } from "../support/ledger-guards.ts"
import { ledgerLayer } from "../support/ledger.ts"
import { asSuperuser } from "../support/statements.ts"

/** Faults that people make in ledgers, each as a change to one of the functions. */
const mutants = {
  "counters locked in no order": [
    "budget_lock_counters",
    "ORDER BY b.tenant_id, b.id FOR UPDATE",
    "ORDER BY random() FOR UPDATE"
  ],
  "no status guard": ["budgets_close_v1", "WHEN r.kind = 'settle' AND r.state = 'settled' THEN", "WHEN false THEN"],
  "counters before idempotency": ["budgets_reserve_v2", "verdicts[at] := 'replay'", "verdicts[at] := NULL"],
  "< for <=": ["budgets_reserve_v2", "> limits[at] THEN", ">= limits[at] THEN"],
  "no inline reclaim": ["budgets_reserve_v2", "due[at] := EXISTS", "due[at] := false AND EXISTS"],
  floats: ["budgets_reserve_v2", "spents bigint[]; reserveds bigint[]", "spents real[]; reserveds real[]"],
  "some caps move although another has no room": [
    "budgets_reserve_v2",
    "IF fails IS NOT NULL AND NOT approving",
    "IF fails = first AND NOT approving"
  ],
  "no lock at all": ["budget_lock_counters", "ORDER BY b.tenant_id, b.id FOR UPDATE", "ORDER BY b.tenant_id, b.id"]
} as const

/** Applies a mutant to the test's database; it must change something. */
const mutate = Effect.fnUntraced(function* ([name, before, after]: (typeof mutants)[keyof typeof mutants]) {
  yield* asSuperuser(yield* OwnDatabase, (sql) =>
    Effect.gen(function* () {
      const [row] = yield* sql<{ readonly definition: string }>`
        SELECT pg_get_functiondef(oid) AS definition FROM pg_proc WHERE proname = ${name}`
      const definition = row?.definition ?? ""
      assert.include(definition, before)
      yield* sql.unsafe(definition.replace(before, after))
    })
  )
})

/** The guards that fail. */
const failing = Effect.gen(function* () {
  const exits = yield* Effect.forEach(Object.entries(guards), ([what, guard]) =>
    Effect.map(Effect.exit(guard), (exit) => (Exit.isFailure(exit) ? [what] : []))
  )
  return exits.flat()
})

describe("the guards of the ledger", () => {
  it.effect("hold as it is", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* failing, [])
    }).pipe(Effect.provide(ledgerLayer()))
  )

  for (const [what, mutant] of Object.entries(mutants)) {
    it.effect(`kill the mutant: ${what}`, () =>
      Effect.gen(function* () {
        yield* mutate(mutant)
        // Some show only where two meet at the right moment, so the guards have several chances.
        assert.isNotEmpty(yield* Effect.repeat(failing, { until: Arr.isReadonlyArrayNonEmpty, times: 19 }))
      }).pipe(Effect.provide(ledgerLayer()))
    )
  }
})
