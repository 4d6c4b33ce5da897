import { Clock, Context, Effect, Layer } from "effect"

/** What this replica last saw of a provider. */
export interface Sighting {
  readonly reachable: boolean
  readonly latencyMs: number
  readonly error: string | null
  /** Milliseconds since 1970. */
  readonly at: number
}

/** How much a new latency counts against all before it. */
const newest = 0.2

/** What this replica sees of the providers; it outlives every configuration. */
export class ProviderSightings extends Context.Service<
  ProviderSightings,
  {
    saw(provider: string, sighting: Omit<Sighting, "at">): void
    last(provider: string): Sighting | undefined
    /** The latency that a target has lately had, in milliseconds: a moving mean; undefined before its first answer. */
    latency(provider: string, model: string): number | undefined
    answered(provider: string, model: string, latencyMs: number): void
  }
>()("app/llm/ProviderSightings") {
  static readonly layer = Layer.effect(
    ProviderSightings,
    Effect.map(Clock.Clock, (clock) => {
      const sightings = new Map<string, Sighting>()
      const latencies = new Map<string, number>()
      const saw = (provider: string, { error, latencyMs, reachable }: Omit<Sighting, "at">) => {
        sightings.set(provider, { reachable, latencyMs, error, at: clock.currentTimeMillisUnsafe() })
      }
      return ProviderSightings.of({
        saw,
        last: (provider) => sightings.get(provider),
        latency: (provider, model) => latencies.get(`${provider}/${model}`),
        answered: (provider, model, latencyMs) => {
          const key = `${provider}/${model}`
          const before = latencies.get(key)
          latencies.set(key, before === undefined ? latencyMs : before + newest * (latencyMs - before))
          saw(provider, { reachable: true, latencyMs: Math.round(latencyMs), error: null })
        }
      })
    })
  )
}
