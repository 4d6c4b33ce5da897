import { Context, Effect, Layer } from "effect"
import { type Estimate, type Usage } from "../ledger/domain.ts"
import { PriceUnknown } from "../ledger/problem-domain.ts"

/** What calls of models cost, in nano-dollars; the catalogue of models implements it. */
export class Prices extends Context.Service<
  Prices,
  {
    /** The most that a call may cost. */
    estimate(estimate: Estimate): Effect.Effect<bigint, PriceUnknown>
    /** What a call did cost. */
    charge(usage: Usage): Effect.Effect<bigint, PriceUnknown>
  }
>()("app/budgets/Prices") {
  /** Where no catalogue is: no model has a price. */
  static readonly layerNone = Layer.succeed(
    Prices,
    Prices.of({
      estimate: ({ model }) => Effect.fail(new PriceUnknown({ model })),
      charge: ({ model }) => Effect.fail(new PriceUnknown({ model }))
    })
  )
}
