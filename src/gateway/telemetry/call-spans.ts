import { Exit, type Tracer } from "effect"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { usdText } from "../../kernel/usd.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { media, type TokenUsage } from "../formats/domain.ts"
import { type Operation } from "../formats/domain.ts"
import { ProviderFailure } from "../providers/provider.ts"
import { type AnswerFacts, nameOf } from "./answer-facts.ts"
import { conventionNames, type Conventions, operationName, providerName } from "./conventions.ts"

/** The span of an attempt: its target and operation. */
export const attemptSpan = (conventions: Conventions, target: ModelTarget, operation: Operation) => {
  const { model, provider } = target
  const name = operationName(conventions, operation, target)
  return {
    name: `${name} ${model}`,
    options: {
      kind: "client",
      attributes: {
        "gen_ai.operation.name": name,
        "gen_ai.provider.name": providerName(conventions, provider),
        "gen_ai.request.model": model,
        "app.provider.id": provider.id,
        ...(provider.server === undefined
          ? {}
          : { "server.address": provider.server.address, "server.port": provider.server.port })
      }
    } as const
  }
}

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

/** Whether the conventions have a whole number, where they had any before. */
const isWhole = (conventions: Conventions, member: string): boolean => conventions === "since" && member === "top_k"

const memberOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Json)[name] : undefined

/** The output type that the request asks for, in OpenAI's or Anthropic's form. */
const outputTypeOf = (body: Json): "json" | "text" | undefined => {
  const { output_config: config, response_format: asked, text } = body
  const format = memberOf(asked ?? memberOf(config ?? text, "format"), "type")
  return typeof format === "string" ? (format.startsWith("json") ? "json" : "text") : undefined
}

/** The effort of reasoning that a request asks for, in the form of any vendor. */
const reasoningLevelOf = ({ output_config: config, reasoning, reasoning_effort: effort }: Json): string | undefined =>
  nameOf(effort ?? memberOf(reasoning, "effort") ?? memberOf(config, "effort"))

/** What only the latest conventions have of a request. */
const describeMore = (span: Tracer.Span, body: Json): void => {
  const level = reasoningLevelOf(body)
  const previous = nameOf(body.previous_response_id)
  if (level !== undefined) span.attribute(conventionNames.reasoningLevel.since, level)
  if (previous !== undefined) span.attribute(conventionNames.previousResponse.since, previous)
}

/** Records the request in a span, unless the span is not sampled. */
export const describeRequest = (conventions: Conventions, span: Tracer.Span, dialect: string, body: Json): void => {
  if (!span.sampled) return
  span.attribute("app.dialect", dialect)
  for (const [member, attribute, type] of recorded) {
    const value = body[member]
    if (typeof value !== type || (isWhole(conventions, member) && !Number.isInteger(value))) continue
    span.attribute(attribute, value)
  }
  if (typeof body.n === "number" && body.n !== 1) span.attribute("gen_ai.request.choice.count", body.n)
  if (body.encoding_format === "float" || body.encoding_format === "base64") {
    span.attribute("gen_ai.request.encoding_formats", [body.encoding_format])
  }
  const outputType = outputTypeOf(body)
  if (outputType !== undefined) span.attribute("gen_ai.output.type", outputType)
  if (conventions === "since") describeMore(span, body)
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

/** The tokens of each modality that has some, and of text, where the provider reports any; each includes its cached ones. */
export const modalitiesOf = (usage: TokenUsage) => {
  const { media: given } = usage
  if (given === undefined) return undefined
  const found = media.map((medium) => ({
    modality: medium as string,
    input: (given[`${medium}Input`] ?? 0) + (given[`${medium}CacheRead`] ?? 0),
    cacheRead: given[`${medium}CacheRead`] ?? 0,
    output: given[`${medium}Output`] ?? 0
  }))
  const rest = (whole: number, of: "input" | "cacheRead" | "output") =>
    found.reduce((left, tokens) => Math.max(0, left - tokens[of]), whole)
  const text = {
    modality: "text",
    input: rest(usage.inputTokens, "input"),
    cacheRead: rest(usage.cachedInputTokens, "cacheRead"),
    output: rest(usage.outputTokens, "output")
  }
  return [text, ...found].filter(({ input, output }) => input > 0 || output > 0)
}

const describeModalities = (span: Tracer.Span, usage: TokenUsage): void => {
  for (const { cacheRead, input, modality, output } of modalitiesOf(usage) ?? []) {
    span.attribute(`gen_ai.usage.${modality}.input_tokens`, input)
    if (cacheRead > 0) span.attribute(`gen_ai.usage.${modality}.cache_read.input_tokens`, cacheRead)
    span.attribute(`gen_ai.usage.${modality}.output_tokens`, output)
  }
}

/** The finish reasons; since the first release `error` stands for those that were expected and did not come. */
const finishReasonsOf = (
  conventions: Conventions,
  { errorType, facts, method }: SettledCall
): ReadonlyArray<string> => {
  const reasons = facts?.finishReasons ?? []
  const isMissing = reasons.length === 0 && (errorType !== undefined || method === "aborted")
  return conventions === "since" && isMissing ? ["error"] : reasons
}

/** Records the response, its usage and its cost in a span. */
export const describeSettlement = (conventions: Conventions, span: Tracer.Span, settled: SettledCall): void => {
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
  const reasons = finishReasonsOf(conventions, settled)
  if (reasons.length > 0) span.attribute("gen_ai.response.finish_reasons", reasons)
  if (usage === undefined) return
  span.attribute("gen_ai.usage.input_tokens", usage.inputTokens)
  span.attribute("gen_ai.usage.output_tokens", usage.outputTokens)
  span.attribute("gen_ai.usage.cache_read.input_tokens", usage.cachedInputTokens)
  span.attribute(conventionNames.cacheWriteTokens[conventions], usage.cacheWriteTokens)
  span.attribute("gen_ai.usage.reasoning.output_tokens", usage.reasoningTokens)
  if (conventions === "since") describeModalities(span, usage)
}
