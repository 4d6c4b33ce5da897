import { Cache, Context, Effect, Exit, Layer } from "effect"
import { Database } from "../../platform/database/database.ts"
import { type PlanId } from "../ledger/domain.ts"
import { type CallPlan, CallPlansRepository } from "../ledger/plan-repository.ts"
import { PlanNotFound } from "../ledger/problem-domain.ts"

/** The plans that calls name, of any tenant; what is kept of them never changes. */
export class CallPlans extends Context.Service<CallPlans, { get(id: PlanId): Effect.Effect<CallPlan, PlanNotFound> }>()(
  "app/budgets/CallPlans"
) {
  static readonly layerNoDeps = Layer.effect(
    CallPlans,
    Effect.gen(function* () {
      const database = yield* Database
      const repository = yield* CallPlansRepository
      const plans = yield* Cache.makeWith(
        (id: PlanId) =>
          database.transaction("all", repository.find(id)).pipe(
            Effect.flatMap(Effect.fromOption),
            Effect.mapError(() => new PlanNotFound({}))
          ),
        { capacity: 50_000, timeToLive: (exit) => (Exit.isSuccess(exit) ? "1 day" : 0) }
      )
      return CallPlans.of({ get: (id) => Cache.get(plans, id) })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(CallPlansRepository.layer))
}
