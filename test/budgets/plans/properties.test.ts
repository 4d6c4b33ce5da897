import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { diceOf } from "../../contract/dice.ts"
import { plansLayer, runProgram } from "./programs.ts"

const seed = process.env.PLANS_SEED ?? "1"
const programs = Number(process.env.PLANS_PROGRAMS ?? "20")

layer(plansLayer, { timeout: "60 seconds" })("plans do what their model does", (it) => {
  let drawn = 0
  let ended = 0

  for (let program = 0; program < programs; program++) {
    // Invariants L1, L12
    it.effect(`program ${seed}/${program}`, () =>
      Effect.gen(function* () {
        const result = yield* runProgram(diceOf(`${seed} ${program}`), program % 2 === 0)
        drawn += result.drawn
        ended += result.ended
      })
    )
  }

  // Histories in which nothing happens would prove nothing.
  it("and enough happens in them", () => {
    assert.isAbove(drawn, programs * 5)
    assert.isAbove(ended, programs)
  })
})
