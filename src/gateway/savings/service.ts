import { Context, Effect, Layer } from "effect"
import { type BudgetSubject } from "../../budgets/ledger/protocol-domain.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { type CacheSaving, CacheSavingsRepository } from "./repository.ts"

/** Records what responses from the cache would have cost, once a second: a cached response waits for no database. */
export class CacheSavings extends Context.Service<CacheSavings>()("app/gateway/CacheSavings", {
  make: Effect.gen(function* () {
    const repository = yield* CacheSavingsRepository
    const pending = new Map<string, CacheSaving>()

    const add = ({ savedNanoUsd, subject }: CacheSaving): void => {
      const key = JSON.stringify([subject.tenantId, subject.plan?.id, Object.entries(subject.dimensions).toSorted()])
      pending.set(key, { subject, savedNanoUsd: savedNanoUsd + (pending.get(key)?.savedNanoUsd ?? 0n) })
    }

    const flush = Effect.suspend(() => {
      if (pending.size === 0) return Effect.void
      const savings = [...pending.values()]
      pending.clear()
      return Effect.onError(repository.insert(savings), () => Effect.sync(() => savings.forEach(add)))
    }).pipe(Effect.withSpan("CacheSavings.flush"))

    yield* Effect.addFinalizer(() => Effect.catchCause(flush, () => Effect.void))
    yield* repeatJob("record what cached responses saved", "1 second", flush)

    return {
      record: (subject: BudgetSubject, savedNanoUsd: bigint): Effect.Effect<void> =>
        Effect.sync(() => add({ subject, savedNanoUsd }))
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(CacheSavingsRepository.layer))
}
