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
  "no status guard": ["budgets_close", ["WHEN r.kind = 'settle' AND r.state = 'settled' THEN", "WHEN false THEN"]],
  "no status guard where all are settled together": ["budgets_close", ["AND b.state = 'open' AND", "AND"]],
  "counters before idempotency": [
    "budget_reserve_decide",
    ["request_verdicts[request] := 'replay'", "request_verdicts[request] := NULL"]
  ],
  "no idempotency where all have room": ["budget_reserve_decide", ["AND replayed = '{}'", ""]],
  "< for <=": [
    "budget_reserve_decide",
    ["> counter_limits[counter] THEN", ">= counter_limits[counter] THEN"],
    ["needs[counter].need <= counter_rooms[counter]", "needs[counter].need < counter_rooms[counter]"]
  ],
  "room for all under one known counter": ["budgets_reserve", ["b.spent + b.reserved <= n.most", "true"]],
  "room for all under several known ones": ["budgets_reserve", ["min(m.rest) >= 0", "true"]],
  "a known counter after its period": [
    "budgets_reserve",
    ["b.period_end <= moment\n", "false\n"],
    ["min(m.period_end) <= moment OR", ""]
  ],
  "no lock in the order of known counters": ["budgets_reserve", ["ORDER BY k.tenant_id, k.id)", "ORDER BY random())"]],
  "room for all under several": [
    "budgets_reserve",
    ["AND k.need <= k.most - o.used", ""],
    ["bool_and(m.need <= m.most - m.used)", "bool_and(true)"]
  ],
  "room under several that was there before the lock": [
    "budgets_reserve",
    ["bool_and(m.need <= m.most - m.used)", "bool_and(true)"]
  ],
  "room that nobody takes under one cap": ["budgets_reserve", ["b.reserved + n.need\n", "b.reserved\n"]],
  "room that nobody takes under several": [
    "budgets_reserve",
    ["reserved = b.reserved + f.need", "reserved = b.reserved"],
    ["reserved = b.reserved + f.need", "reserved = b.reserved"]
  ],
  "room that is not taken back": ["budget_return_needs", ["b.reserved - n.need", "b.reserved"]],
  "room for all": [
    "budget_reserve_decide",
    ["(needs[counter].need <= counter_rooms[counter] + counter_slacks[counter]) IS NOT TRUE", "false"]
  ],
  "room that nobody takes": ["budget_reserve_decide", ["counter_deltas[counter] := needs[counter].need;", ""]],
  "what had room before somebody had none is counted twice": [
    "budget_reserve_decide",
    ["counter_deltas := array_fill(0::bigint, ARRAY[coalesce(cardinality(counters), 0)]);", ""]
  ],
  "no inline reclaim": [
    "budget_reserve_decide",
    ["counter_dues[counter] := EXISTS", "counter_dues[counter] := false AND EXISTS"]
  ],
  floats: [
    "budget_reserve_decide",
    ["counter_spents bigint[]; counter_reserveds bigint[]", "counter_spents real[]; counter_reserveds real[]"]
  ],
  "some caps move although another has no room": [
    "budget_reserve_decide",
    ["IF failing_pair IS NOT NULL AND NOT is_approving", "IF failing_pair = first_pair AND NOT is_approving"]
  ],
  "counters locked in no order where all are there": [
    "budgets_reserve",
    ["ORDER BY k.tenant_id, o.id)", "ORDER BY random())"]
  ],
  "no lock where requests have keys": [
    "budget_reserve_decide",
    ["ORDER BY b.tenant_id, b.id FOR UPDATE OF b) l;\n      END IF;", ") l;\n      END IF;"]
  ],
  "counters locked in no order where requests have keys": [
    "budget_reserve_decide",
    [
      "ORDER BY b.tenant_id, b.id FOR UPDATE OF b) l;\n      END IF;",
      "ORDER BY random() FOR UPDATE OF b) l;\n      END IF;"
    ]
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
