import { Context, Effect, Metric } from "effect"

const lookupsThat = (result: "hit" | "miss") =>
  Metric.counter("app.gateway.cache.lookups", {
    description: "Calls that the response cache was asked for, by whether it had their answer",
    attributes: { result, unit: "{call}" },
    incremental: true
  })
const hits = lookupsThat("hit")
const misses = lookupsThat("miss")
const registry = Context.empty()

/** Counts a look into the response cache. */
export const cacheLooked = (isHit: boolean): Effect.Effect<void> =>
  Effect.sync(() => (isHit ? hits : misses).updateUnsafe(1, registry))
