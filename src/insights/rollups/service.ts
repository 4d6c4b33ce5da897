import { Context, Effect, Layer } from "effect"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { RollupsRepository } from "./repository.ts"

const atOnce = 10_000
const maxLogged = 10

/** Keeps the sums of usage rows, from which reports are read. */
export class Rollups extends Context.Service<Rollups>()("app/insights/Rollups", {
  make: Effect.gen(function* () {
    const repository = yield* RollupsRepository

    /** Until the outbox has no batch that another replica does not have in hand. */
    const fold = Effect.gen(function* () {
      while ((yield* repository.fold(atOnce)) === atOnce);
    }).pipe(Effect.withSpan("Rollups.fold"))

    yield* repeatJob("fold usage into roll-ups", "1 second", fold)

    const verify = Effect.gen(function* () {
      const found = yield* repository.differences
      for (const { day, expected, found: other, tenantId, what } of found.slice(0, maxLogged)) {
        yield* Effect.logError(`The usage of tenant ${tenantId} on ${day} differs in ${what}: ${expected}, ${other}`)
      }
      return found
    })
    yield* repeatJob(
      "verify roll-ups of usage",
      "1 hour",
      Effect.flatMap(repository.claimVerification, (isClaimed) => (isClaimed ? verify : Effect.void))
    )

    return { fold, rebuild: repository.rebuild, verify }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(RollupsRepository.layer))
}
