import { Effect, Metric } from "effect"
import { type TokenUsage } from "../compat/domain.ts"

/** How a settled amount was found. */
export type SettleMethod = "provider_usage" | "aborted" | "estimated" | "unanswered"

// The boundaries that OpenTelemetry's conventions for generative AI name.
const secondsBoundaries = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
const tokenBoundaries = [
  1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864
]
const overheadBoundaries = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1]

const duration = Metric.histogram("gen_ai.client.operation.duration", {
  description: "Duration of calls of providers",
  boundaries: secondsBoundaries,
  attributes: { unit: "s" }
})
const tokens = Metric.histogram("gen_ai.client.token.usage", {
  description: "Tokens that calls used",
  boundaries: tokenBoundaries,
  attributes: { unit: "{token}" }
})
const overhead = Metric.histogram("app.gateway.overhead", {
  description: "What the gateway adds to calls: their whole time without the providers'",
  boundaries: overheadBoundaries,
  attributes: { unit: "s" }
})
const settlements = Metric.counter("app.gateway.settlements", {
  description: "Settled calls by how their cost was found",
  attributes: { unit: "{call}" },
  incremental: true
})
const denials = Metric.counter("app.gateway.denials", {
  description: "Calls that were not let in, by reason",
  attributes: { unit: "{call}" },
  incremental: true
})

/** A call that ended, as telemetry tells of it. */
export interface MeasuredCall {
  readonly operation: string
  readonly provider: string
  readonly model: string
  readonly usage: TokenUsage
  readonly method: SettleMethod
  readonly latencyMs: number
  readonly upstreamMs: number
}

/** Counts a call that was settled. */
export const measured = ({ latencyMs, method, model, operation, provider, upstreamMs, usage }: MeasuredCall) => {
  const attributes = {
    "gen_ai.operation.name": operation === "embed" ? "embeddings" : operation,
    "gen_ai.provider.name": provider,
    "gen_ai.request.model": model
  }
  const counted = (type: "input" | "output", count: number) =>
    Metric.update(Metric.withAttributes(tokens, { ...attributes, "gen_ai.token.type": type }), count)
  return Effect.all(
    [
      Metric.update(Metric.withAttributes(duration, attributes), upstreamMs / 1000),
      counted("input", usage.inputTokens),
      counted("output", usage.outputTokens),
      Metric.update(overhead, Math.max(0, latencyMs - upstreamMs) / 1000),
      Metric.update(Metric.withAttributes(settlements, { method }), 1)
    ],
    { discard: true }
  )
}

/** Counts a call that was not let in. */
export const denied = (reason: string) => Metric.update(Metric.withAttributes(denials, { reason }), 1)
