import { Context, Effect, Layer, Metric } from "effect"
import { Database } from "../../platform/database/database.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { RollupsRepository } from "./repository.ts"

const atOnce = 10_000
const maxLogged = 10

const differences = Metric.counter("app.usage.differences", {
  description: "Sums that the ledger, the usage rows and their roll-ups gave differently when they were last verified",
  attributes: { unit: "{sum}" },
  incremental: true
})

/** Keeps the sums of usage rows, from which reports are read. */
export class Rollups extends Context.Service<Rollups>()("app/insights/Rollups", {
  make: Effect.gen(function* () {
    const repository = yield* RollupsRepository
    const database = yield* Database
    // An increase shows only in a series that was there before it.
    yield* Metric.update(differences, 0)

    /** Until the outbox has no batch that another replica does not have in hand. */
    const fold = Effect.gen(function* () {
      while ((yield* repository.fold(atOnce)) === atOnce);
    }).pipe(Effect.withSpan("Rollups.fold"))

    yield* repeatJob("fold usage into roll-ups", "1 second", fold)

    const verify = Effect.gen(function* () {
      const found = yield* repository.differences
      yield* Metric.update(differences, found.length)
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

    return {
      fold,
      rebuild: repository.rebuild,
      verify,
      /** For how long the oldest usage has waited for the roll-ups. */
      waitingSeconds: database.read("all", repository.waitingSeconds)
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(RollupsRepository.layer))
}
