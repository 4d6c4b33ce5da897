import { Context, Metric } from "effect"
import { series } from "../../platform/observability/series.ts"
import { type BreakerState } from "../configuration/domain.ts"

const registry = Context.empty()
const fallbacks = series((from: string, to: string) =>
  Metric.counter("app.gateway.fallbacks", {
    description: "Calls that went on to another target, by the providers that they left and went to",
    attributes: { "app.provider.from": from, "app.provider.to": to, unit: "{call}" },
    incremental: true
  })
)

const breakers = series((provider: string, model: string) =>
  Metric.gauge("app.gateway.breaker.state", {
    description: "Breaker of a provider's model as this replica last saw it: 0 closed, 1 half-open, 2 open",
    attributes: { "app.provider.id": provider, "gen_ai.request.model": model }
  })
)

const failures = series((provider: string, errorType: string) =>
  Metric.counter("app.gateway.attempts.failed", {
    description: "Attempts that got no answer, by provider and by what went wrong",
    attributes: { "app.provider.id": provider, "error.type": errorType, unit: "{attempt}" },
    incremental: true
  })
)

const numbers = { closed: 0, "half-open": 1, open: 2 }

/** Counts a call that falls back to another target. */
export const fellBack = (from: string, to: string): void => fallbacks(from, to).updateUnsafe(1, registry)

/** Records the state of a breaker. */
export const breakerSeen = (provider: string, model: string, state: BreakerState): void =>
  breakers(provider, model).updateUnsafe(numbers[state], registry)

/** Counts an attempt without a response. */
export const attemptFailed = (provider: string, errorType: string): void =>
  failures(provider, errorType).updateUnsafe(1, registry)
