import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { plansLayer, runProgram } from "../budgets/plans/programs.ts"
import { diceOf } from "../contract/dice.ts"
import { OwnDatabase } from "../support/clock.ts"
import { asSuperuser } from "../support/statements.ts"

/** Faults that people make in plans, each as a change to one of the functions. */
const mutants = {
  "a hold that does not follow what the plan spends": [
    "budget_move",
    "PERFORM budget_plan_hold(plan_tenants, plan_ids, rests);",
    ""
  ],
  "a call that asks held caps again": [
    "budget_draw_on_plans",
    "WHERE e.cap = needs[g.place].cap_id",
    "WHERE false AND e.cap = needs[g.place].cap_id"
  ],
  "calls under a plan that is not active": ["budget_draw_on_plans", "r.status <> 'active'", "false"],
  "an ended plan that holds": ["budget_plan_rest", "CASE WHEN status IN ('active', 'suspended')", "CASE WHEN true"],
  "a call that is settled as if it had no plan": ["budget_lock_plain", "AND b.plan_id IS NULL AND", "AND"],
  "calls that outlive their plan": ["budget_plans_end", "AND b.state = 'open' AND b.origin = 'api'", "AND false"],
  "an extension that does not ask new periods": [
    "budget_plan_extend",
    "CASE WHEN c = ANY (l.counter_ids) THEN rest_after - rest ELSE rest_after END",
    "rest_after - rest"
  ],
  "money of an old period that comes back into a new one": [
    "budget_move",
    "WHERE r.holds AND NOT b.counter_ids @> o.counter_ids",
    "WHERE false"
  ],
  "a dead plan that refuses others": [
    "budget_has_due",
    ") OR EXISTS (\n    SELECT FROM budget_plans l",
    ") OR false AND EXISTS (\n    SELECT FROM budget_plans l"
  ],
  "< for <= at a start": ["budget_plan_room", "+ need > CASE WHEN binds", "+ need >= CASE WHEN binds"],
  "a plan completed with open calls": [
    "budget_plan_close",
    "ending = 'completed' AND verdict = 'done' AND",
    "false AND"
  ]
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

const programs = 40

/** Whether some random history shows a difference from the model. */
const isFound = Effect.gen(function* () {
  for (let program = 0; program < programs; program++) {
    const exit = yield* Effect.exit(runProgram(diceOf(`1 ${program}`), program % 2 === 0))
    if (Exit.isFailure(exit)) return true
  }
  return false
})

describe("the model of plans", () => {
  it.effect("agrees with them as they are", () =>
    Effect.gen(function* () {
      assert.isFalse(yield* isFound)
    }).pipe(Effect.provide(plansLayer))
  )

  for (const [what, mutant] of Object.entries(mutants)) {
    it.effect(`kills the mutant: ${what}`, () =>
      Effect.gen(function* () {
        yield* mutate(mutant)
        assert.isTrue(yield* isFound)
      }).pipe(Effect.provide(plansLayer))
    )
  }
})
