import { Metric } from "effect"

const lookups = Metric.counter("app.gateway.cache.lookups", {
  description: "Calls that the response cache was asked for, by whether it had their answer",
  attributes: { unit: "{call}" },
  incremental: true
})

/** Counts a look into the response cache. */
export const cacheLooked = (isHit: boolean) =>
  Metric.update(Metric.withAttributes(lookups, { result: isHit ? "hit" : "miss" }), 1)
