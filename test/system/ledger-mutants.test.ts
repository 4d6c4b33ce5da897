import { assert, describe, it } from "@effect/vitest"
import { Array as Arr, Effect, Exit } from "effect"
import { OwnDatabase } from "../support/clock.ts"
import { guards } from "../support/ledger-guards.ts"
import { ledgerLayer } from "../support/ledger.ts"
import { asSuperuser } from "../support/statements.ts"

type Mutant = readonly [name: string, ...changes: ReadonlyArray<readonly [before: string, after: string]>]

/** Faults that people make in ledgers, each as changes to one of the functions. */
const mutants = {
  "counters locked in no order": [
    "budget_lock_counters",
    ["ORDER BY b.tenant_id, b.id FOR UPDATE", "ORDER BY random() FOR UPDATE"]
  ],
  "no status guard": [
    "budget_decide_closings",
    ["WHEN r.kind = 'settle' AND r.state = 'settled' THEN", "WHEN false THEN"]
  ],
  "no status guard where all are settled together": ["budget_lock_plain", ["AND b.state = 'open' AND", "AND"]],
  "counters before idempotency": [
    "budget_pair_requests",
    ["WHEN q.ordinality = ANY (replayed) THEN 'replay'", "WHEN false THEN 'replay'"]
  ],
  "no idempotency where all have room": ["budget_decide_each", ["CONTINUE WHEN v.verdict IS NOT NULL;", ""]],
  "< for <=": ["budget_has_room", ["need <= state.limit_amount", "need < state.limit_amount"]],
  "room for all under one known counter": ["budgets_reserve", ["b.spent + b.reserved <= f.most", "true"]],
  "room for all under several known ones": [
    "budgets_reserve",
    ["has_room := has_room AND c.has_room", "has_room := c.has_room"]
  ],
  "a known counter after its period": ["budgets_reserve", ["is_over := is_over OR c.period_end <= moment;", ""]],
  "no lock in the order of known counters": [
    "budgets_reserve",
    ["ORDER BY n.tenant_id, counters[n.ordinality])", "ORDER BY random())"]
  ],
  "room for all under several": ["budget_decide_each", ["lacking := coalesce(lacking, g.place);", ""]],
  "room under several that was there before the lock": [
    "budget_reserve_decide",
    [
      "counters := coalesce(counters, budget_lock_needs(moment, needs, verdicts, has_plans));\n    states := budget_counter_states(moment, needs, counters, has_plans);",
      "states := budget_counter_states(moment, needs, budget_open_counters(needs, moment), has_plans);\n    counters := coalesce(counters, budget_lock_needs(moment, needs, verdicts, has_plans));"
    ]
  ],
  "room that nobody takes under known counters": ["budgets_reserve", ["b.reserved + f.need\n", "b.reserved\n"]],
  "room that nobody takes where it is written": ["budget_write_counters", ["b.reserved + s.added\n", "b.reserved\n"]],
  "room that is not taken back": ["budget_return_needs", ["b.reserved - n.need", "b.reserved"]],
  "room for all": ["budget_has_room", ["need <= state.limit_amount - (state.spent + state.reserved)", "true"]],
  "room that nobody takes": ["budget_decide_each", ["s.added := s.added + need;", ""]],
  "what one is given is there for the next": ["budget_decide_each", ["s.reserved := s.reserved + need;", ""]],
  "what is denied is counted": ["budget_decide_each", ["IF v.verdict <> 'open' THEN", "IF false THEN"]],
  "what is admitted is counted twice": [
    "budget_write_counters",
    ["b.reserved + s.added\n", "b.reserved + 2 * s.added\n"]
  ],
  "no inline reclaim": ["budget_has_due", ["RETURN EXISTS", "RETURN false AND EXISTS"]],
  floats: ["budget_has_room", ["state.limit_amount - (state.spent", "state.limit_amount::real - (state.spent"]],
  "some caps move although another has no room": [
    "budget_decide_each",
    ["IF lacking IS NULL OR is_raising", "IF lacking IS DISTINCT FROM v.governs[1].place OR is_raising"]
  ],
  "no lock where requests have keys": ["budget_lock_needs", ["ORDER BY b.tenant_id, b.id FOR UPDATE OF b) l;", ") l;"]],
  "counters locked in no order where requests have keys": [
    "budget_lock_needs",
    ["ORDER BY b.tenant_id, b.id FOR UPDATE OF b) l;", "ORDER BY random() FOR UPDATE OF b) l;"]
  ],
  "no lock at all": ["budget_lock_counters", ["ORDER BY b.tenant_id, b.id FOR UPDATE", "ORDER BY b.tenant_id, b.id"]]
} satisfies Record<string, Mutant>

/** Applies a mutant to the test's database; it must change something. */
const mutate = Effect.fnUntraced(function* ([name, ...changes]: Mutant) {
  yield* asSuperuser(yield* OwnDatabase, (sql) =>
    Effect.gen(function* () {
      const [row] = yield* sql<{ readonly definition: string }>`
        SELECT pg_get_functiondef(oid) AS definition FROM pg_proc WHERE proname = ${name}`
      let definition = row?.definition ?? ""
      for (const [before, after] of changes) {
        assert.include(definition, before)
        definition = definition.replace(before, after)
      }
      yield* sql.unsafe(definition)
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
