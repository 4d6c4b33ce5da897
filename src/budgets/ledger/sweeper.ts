import { Effect, Layer } from "effect"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Ledger } from "./service.ts"

/** Ends what is due, on any replica: none waits for what another is at work on. */
export const SweeperLayer = Layer.effectDiscard(
  Effect.gen(function* () {
    const ledger = yield* Ledger
    const sweep = Effect.gen(function* () {
      while ((yield* ledger.sweep(null)) > 0);
    })
    yield* repeatJob("end reservations that are due", "1 second", sweep)
  })
)
