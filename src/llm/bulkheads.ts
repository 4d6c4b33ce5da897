import { Context, Effect, Layer, type Scope, Semaphore } from "effect"
import { ProviderFailure } from "./providers/provider.ts"
import { type RunningProvider } from "./running.ts"

const full = new ProviderFailure({
  reason: "busy",
  sent: false,
  error: { status: 503, message: "Too many calls wait for this provider.", code: "overloaded" },
  retryAfterSeconds: 1
})

/** Keeps one provider's calls from taking everything: so many at once, as many more wait, and the rest are refused. */
export class Bulkheads extends Context.Service<
  Bulkheads,
  {
    /** Takes a place at a provider until the scope ends. */
    enter(provider: RunningProvider): Effect.Effect<void, ProviderFailure, Scope.Scope>
  }
>()("app/llm/Bulkheads") {
  static readonly layer = Layer.sync(Bulkheads, () => {
    const places = new Map<string, { readonly semaphore: Semaphore.Semaphore; size: number; waiting: number }>()
    const placesAt = Effect.fnUntraced(function* ({ id, maxConcurrency }: RunningProvider) {
      const known = places.get(id)
      if (known === undefined) {
        const made = { semaphore: Semaphore.makeUnsafe(maxConcurrency), size: maxConcurrency, waiting: 0 }
        places.set(id, made)
        return made
      }
      if (known.size !== maxConcurrency) {
        known.size = maxConcurrency
        yield* known.semaphore.resize(maxConcurrency)
      }
      return known
    })
    return Bulkheads.of({
      enter: Effect.fnUntraced(function* (provider) {
        const at = yield* placesAt(provider)
        if (at.waiting >= at.size) return yield* full
        at.waiting++
        yield* Effect.ensuring(
          Semaphore.takeScoped(at.semaphore, 1),
          Effect.sync(() => at.waiting--)
        )
      })
    })
  })
}
