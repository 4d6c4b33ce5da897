import { Exit, type Tracer } from "effect"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../kernel/lookup-table.ts"
import { usdText } from "../../kernel/usd.ts"
import { type ConnectedProvider, type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { type TokenUsage } from "../formats/domain.ts"
import { type Operation } from "../formats/domain.ts"
import { ProviderFailure } from "../providers/provider.ts"
import { type AnswerFacts } from "./answer-facts.ts"

/** Operation names of OpenTelemetry's conventions for generative AI. */
export const operationNames: Readonly<Record<Operation, string>> = {
  chat: "chat",
  embed: "embeddings",
  "count-tokens": "count_tokens",
  responses: "chat",
  "count-responses": "count_tokens",
  compact: "chat",
  completions: "text_completion",
  moderate: "moderations",
  rerank: "rerank",
  speech: "speech"
}

/** Names in the conventions for vendors that the catalogue names differently. */
const conventionalNames = lookupTable<string>({
  google: "gcp.gemini",
  "mistral-ai": "mistral_ai",
  moonshot: "moonshot_ai",
  "perplexity-ai": "perplexity",
  "x-ai": "x_ai"
})

/** The name of a provider's vendor in the conventions; a provider without a known vendor is named by its own id. */
export const providerName = ({ id, vendor }: Pick<ConnectedProvider, "id" | "vendor">): string =>
  vendor === undefined ? id : (conventionalNames[vendor] ?? vendor)

/** The span of an attempt: its target and operation. */
export const attemptSpan = ({ model, provider }: ModelTarget, operation: Operation) => ({
  name: `${operationNames[operation]} ${model}`,
  options: {
    kind: "client",
    attributes: {
      "gen_ai.operation.name": operationNames[operation],
      "gen_ai.provider.name": providerName(provider),
      "gen_ai.request.model": model,
      "app.provider.id": provider.id,
      ...(provider.server === undefined
        ? {}
        : { "server.address": provider.server.address, "server.port": provider.server.port })
    }
  } as const
})

/** Request members of either dialect that spans record: numbers and names, never prompts. */
const recorded: ReadonlyArray<readonly [member: string, attribute: string, type: "number" | "string" | "boolean"]> = [
  ["max_tokens", "gen_ai.request.max_tokens", "number"],
  ["max_completion_tokens", "gen_ai.request.max_tokens", "number"],
  ["max_output_tokens", "gen_ai.request.max_tokens", "number"],
  ["temperature", "gen_ai.request.temperature", "number"],
  ["top_p", "gen_ai.request.top_p", "number"],
  ["top_k", "gen_ai.request.top_k", "number"],
  ["frequency_penalty", "gen_ai.request.frequency_penalty", "number"],
  ["presence_penalty", "gen_ai.request.presence_penalty", "number"],
  ["seed", "gen_ai.request.seed", "number"],
  ["dimensions", "gen_ai.embeddings.dimension.count", "number"],
  ["stream", "gen_ai.request.stream", "boolean"]
]

const memberOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Json)[name] : undefined

/** The output type that the request asks for, in OpenAI's or Anthropic's form. */
const outputTypeOf = (body: Json): "json" | "text" | undefined => {
  const { output_config: config, response_format: asked, text } = body
  const format = memberOf(asked ?? memberOf(config ?? text, "format"), "type")
  return typeof format === "string" ? (format.startsWith("json") ? "json" : "text") : undefined
}

/** Records the request in a span, unless the span is not sampled. */
export const describeRequest = (span: Tracer.Span, dialect: string, body: Json): void => {
  if (!span.sampled) return
  span.attribute("app.dialect", dialect)
  for (const [member, attribute, type] of recorded) {
    const value = body[member]
    if (typeof value === type) span.attribute(attribute, value)
  }
  if (typeof body.n === "number" && body.n !== 1) span.attribute("gen_ai.request.choice.count", body.n)
  if (body.encoding_format === "float" || body.encoding_format === "base64") {
    span.attribute("gen_ai.request.encoding_formats", [body.encoding_format])
  }
  const outputType = outputTypeOf(body)
  if (outputType !== undefined) span.attribute("gen_ai.output.type", outputType)
}

/** The outcome of a call, as its span records it. */
export interface SettledCall {
  readonly usage: TokenUsage | undefined
  readonly costNanoUsd: bigint
  readonly method: string
  readonly reservationId: string
  readonly timeToFirstTokenMs: number | null
  /** Of a stream: the time to its first bytes. */
  readonly firstChunkMs: number | undefined
  readonly facts: AnswerFacts | undefined
  /** The type of the error that occurred after the response had begun. */
  readonly errorType: string | undefined
}

/** How the span of a call ends. */
export const exitOf = ({ errorType }: Pick<SettledCall, "errorType">): Exit.Exit<void, ProviderFailure> =>
  errorType === undefined
    ? Exit.void
    : Exit.fail(
        new ProviderFailure({
          reason: "broken-off",
          sent: true,
          error: { status: Number(errorType), message: "", code: null }
        })
      )

/** Records the response, its usage and its cost in a span. */
export const describeSettlement = (span: Tracer.Span, settled: SettledCall): void => {
  if (!span.sampled) return
  const { costNanoUsd, errorType, facts, firstChunkMs, method, reservationId, timeToFirstTokenMs, usage } = settled
  span.attribute("app.settlement.method", method)
  span.attribute("app.cost_usd", usdText(costNanoUsd))
  span.attribute("app.reservation.id", reservationId)
  if (timeToFirstTokenMs !== null) span.attribute("app.time_to_first_token", timeToFirstTokenMs / 1000)
  if (firstChunkMs !== undefined) span.attribute("gen_ai.response.time_to_first_chunk", firstChunkMs / 1000)
  if (errorType !== undefined) span.attribute("error.type", errorType)
  if (facts?.id !== undefined) span.attribute("gen_ai.response.id", facts.id)
  if (facts?.model !== undefined) span.attribute("gen_ai.response.model", facts.model)
  const reasons = facts?.finishReasons ?? []
  if (reasons.length > 0) span.attribute("gen_ai.response.finish_reasons", reasons)
  if (usage === undefined) return
  span.attribute("gen_ai.usage.input_tokens", usage.inputTokens)
  span.attribute("gen_ai.usage.output_tokens", usage.outputTokens)
  span.attribute("gen_ai.usage.cache_read.input_tokens", usage.cachedInputTokens)
  span.attribute("gen_ai.usage.cache_creation.input_tokens", usage.cacheWriteTokens)
  span.attribute("gen_ai.usage.reasoning.output_tokens", usage.reasoningTokens)
}
