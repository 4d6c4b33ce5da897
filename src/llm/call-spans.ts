import { type Tracer } from "effect"
import { type TokenUsage } from "../compat/domain.ts"
import { usdText } from "../kernel/usd.ts"
import { type Operation } from "./providers/provider.ts"
import { type RunningTarget } from "./running.ts"

/** What OpenTelemetry's conventions for generative AI call an operation. */
export const operationNames: Readonly<Record<Operation, string>> = {
  chat: "chat",
  embed: "embeddings",
  "count-tokens": "count_tokens"
}

/** A span of an attempt: whom it asks, and what for. */
export const attemptSpan = ({ model, provider }: RunningTarget, operation: Operation) => ({
  name: `${operationNames[operation]} ${model}`,
  options: {
    kind: "client",
    attributes: {
      "gen_ai.operation.name": operationNames[operation],
      "gen_ai.provider.name": provider.vendor ?? provider.id,
      "gen_ai.request.model": model,
      "app.provider.id": provider.id
    }
  } as const
})

type Json = Readonly<Record<string, unknown>>

/** Members of a request that spans tell of, in either dialect: numbers and names, and never what was said. */
const told: ReadonlyArray<readonly [member: string, attribute: string, type: "number" | "string" | "boolean"]> = [
  ["max_tokens", "gen_ai.request.max_tokens", "number"],
  ["max_completion_tokens", "gen_ai.request.max_tokens", "number"],
  ["temperature", "gen_ai.request.temperature", "number"],
  ["top_p", "gen_ai.request.top_p", "number"],
  ["top_k", "gen_ai.request.top_k", "number"],
  ["frequency_penalty", "gen_ai.request.frequency_penalty", "number"],
  ["presence_penalty", "gen_ai.request.presence_penalty", "number"],
  ["seed", "gen_ai.request.seed", "number"],
  ["n", "gen_ai.request.choice.count", "number"],
  ["dimensions", "gen_ai.embeddings.dimension.count", "number"],
  ["stream", "app.request.stream", "boolean"]
]

/** Tells a span what is asked for; nothing where nobody records it. */
export const describeRequest = (span: Tracer.Span, dialect: string, body: Json): void => {
  if (!span.sampled) return
  span.attribute("app.dialect", dialect)
  for (const [member, attribute, type] of told) {
    const value = body[member]
    if (typeof value === type) span.attribute(attribute, value)
  }
}

/** What became of a call, as its span tells of it. */
export interface SettledCall {
  readonly usage: TokenUsage | undefined
  readonly costNanoUsd: bigint
  readonly method: string
  readonly reservationId: string
  readonly timeToFirstTokenMs: number | null
}

/** Tells a span what was used, and what that did cost. */
export const describeSettlement = (span: Tracer.Span, settled: SettledCall): void => {
  if (!span.sampled) return
  const { costNanoUsd, method, reservationId, timeToFirstTokenMs, usage } = settled
  span.attribute("app.settlement.method", method)
  span.attribute("app.cost_usd", usdText(costNanoUsd))
  span.attribute("app.reservation.id", reservationId)
  if (timeToFirstTokenMs !== null) span.attribute("app.time_to_first_token", timeToFirstTokenMs / 1000)
  if (usage === undefined) return
  span.attribute("gen_ai.usage.input_tokens", usage.inputTokens)
  span.attribute("gen_ai.usage.output_tokens", usage.outputTokens)
  span.attribute("gen_ai.usage.cache_read.input_tokens", usage.cachedInputTokens)
  span.attribute("gen_ai.usage.cache_creation.input_tokens", usage.cacheWriteTokens)
  span.attribute("gen_ai.usage.reasoning.output_tokens", usage.reasoningTokens)
}
