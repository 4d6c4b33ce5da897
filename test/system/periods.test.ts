import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { faultsOf, PeriodsDatabase, zones } from "../support/periods.ts"

layer(PeriodsDatabase.layer, { excludeTestServices: true, timeout: "60 seconds" })("a period", (it) => {
  for (const zone of zones) {
    it.effect(`parts time without a gap or an overlap in ${zone}, day by day`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* faultsOf(zone, "23 hours", "7 minutes"), [])
      })
    )
  }
})
