import { type RecordedExchange } from "../recorded.ts"
import { type Json } from "./gists.ts"

/** Tokens by the class in which they are charged; the input and the output are wholes that contain the others. */
export interface ReportedUsage {
  readonly input: number
  readonly cached: number
  readonly written: number
  readonly written1h: number
  readonly output: number
  readonly reasoning: number
  readonly searches: number
}

const number = (value: unknown): number => (typeof value === "number" && value > 0 ? value : 0)
const most = (...values: ReadonlyArray<unknown>): number => Math.max(0, ...values.map(number))

/** The objects that an answer consists of. */
export const eventsOf = ({ body, streamed }: Pick<RecordedExchange, "body" | "streamed">): ReadonlyArray<Json> =>
  streamed ? Array.from(body.matchAll(/^data: ?(\{.*)$/gm), ([, data]) => JSON.parse(data ?? "")) : [JSON.parse(body)]

/** The last value of each member that any event reports. */
const usageIn = (events: ReadonlyArray<Json>): Json => {
  const all: Json = {}
  for (const { choices, message, response, usage, x_groq: groq } of events)
    for (const report of [groq?.usage, choices?.[0]?.usage, message?.usage, response?.usage, usage])
      for (const [name, value] of Object.entries(report ?? {})) if (value !== null) all[name] = value
  return all
}

/** Searches, by the names that OpenRouter, Anthropic, Perplexity and Groq have for them, and calls among the items of a response. */
const searchesIn = (usage: Json, events: ReadonlyArray<Json>): number => {
  const items = events.flatMap(({ output, response }) => response?.output ?? output ?? [])
  const calls = new Set(
    items
      .filter(({ action, type }: Json) => type === "web_search_call" && (action?.type ?? "search") === "search")
      .map(({ id }: Json) => id)
  )
  const executed = events.flatMap(({ choices }) => {
    const { delta, message } = choices?.[0] ?? {}
    return (message?.executed_tools ?? delta?.executed_tools ?? []).filter(({ type }: Json) => type === "search")
  })
  return most(
    new Set(executed.map(({ index }) => index)).size,
    usage.server_tool_use?.web_search_requests,
    usage.server_tool_use_details?.web_search_requests,
    usage.num_search_queries,
    usage.server_side_tool_usage_details?.web_search_calls,
    calls.size
  )
}

/** The usage of a chat completion, of text completions and vectors too. */
const ofCompletion = (usage: Json): Omit<ReportedUsage, "searches"> => {
  const { completion_tokens_details: written = {}, prompt_tokens_details: read = {} } = usage
  const prompt = number(usage.prompt_tokens)
  // Audio that is counted beside the prompt is what the total has more (Mistral).
  const beside = number(usage.total_tokens) - prompt - number(usage.completion_tokens)
  const isAudio = beside > 0 && beside === number(read.audio_tokens)
  const input = isAudio ? prompt + beside : prompt
  const output = Math.max(number(usage.completion_tokens), number(usage.total_tokens) - input)
  const cached = most(read.cached_tokens, usage.cached_tokens, usage.num_cached_tokens, usage.prompt_cache_hit_tokens)
  // Where both together exceed the input, what costs more counts first.
  const stored = Math.min(input, number(read.cache_write_tokens))
  return {
    input,
    cached: Math.min(input - stored, cached),
    written: stored,
    written1h: 0,
    output,
    // What only the total has is thought, too (xAI).
    reasoning: Math.min(output, Math.max(number(written.reasoning_tokens), output - number(usage.completion_tokens)))
  }
}

const ofResponse = (usage: Json): Omit<ReportedUsage, "searches"> => ({
  input: number(usage.input_tokens),
  cached: number(usage.input_tokens_details?.cached_tokens),
  written: number(usage.input_tokens_details?.cache_write_tokens),
  written1h: 0,
  output: number(usage.output_tokens),
  reasoning: number(usage.output_tokens_details?.reasoning_tokens)
})

/** The steps that are only among the iterations of a message. */
const addedSteps = ({ iterations }: Json): ReadonlyArray<Json> =>
  (iterations ?? []).filter(({ type }: Json) => /^(?:compaction|advisor)/.test(type))

/** The usage of a message, and of what is added to it. */
const ofMessage = (usage: Json): Omit<ReportedUsage, "searches"> => ofSteps([usage, ...addedSteps(usage)])

const ofSteps = (steps: ReadonlyArray<Json>): Omit<ReportedUsage, "searches"> => {
  const sum = (of: (step: Json) => unknown) => steps.reduce((all, step) => all + number(of(step)), 0)
  const cached = sum(({ cache_read_input_tokens: tokens }) => tokens)
  const written = sum(({ cache_creation_input_tokens: tokens }) => tokens)
  return {
    input: sum(({ input_tokens: tokens }) => tokens) + cached + written,
    cached,
    written,
    written1h: sum(({ cache_creation: classes }) => classes?.ephemeral_1h_input_tokens),
    output: sum(({ output_tokens: tokens }) => tokens),
    reasoning: sum(({ output_tokens_details: details }) => details?.thinking_tokens)
  }
}

/** What an answer reports that it used, read from the recorded text alone. */
export const reportedUsage = (exchange: RecordedExchange): ReportedUsage => {
  const events = eventsOf(exchange)
  const usage = usageIn(events)
  const of = /messages/.test(exchange.dialect)
    ? ofMessage
    : /responses/.test(exchange.dialect)
      ? ofResponse
      : ofCompletion
  return { ...of(usage), searches: searchesIn(usage, events) }
}

/** US dollars per million tokens, of each class another price. */
export const replayPrices = {
  inputUsdPerMTok: 2,
  cacheReadUsdPerMTok: 0.25,
  cacheWriteUsdPerMTok: 3,
  cacheWrite1hUsdPerMTok: 5,
  outputUsdPerMTok: 10,
  reasoningUsdPerMTok: 11,
  toolUses: { webSearch: 0.01, codeExecution: 0, fileSearch: 0, imageGeneration: 0 }
}

/** The advisors that took part in an answer. */
export const advisorsOf = (exchange: RecordedExchange): ReadonlyArray<string> =>
  exchange.status === 200 ? addedSteps(usageIn(eventsOf(exchange))).flatMap(({ model }) => model ?? []) : []

/** How many times as dear an advisor is as the model that it advises. */
const advisorFactor = 3
export const advisorPrices = Object.fromEntries(
  Object.entries(replayPrices).map(([name, price]) => [name, typeof price === "number" ? price * advisorFactor : price])
)

/** What an answer costs in nano-dollars, at the replay's prices, and what its advisors read and wrote at theirs. */
export const replayCost = (exchange: RecordedExchange): number => {
  const advised = addedSteps(usageIn(eventsOf(exchange))).filter(({ model }) => model !== undefined)
  return (
    costAtPrices(reportedUsage(exchange)) + (advisorFactor - 1) * costAtPrices({ ...ofSteps(advised), searches: 0 })
  )
}

const costAtPrices = (usage: ReportedUsage): number =>
  (usage.input - usage.cached - usage.written) * 2000 +
  usage.cached * 250 +
  (usage.written - usage.written1h) * 3000 +
  usage.written1h * 5000 +
  (usage.output - usage.reasoning) * 10_000 +
  usage.reasoning * 11_000 +
  usage.searches * 10_000_000
