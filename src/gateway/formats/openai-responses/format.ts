import { responsesScope } from "../../json/kept-ids.ts"
import { hasContent, holdsAnything, reportedUsage, tellsAnything } from "../answer-content.ts"
import { comment } from "../event-reader.ts"
import { type Counting, type WireFormat } from "../format.ts"
import { openAiBetaHeader } from "../openai-chat/format.ts"
import { renamedAnswer } from "../passed-answer.ts"
import { usualMetered } from "../request-faults.ts"
import { namesIn } from "../served-domain.ts"
import { count, plausibleUsage } from "../usage.ts"
import { editedResponse, inputFaults, withModel } from "./request.ts"
import { endsResponse, failureIn, ResponseGathering, ResponseReader } from "./stream.ts"
import { compactionBound, responsesBound } from "./upper-bound.ts"
import { usageOfResponse } from "./usage.ts"
import { streamedResponse, textsOfResponse } from "./whole-to-stream.ts"

const usageIn = (value: unknown) => {
  const reported = reportedUsage(value)
  return reported === undefined ? undefined : plausibleUsage(usageOfResponse(reported))
}

const shared = {
  dialect: "openai",
  api: "responses",
  modelKind: "chat",
  hasOutput: true,
  idPrefix: "resp",
  keepAlive: comment,
  faults: inputFaults,
  metered: usualMetered,
  betaHeader: openAiBetaHeader,
  bound: responsesBound,
  idScope: () => responsesScope,
  usageIn,
  servedIn: namesIn,
  hasContent,
  holdsAnything: (answer) => holdsAnything(answer, usageIn),
  tells: (value) => tellsAnything(value, usageIn),
  isLast: endsResponse,
  wordsIn: textsOfResponse,
  pass: (given, answer, _, rename) => renamedAnswer(given, answer, rename),
  reader: (progress, terms) => new ResponseReader(progress, terms),
  gathering: () => new ResponseGathering(),
  streamed: streamedResponse
} satisfies Partial<WireFormat>

/** A request for a count of tokens (OpenAI, API reference, "Get input token counts"). */
export const responsesCount: WireFormat = {
  ...shared,
  operation: "count-responses",
  pathOf: () => "/responses/input_tokens",
  counted: (input_tokens) => ({ input_tokens }),
  isCount: true,
  edit: withModel
}

const counting: Counting = {
  format: responsesCount,
  list: "input",
  members: ["instructions", "tools", "tool_choice", "reasoning", "text"].concat([
    "previous_response_id",
    "truncation",
    "parallel_tool_calls"
  ]),
  idle: ["model", "max_output_tokens", "max_tool_calls", "temperature", "top_p", "top_logprobs", "store"].concat(
    ["stream", "stream_options", "include", "metadata", "client_metadata", "user", "safety_identifier"],
    ["prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "service_tier", "background"],
    ["context_management"]
  ),
  request: (counted, model) => ({ model, ...counted }),
  tokensIn: ({ input_tokens: tokens }) => count(tokens)
}

/** OpenAI's Responses API (API reference, "Responses"). */
export const openAiResponses: WireFormat = {
  ...shared,
  operation: "responses",
  pathOf: () => "/responses",
  isCount: false,
  edit: editedResponse,
  failureIn,
  counting
}

/** The compaction of a conversation (OpenAI, API reference, "Compact a response"). */
export const responsesCompaction: WireFormat = {
  ...shared,
  operation: "compact",
  pathOf: () => "/responses/compact",
  isCount: false,
  edit: withModel,
  bound: compactionBound,
  streamed: () => undefined
}
