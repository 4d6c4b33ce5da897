import { Clock, Context, Effect, Layer } from "effect"

/** What this replica last observed of a provider. */
export interface ProviderStatus {
  readonly reachable: boolean
  readonly latencyMs: number
  readonly error: string | null
  /** Milliseconds since 1970. */
  readonly at: number
}

/** The weight of a new latency in the moving average. */
const newest = 0.2

/** What this replica observes of the providers; it outlives every configuration. */
export class ProviderHealth extends Context.Service<
  ProviderHealth,
  {
    record(provider: string, status: Omit<ProviderStatus, "at">): void
    last(provider: string): ProviderStatus | undefined
    /** The recent latency of a target in milliseconds, as a moving average; undefined before its first response. */
    latency(provider: string, model: string): number | undefined
    answered(provider: string, model: string, latencyMs: number): void
  }
>()("app/gateway/ProviderSightings") {
  static readonly layer = Layer.effect(
    ProviderHealth,
    Effect.map(Clock.Clock, (clock) => {
      const health = new Map<string, ProviderStatus>()
      const latencies = new Map<string, number>()
      const record = (provider: string, { error, latencyMs, reachable }: Omit<ProviderStatus, "at">) => {
        health.set(provider, { reachable, latencyMs, error, at: clock.currentTimeMillisUnsafe() })
      }
      return ProviderHealth.of({
        record,
        last: (provider) => health.get(provider),
        latency: (provider, model) => latencies.get(`${provider}/${model}`),
        answered: (provider, model, latencyMs) => {
          const key = `${provider}/${model}`
          const before = latencies.get(key)
          latencies.set(key, before === undefined ? latencyMs : before + newest * (latencyMs - before))
          record(provider, { reachable: true, latencyMs: Math.round(latencyMs), error: null })
        }
      })
    })
  )
}
