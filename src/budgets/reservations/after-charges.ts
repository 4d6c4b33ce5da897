import { Context, Effect, Layer } from "effect"
import { CurrentPrincipal } from "../../kernel/principal.ts"
import { AfterCharges } from "../ledger/charges-api.ts"
import { Ledger } from "../ledger/service.ts"

export const AfterChargesLayer = Layer.effect(
  AfterCharges,
  Effect.gen(function* () {
    const ledger = yield* Ledger
    return AfterCharges.of((httpEffect) =>
      Effect.withFiber((fiber) => {
        const { tenantId = null } = Context.get(fiber.context, CurrentPrincipal)
        return Effect.flatMapEager(ledger.settled(tenantId), () => httpEffect)
      })
    )
  })
)
