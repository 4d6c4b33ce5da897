import { listIn } from "../../../kernel/json/parsed-json.ts"
import { noUsage, type TokenUsage } from "../domain.ts"
import { countsBy, largerUsage, member } from "../usage.ts"

/** Iterations that Anthropic charges in addition to the message's own usage, and reports only here. */
const besides: ReadonlySet<unknown> = new Set(["compaction", "advisor_message"])
/** Iterations of the message itself; the last of them is of the fallback model that answered, if one did. */
const fallbackType = "fallback_message"
const ofMessage: ReadonlySet<unknown> = new Set(["message", fallbackType])

const sumOf = (one: TokenUsage, other: TokenUsage): TokenUsage => ({
  inputTokens: one.inputTokens + other.inputTokens,
  outputTokens: one.outputTokens + other.outputTokens,
  cachedInputTokens: one.cachedInputTokens + other.cachedInputTokens,
  cacheWriteTokens: one.cacheWriteTokens + other.cacheWriteTokens,
  cacheWrite1hTokens: one.cacheWrite1hTokens + other.cacheWrite1hTokens,
  reasoningTokens: one.reasoningTokens + other.reasoningTokens,
  ...(one.isContradictory === true || other.isContradictory === true ? { isContradictory: true } : {})
})

/**
 * The usage of a message with its compactions, and with what advisors and fallback models read and wrote (Anthropic, "Advisor
 * tool", "Refusals and fallback").
 */
export const usageOfMessage = (usage: unknown): TokenUsage => {
  const whole = usageOfIteration(usage)
  const iterations = listIn(member(usage, "iterations"))
  const within = (types: ReadonlySet<unknown>) => iterations.filter((one) => types.has(member(one, "type")))
  const added = within(besides)
  const own = within(ofMessage)
  const hasFallback = own.some((one) => member(one, "type") === fallbackType)
  if (added.length === 0 && !hasFallback) return whole
  // Whether the message's own usage includes the models that declined is not documented.
  const message = hasFallback ? largerUsage(own.map(usageOfIteration).reduce(sumOf), whole) : whole
  const otherModels = [...added, ...(hasFallback ? own : [])].flatMap((iteration) => {
    const model = member(iteration, "model")
    return typeof model === "string" ? [{ model, usage: usageOfIteration(iteration) }] : []
  })
  const all = added.map(usageOfIteration).reduce(sumOf, message)
  return otherModels.length === 0 ? all : { ...all, otherModels }
}

/** The members of Anthropic's usage that count tokens. */
const countsOf = countsBy({
  input: [["input_tokens"]],
  output: [["output_tokens"]],
  cached: [["cache_read_input_tokens"]],
  cacheWrite: [["cache_creation_input_tokens"]],
  cacheWrite5m: [["cache_creation", "ephemeral_5m_input_tokens"]],
  cacheWrite1h: [["cache_creation", "ephemeral_1h_input_tokens"]],
  reasoning: [["output_tokens_details", "thinking_tokens"]]
})

/** Anthropic excludes cache reads and cache writes from `input_tokens`. */
const usageOfIteration = (usage: unknown): TokenUsage => {
  const counts = countsOf(usage)
  const cachedInputTokens = counts.largest("cached")
  const written = counts.largest("cacheWrite")
  const writtenFor1h = counts.largest("cacheWrite1h")
  const byTime = counts.largest("cacheWrite5m") + writtenFor1h
  const cacheWriteTokens = Math.max(written, byTime)
  const outputTokens = counts.largest("output")
  const reasoningTokens = counts.part("reasoning", outputTokens)
  const isContradictory = counts.isContradictory || (byTime > 0 && written > 0 && byTime !== written)
  return {
    inputTokens: counts.largest("input") + cachedInputTokens + cacheWriteTokens,
    outputTokens,
    cachedInputTokens,
    cacheWriteTokens,
    cacheWrite1hTokens: writtenFor1h,
    reasoningTokens,
    ...(isContradictory ? { isContradictory } : {})
  }
}

export const toMessageUsage = (usage: TokenUsage = noUsage) => ({
  input_tokens: usage.inputTokens - usage.cachedInputTokens - usage.cacheWriteTokens,
  output_tokens: usage.outputTokens,
  cache_read_input_tokens: usage.cachedInputTokens,
  cache_creation_input_tokens: usage.cacheWriteTokens,
  cache_creation: {
    ephemeral_5m_input_tokens: usage.cacheWriteTokens - usage.cacheWrite1hTokens,
    ephemeral_1h_input_tokens: usage.cacheWrite1hTokens
  },
  output_tokens_details: { thinking_tokens: usage.reasoningTokens },
  server_tool_use: null,
  service_tier: null,
  inference_geo: null,
  speed: null
})
