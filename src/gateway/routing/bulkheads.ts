import { Clock, Context, Effect, Layer } from "effect"
import { type ConnectedProvider } from "../configuration/gateway-snapshot.ts"
import { ProviderFailure } from "../providers/provider.ts"

const full = new ProviderFailure({
  reason: "busy",
  sent: false,
  error: { status: 503, message: "Too many calls wait for this provider.", code: "overloaded" },
  retryAfterSeconds: 1
})

/** One provider's calls: `size` of them run at once, and as many more wait in order of arrival. */
class Bulkhead {
  private taken = 0
  private readonly waiting = new Set<() => void>()
  private size: number

  constructor(size: number) {
    this.size = size
  }

  enter(deadline: number | undefined): Effect.Effect<Bulkhead, ProviderFailure> {
    if (this.taken < this.size) {
      this.taken++
      return Effect.succeed(this)
    }
    if (this.waiting.size >= this.size) return Effect.fail(full)
    if (deadline === undefined) return this.wait
    return Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.timeoutOrElse(this.wait, {
        duration: Math.max(1, deadline - now),
        orElse: () => Effect.fail(full)
      })
    )
  }

  private readonly wait = Effect.callback<Bulkhead>((resume) => {
    const admit = () => resume(Effect.succeed(this))
    this.waiting.add(admit)
    return Effect.sync(() => {
      // A caller that was admitted while it gave up returns its place at once.
      if (!this.waiting.delete(admit)) this.leave()
    })
  })

  leave(): void {
    this.taken--
    this.admit()
  }

  resize(size: number): void {
    if (this.size === size) return
    this.size = size
    this.admit()
  }

  private admit(): void {
    for (const admit of this.waiting) {
      if (this.taken >= this.size) return
      this.waiting.delete(admit)
      this.taken++
      admit()
    }
  }
}

/** Limits each provider's calls: some run at once, as many more wait, and the rest are refused. */
export class Bulkheads extends Context.Service<
  Bulkheads,
  {
    /** Takes a place at a provider, waiting until the deadline; the caller must leave it exactly once. */
    enter(provider: ConnectedProvider, deadline: number | undefined): Effect.Effect<{ leave(): void }, ProviderFailure>
  }
>()("app/gateway/Bulkheads") {
  static readonly layer = Layer.sync(Bulkheads, () => {
    const bulkheads = new Map<string, Bulkhead>()
    return Bulkheads.of({
      enter: ({ id, maxConcurrency }, deadline) =>
        Effect.suspend(() => {
          let bulkhead = bulkheads.get(id)
          if (bulkhead === undefined) bulkheads.set(id, (bulkhead = new Bulkhead(maxConcurrency)))
          bulkhead.resize(maxConcurrency)
          return bulkhead.enter(deadline)
        })
    })
  })
}
