import { type Json } from "../../../kernel/json/parsed-json.ts"
import { type TokenUsage } from "../domain.ts"
import { type AnswerHead } from "../format.ts"
import { annotationOf, type Citation } from "./citations.ts"
import { toCompletionUsage } from "./usage.ts"

/** A call of a function. */
export const callOf = (id: string, name: string, input: unknown): Json => ({
  id,
  type: "function",
  function: { name, arguments: JSON.stringify(input ?? {}) }
})

/** What a model said in a whole answer. */
export const messageOf = (said: {
  readonly texts: ReadonlyArray<string>
  readonly thoughts: ReadonlyArray<string>
  readonly calls: ReadonlyArray<Json>
  /** What the provider wants back with the turn. */
  readonly state: ReadonlyArray<unknown>
  /** The searches that the provider ran. */
  readonly searches: ReadonlyArray<{ readonly query: string }>
  /** The pages that parts of the text are based on. */
  readonly citations?: ReadonlyArray<Citation>
}): Json => ({
  role: "assistant",
  content: said.texts.length === 0 ? null : said.texts.join(""),
  refusal: null,
  ...(said.thoughts.length === 0 ? {} : { reasoning_content: said.thoughts.join("") }),
  ...(said.calls.length === 0 ? {} : { tool_calls: said.calls }),
  ...(said.state.length === 0 ? {} : { turn_state: said.state }),
  ...(said.searches.length === 0 ? {} : { web_searches: said.searches }),
  ...((said.citations ?? []).length === 0 ? {} : { annotations: (said.citations ?? []).map(annotationOf) })
})

/** A whole answer of the common form. */
export const completionOf = (
  { createdSeconds, model }: AnswerHead,
  id: string,
  choices: ReadonlyArray<{
    readonly index: number
    readonly message: Json
    readonly finish_reason: string
    readonly logprobs?: Json | null
    /** The provider's own, where it says more. */
    readonly native_finish_reason?: string | undefined
  }>,
  usage: TokenUsage
): Json => ({
  id,
  object: "chat.completion",
  created: createdSeconds,
  model,
  choices: choices.map(({ finish_reason, index, logprobs = null, message, native_finish_reason: native }) => ({
    index,
    message,
    logprobs,
    finish_reason,
    ...(native === undefined ? {} : { native_finish_reason: native })
  })),
  usage: toCompletionUsage(usage)
})

/** A chunk of a streamed one, of one choice. */
export const chunkOf = (
  { createdSeconds, model }: AnswerHead,
  id: string,
  index: number,
  delta: Json,
  finish_reason: string | null = null,
  native?: string
): Json => ({
  id,
  object: "chat.completion.chunk",
  created: createdSeconds,
  model,
  choices: [
    { index, delta, logprobs: null, finish_reason, ...(native === undefined ? {} : { native_finish_reason: native }) }
  ]
})
