import { parsedJson } from "../../../src/kernel/json/parsed-json.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- answers of every format
export type Json = any

/** What an answer says, whatever its format. */
export interface Gist {
  readonly text: string
  readonly thought: string
  readonly refusal: string
  readonly calls: ReadonlyArray<readonly [name: string, input: unknown]>
  /** The addresses that it cites. */
  readonly sources: ReadonlyArray<string>
  readonly finish: string
  readonly usage: UsageGist
}

/** What an answer reports, the input with what was read from a cache and written into it. */
export interface UsageGist {
  readonly input: number
  readonly cached: number
  readonly output: number
  readonly reasoning: number
}

const list = (value: unknown): ReadonlyArray<Json> => (Array.isArray(value) ? value : [])
const joined = (parts: ReadonlyArray<unknown>): string => parts.filter((part) => typeof part === "string").join("")
const inputOf = (text: unknown): unknown => (typeof text === "string" ? (parsedJson(text || "{}") ?? text) : text)
const sourcesOf = (marks: ReadonlyArray<Json>): ReadonlyArray<string> =>
  [
    ...new Set(marks.map((mark) => mark?.url_citation?.url ?? mark?.url).filter((url) => typeof url === "string"))
  ].toSorted()

const chatFinishes: Readonly<Record<string, string>> = {
  tool_calls: "calls",
  function_call: "calls",
  eos: "stop",
  content_filter: "filter"
}

/** The parts of a chat completion's content that say something; some have no type. */
const chatTexts = (content: Json): ReadonlyArray<string> =>
  typeof content === "string"
    ? [content]
    : list(content).map((part) => (part.type === "thinking" ? "" : (part.text ?? "")))
const chatThoughts = (content: Json): ReadonlyArray<string> =>
  list(content).flatMap((part) => (part.type === "thinking" ? list(part.thinking).map(({ text }) => text) : []))

const finishOf = (finish: string, hasCalls: boolean): string => (finish === "stop" && hasCalls ? "calls" : finish)

export const gistOfCompletion = ({ choices, usage }: Json): Gist => {
  const { finish_reason: finish, message = {} } = list(choices)[0] ?? {}
  const { annotations, content, function_call: old, reasoning, reasoning_content: thought, refusal } = message
  // Snowflake writes calls that have neither a name nor an id.
  const calls = [...list(message.tool_calls), ...(old ? [{ function: old }] : [])].filter(
    ({ custom, function: called }) => (called ?? custom)?.name !== ""
  )
  return {
    text: joined(chatTexts(content)),
    thought: joined([thought || reasoning, ...chatThoughts(content)]),
    refusal: refusal ?? "",
    calls: calls.map(({ custom, function: called }) => [
      (called ?? custom)?.name,
      inputOf(called?.arguments ?? custom?.input)
    ]),
    sources: sourcesOf(list(annotations)),
    finish: finishOf(chatFinishes[finish] ?? (finish || "stop"), calls.length > 0),
    usage: {
      input: usage?.prompt_tokens ?? 0,
      cached: usage?.prompt_tokens_details?.cached_tokens ?? 0,
      output: usage?.completion_tokens ?? 0,
      reasoning: usage?.completion_tokens_details?.reasoning_tokens ?? 0
    }
  }
}

const messageFinishes: Readonly<Record<string, string>> = {
  end_turn: "stop",
  stop_sequence: "stop",
  tool_use: "calls",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  refusal: "filter",
  pause_turn: "paused"
}

export const gistOfMessage = ({ content, stop_reason: finish, usage = {} }: Json): Gist => {
  const of = (type: string) => list(content).filter((block) => block.type === type)
  const calls = of("tool_use")
  const [cached, written] = [usage.cache_read_input_tokens ?? 0, usage.cache_creation_input_tokens ?? 0]
  return {
    text: joined(of("text").map(({ text }) => text)),
    thought: joined(of("thinking").map(({ thinking }) => thinking)),
    refusal: "",
    calls: calls.map(({ input, name }) => [name, inputOf(input)]),
    sources: sourcesOf(of("text").flatMap(({ citations }) => list(citations))),
    finish: finishOf(messageFinishes[finish] ?? finish, calls.length > 0),
    usage: {
      input: (usage.input_tokens ?? 0) + cached + written,
      cached,
      output: usage.output_tokens ?? 0,
      reasoning: usage.output_tokens_details?.thinking_tokens ?? 0
    }
  }
}

const incompleteFinishes: Readonly<Record<string, string>> = { max_output_tokens: "length", content_filter: "filter" }

export const gistOfResponse = ({ incomplete_details: incomplete, output, status, usage }: Json): Gist => {
  const of = (...types: ReadonlyArray<string>) => list(output).filter(({ type }) => types.includes(type))
  const parts = of("message").flatMap(({ content }) => list(content))
  const calls = of("function_call", "custom_tool_call")
  const finish = status === "incomplete" ? (incompleteFinishes[incomplete?.reason] ?? "paused") : "stop"
  return {
    text: joined(parts.map(({ text }) => text)),
    thought: joined(
      of("reasoning").flatMap(({ content, summary }) => [...list(summary), ...list(content)].map(({ text }) => text))
    ),
    refusal: joined(parts.map(({ refusal }) => refusal)),
    calls: calls.map(({ arguments: input, input: text, name }) => [name, inputOf(input ?? text)]),
    sources: sourcesOf(parts.flatMap(({ annotations }) => list(annotations))),
    finish: status === "failed" ? "failed" : finishOf(finish, calls.length > 0),
    usage: {
      input: usage?.input_tokens ?? 0,
      cached: usage?.input_tokens_details?.cached_tokens ?? 0,
      output: usage?.output_tokens ?? 0,
      reasoning: usage?.output_tokens_details?.reasoning_tokens ?? 0
    }
  }
}

export const gistOfGenerated = ({ candidates, usageMetadata: usage = {} }: Json): Gist => {
  const { content, finishReason, groundingMetadata } = list(candidates)[0] ?? {}
  const parts = list(content?.parts)
  const calls = parts.flatMap(({ functionCall }) => (functionCall === undefined ? [] : [functionCall]))
  const finish = finishReason === "STOP" ? "stop" : finishReason === "MAX_TOKENS" ? "length" : "filter"
  return {
    text: joined(parts.filter(({ thought }) => thought !== true).map(({ text }) => text)),
    thought: joined(parts.filter(({ thought }) => thought === true).map(({ text }) => text)),
    refusal: "",
    calls: calls.map(({ args, name }) => [name, inputOf(args ?? {})]),
    sources: sourcesOf(list(groundingMetadata?.groundingChunks).map(({ web }) => ({ url: web?.uri }))),
    finish: finishOf(finish, calls.length > 0),
    usage: {
      input: (usage.promptTokenCount ?? 0) + (usage.toolUsePromptTokenCount ?? 0),
      cached: usage.cachedContentTokenCount ?? 0,
      output: (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0),
      reasoning: usage.thoughtsTokenCount ?? 0
    }
  }
}
