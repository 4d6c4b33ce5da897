import { type RecordedExchange } from "../recorded.ts"
import { type Gist, type Json } from "./gists.ts"
import { type JudgeName, type TranslatedName } from "./judges.ts"
import { type Outcome } from "./replay.ts"

/** A call of the replay. */
export interface Call {
  readonly exchange: RecordedExchange
  readonly judge: JudgeName
  /** The SDK that asked, and how. */
  readonly by: string
  /** What the SDK of the provider's vendor read from the provider. */
  readonly given: Outcome
  /** By which its usage is found. */
  readonly label: string
}

/** Something that is not the same by way of the gateway. */
export interface Difference extends Call {
  readonly field: string
  readonly expected: Json
  readonly actual: Json
}

/** A kind of differences that are meant. */
export interface Meant<D> {
  readonly why: string
  readonly is: (difference: D) => boolean
}

const gistOf = ({ given }: Difference): Gist | undefined => ("gist" in given ? given.gist : undefined)
const isError = (field: string): boolean => field.startsWith("error.") || field === "failure"
const has = ({ exchange: { features } }: Difference, feature: string): boolean => features.includes(feature)

/** What of answers is meant to be another. */
export const meantInAnswers: ReadonlyArray<Meant<Difference>> = [
  {
    why: "A provider that refuses the gateway's key is a fault of the gateway, not of its caller",
    is: ({ exchange: { status }, field }) => isError(field) && (status === 401 || status === 403)
  },
  {
    why: "An error always has a type and a code that the SDK of the caller knows",
    is: ({ field }) => field === "error.type" || field === "error.code"
  },
  {
    why: "A request that is too long is told in the words that clients of Anthropic look for",
    is: ({ actual, field, judge }) =>
      judge === "messages" && field === "error.message" && String(actual).startsWith("prompt is too long")
  },
  {
    why: "An error with the status of a success is an error",
    is: ({ exchange: { body, status }, field }) =>
      status === 200 && field === "failure" && /^\s*\{\s*"error"/.test(body)
  },
  {
    why: "A stream that ends with an error, or in the middle, is told to be broken off",
    is: ({ exchange: { body, streamed } }) => streamed && /\nerror: \{/.test(body)
  },
  {
    why: "The gateway asks for no work in the background, so that an answer which is still made is none",
    is: ({ exchange: { body }, field }) =>
      field !== "events" && /"status":\s?"(?:queued|in_progress)"/.test(body.slice(-6000))
  },
  {
    why: "A stream in a form of its vendor's own says nothing",
    is: ({ exchange: { body }, field }) => field === "failure" && body.startsWith('data: {"value"')
  },
  {
    why: "A provider that reports no usage is estimated, and a stream has its usage and its end",
    is: ({ actual, exchange: { dialect }, expected, field }) =>
      field === "events" && /chat|completions/.test(dialect) && onlyAdds(expected, actual)
  },
  {
    why: "Anthropic's and Google's formats have no refusal beside the text",
    is: (difference) =>
      ["refusal", "text", "finish"].includes(difference.field) &&
      ["messages", "gemini"].includes(difference.judge) &&
      (gistOf(difference)?.refusal ?? "") !== ""
  },
  {
    why: "Functions that OpenAI replaced by tools are asked for by no other format",
    is: (difference) => has(difference, "functions (old)") && ["calls", "finish"].includes(difference.field)
  },
  {
    why: "Tools that are no functions are asked for in the Responses API alone",
    is: ({ exchange: { body, dialect }, field }) =>
      dialect === "openai-responses" && ["calls", "finish"].includes(field) && body.includes('"custom_tool_call"')
  },
  {
    why: "A pause is no end; clients that know no pauses are told that the answer is not complete",
    is: ({ actual, expected, field }) => field === "finish" && expected === "paused" && actual === "length"
  },
  {
    why: "Search results that a caller gave are cited by their source",
    is: ({ expected, field }) => field === "sources" && expected.length === 0
  },
  {
    why: "Google's format has no citations of others' searches",
    is: ({ field, judge }) => field === "sources" && judge === "gemini"
  },
  {
    why: "Streams of messages and responses have no citations after the end of their text",
    is: ({ by, exchange: { streamed }, field, judge }) =>
      field === "sources" && streamed && by.includes("streamed") && (judge === "messages" || judge === "responses")
  },
  {
    why: "A model that searches for each answer is charged a search, whatever it reports",
    is: ({ exchange: { request }, field }) =>
      field.startsWith("charge.") && /search-(?:preview|api)/.test(String(request?.model))
  }
]

/** Whether two streams are the same but for events that only the second one has, at its end. */
const onlyAdds = (expected: ReadonlyArray<Json>, actual: ReadonlyArray<Json>): boolean =>
  actual.length >= expected.length &&
  JSON.stringify(actual.slice(0, expected.length)) === JSON.stringify(expected) &&
  actual
    .slice(expected.length)
    .every(({ choices }) => choices.every(({ delta }: Json) => Object.keys(delta ?? {}).length === 0))

/** Something about a request that is not the same at the provider. */
export interface RequestDifference {
  readonly exchange: RecordedExchange
  readonly from: TranslatedName
  readonly to: TranslatedName
  readonly field: string
  readonly expected: Json
  readonly actual: Json
}

const refused =
  (reason: RegExp) =>
  ({ actual, field }: RequestDifference): boolean =>
    field === "refused" && reason.test(String(actual))

/** What of requests is meant to be another. */
export const meantInRequests: ReadonlyArray<Meant<RequestDifference>> = [
  { why: "Ids that the gateway did not give are unknown to it", is: refused(/is stored|Nothing with the id/) },
  {
    why: "Nothing is made in the background, and no conversation is kept by its id",
    is: refused(/background|conversation/)
  },
  {
    why: "Functions that OpenAI replaced, choices, penalties, stops and log probabilities have no form elsewhere",
    is: refused(/functions|n: |candidateCount: |penalty|stop(?:_sequences|Sequences)?: |logprobs/i)
  },
  {
    why: "Media and documents that an API does not read are refused by their place",
    is: refused(
      /input_audio|video_url|document_url|An image is translated with its data|A file is translated|data of a file|address of a file|audio/
    )
  },
  {
    why: "Tools that another vendor runs are refused where a caller cannot be told",
    is: refused(/not openrouter:|web_search_options/)
  },
  { why: "Under a hard cap what has no bound is refused", is: refused(/has no bound|no bound|is not known for/) },
  {
    why: "A JSON object without a schema is asked for in words, where no member asks for it",
    is: ({ exchange: { request }, field }) =>
      field === "system" && JSON.stringify(request?.response_format ?? "").includes("json_object")
  },
  {
    why: "Names of tools in a namespace contain it, where there are no namespaces",
    is: ({ actual, field }) => (field === "turns" || field === "tools") && JSON.stringify(actual).includes("__")
  },
  {
    why: "A conversation that the model begins has a beginning, where an API demands one",
    is: ({ actual, expected, field }) =>
      field === "turns" && JSON.stringify(actual) === JSON.stringify(["user: Begin.", ...expected])
  },
  {
    why: "Documents and results of searches with a title have it before their text",
    is: ({ exchange: { request }, field }) =>
      field === "turns" && /"search_result"|"title"/.test(JSON.stringify(request))
  },
  {
    why: "Limits are sent where a hard cap needs them, and the tier that is held",
    is: ({ exchange: { request }, field }) =>
      /^member (?:max_(?:completion_|output_)?tokens|max_tool_calls|service_tier)$/.test(field) &&
      (request?.[field.slice("member ".length)] ?? null) === null
  },
  {
    why: "Tools get the number of uses that is held",
    is: ({ actual, field }) => field === "member tools" && JSON.stringify(actual).includes("max_uses")
  },
  {
    why: "Ids of items, and thoughts by ids, that the gateway did not give do not reach a provider that others share",
    is: ({ field }) => field === "member input"
  },
  {
    why: "Keys of a prompt cache are replaced, since tenants share an account",
    is: ({ field }) => field === "member prompt_cache_key"
  }
]
