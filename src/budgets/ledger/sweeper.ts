import { Context, Effect, Layer } from "effect"
import { CurrentPrincipal } from "../../kernel/principal.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { AfterCharges } from "./api.ts"
import { Ledger } from "./service.ts"

export const AfterChargesLayer = Layer.effect(
  AfterCharges,
  Effect.gen(function* () {
    const ledger = yield* Ledger
    return AfterCharges.of((httpEffect) =>
      Effect.withFiber((fiber) => {
        const { tenantId = null } = Context.get(fiber.context, CurrentPrincipal)
        return Effect.flatMapEager(ledger.flushSettlements(tenantId), () => httpEffect)
      })
    )
  })
)

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
