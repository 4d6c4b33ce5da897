import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { reportedUsage } from "../answer-content.ts"
import { type TokenUsage } from "../domain.ts"
import { type BoundTerms, type WireFormat } from "../format.ts"
import { openAiChat } from "../openai-chat/format.ts"
import { usageOfResponse } from "../openai-responses/usage.ts"
import { unboundedModels } from "../provider-tools.ts"
import { Faults } from "../request-faults.ts"
import { BoundWalk, perRequest, positive, type TokenUpperBound } from "../token-upper-bound.ts"
import { plausibleUsage } from "../usage.ts"
import { isDone, RealtimeReader, saysSomething } from "./stream.ts"

/** The longest answer that a client can ask for (OpenAI, API reference, "response.create", `max_output_tokens`). */
const longestAnswer = 4096

const objectIn = (value: unknown): Json => (isJson(value) ? value : {})

/** What a response is made with: the members of its request, and those of the session where it has none, or null. */
const effective = ({ response, session }: Json): Json => ({
  ...objectIn(session),
  ...Object.fromEntries(Object.entries(objectIn(response)).filter(([, value]) => value !== null))
})

const isFunction = (tool: unknown): boolean => isJson(tool) && tool.type === "function"

/**
 * The maximum usage of a response: the model reads the conversation, which its provider keeps, and may fill its context. What
 * reads or runs anything beside the conversation has no bound.
 */
const bound = (body: Json, terms: BoundTerms): TokenUpperBound => {
  const walk = new BoundWalk(terms.imageTokens)
  const asked = effective(body)
  walk.remotely(["session"], "stored")
  for (const [index, tool] of listIn(asked.tools).entries()) {
    if (!isFunction(tool)) walk.refuse(["tools", index], "A tool that the provider runs in a conversation has no bound")
  }
  if ((asked.prompt ?? null) !== null) {
    walk.refuse(["prompt"], "A prompt that the provider stores, which may have tools of its own, has no bound")
  }
  const { conversation, input } = objectIn(body.response)
  if ((conversation ?? "auto") !== "auto" || (input ?? null) !== null) {
    walk.refuse(["response"], "A response beside the conversation has no bound")
  }
  const elsewhere = walk.requireContext(terms.contextTokens, undefined)
  return {
    inputTokens: terms.bodyBytes + perRequest,
    // What the provider keeps is no text of the request; where no usage is reported, this is charged of it.
    mediaTokens: positive(body.reads) ?? 0,
    elsewhere,
    extraOutputTokens: 0,
    choices: 1,
    askedOutputTokens: positive(asked.max_output_tokens),
    unbounded: [...walk.unbounded, ...unboundedModels(terms.models)]
  }
}

const usageIn = (value: unknown): TokenUsage | undefined => {
  const reported = reportedUsage(value)
  return reported === undefined ? undefined : plausibleUsage(usageOfResponse(reported))
}

const isLimit = (value: unknown): boolean =>
  (value ?? "inf") === "inf" || (Number.isInteger(value) && Number(value) >= 1 && Number(value) <= longestAnswer)

/**
 * A response in a conversation of OpenAI's Realtime API (API reference, "Realtime"). A request has what the session says in
 * `session`, what the client asks for beside it in `response`, and in `reads` about how many tokens of the conversation are read; a provider gets it as an event on the WebSocket of the
 * session, and answers with events there.
 */
export const openAiRealtime: WireFormat = {
  ...openAiChat,
  operation: "realtime",
  api: "realtime",
  pathOf: (model) => `/realtime?${new URLSearchParams({ model }).toString()}`,
  modelKind: "realtime",
  usualOutputTokens: longestAnswer,
  faults: (body) =>
    new Faults(effective(body)).expect(
      "max_output_tokens",
      isLimit(effective(body).max_output_tokens),
      `a whole number from 1 to ${longestAnswer}, or "inf"`
    ).found,
  metered: new Set(),
  bound,
  edit: ({ body }, _, { limit }) => {
    const asked = effective(body).max_output_tokens
    return JSON.stringify({
      type: "response.create",
      response: { ...objectIn(body.response), max_output_tokens: limit ?? asked ?? "inf" }
    })
  },
  translation: {},
  usageIn,
  servedIn: () => undefined,
  hasContent: () => false,
  holdsAnything: () => false,
  tells: (value) => saysSomething(value) || usageIn(value) !== undefined,
  isLast: isDone,
  wordsIn: () => [],
  pass: (given) => given,
  reader: (progress) => new RealtimeReader(progress),
  streamed: () => undefined
}
