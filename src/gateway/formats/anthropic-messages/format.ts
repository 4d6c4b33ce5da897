import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { answerScope, diagnosedScope } from "../../json/kept-ids.ts"
import { hasContent, holdsAnything, reportedUsage, tellsAnything } from "../answer-content.ts"
import { type Counting, type VendorDialect, type WireFormat } from "../format.ts"
import { modelsInData } from "../models-in-data.ts"
import { renamedAnswer } from "../passed-answer.ts"
import { usualMetered } from "../request-faults.ts"
import { namesIn } from "../served-domain.ts"
import { namedEvents } from "../streams/written-events.ts"
import { count, plausibleUsage } from "../usage.ts"
import { anthropicErrors } from "./errors.ts"
import { anthropicModel, anthropicModels } from "./models.ts"
import {
  countFaults,
  editedCount,
  editedMessage,
  messageFaults,
  messageUpperBound,
  unservedMessage
} from "./request.ts"
import { endsMessage, MessageReader } from "./stream.ts"
import { messagesTranslation } from "./translation.ts"
import { usageOfMessage } from "./usage.ts"
import { MessageGathering, streamedMessage } from "./whole-streams.ts"

const usageIn = (value: unknown) => {
  const reported = reportedUsage(value)
  return reported === undefined ? undefined : plausibleUsage(usageOfMessage(reported))
}

/** What the model wrote in a message; undefined if it is none. */
const wordsIn = ({ content }: Json): ReadonlyArray<unknown> | undefined =>
  Array.isArray(content)
    ? content
        .filter(isJson)
        .flatMap(({ input, name, text, thinking }) => [text, thinking, name, input && JSON.stringify(input)])
    : undefined

const shared = {
  dialect: "anthropic",
  api: "chat",
  modelKind: "chat",
  hasOutput: true,
  idPrefix: "msg",
  keepAlive: namedEvents([{ type: "ping" }]),
  unserved: unservedMessage,
  metered: usualMetered,
  betaHeader: () => "anthropic-beta",
  bound: messageUpperBound,
  idScope: ({ diagnostics }) => (isJson(diagnostics) ? diagnosedScope : answerScope),
  sessionIn: ({ metadata }) => (isJson(metadata) ? metadata.user_id : undefined),
  translation: messagesTranslation,
  usageIn,
  servedIn: namesIn,
  hasContent,
  holdsAnything: (answer) => holdsAnything(answer, usageIn),
  tells: (value) => tellsAnything(value, usageIn),
  isLast: endsMessage,
  wordsIn,
  pass: (given, answer, _, rename) => renamedAnswer(given, answer, rename),
  reader: (progress) => new MessageReader(progress),
  gathering: () => new MessageGathering(),
  streamed: streamedMessage
} satisfies Partial<WireFormat>

/** A request for a count of tokens, which costs nothing (Anthropic, API reference, "Count tokens in a Message"). */
export const anthropicCount: WireFormat = {
  ...shared,
  operation: "count-tokens",
  pathOf: () => "/v1/messages/count_tokens",
  route: { path: "/v1/messages/count_tokens", capability: "llm:complete" },
  isCount: true,
  estimates: true,
  counted: (input_tokens) => ({ input_tokens }),
  faults: countFaults,
  edit: editedCount
}

const counting: Counting = {
  format: anthropicCount,
  list: "messages",
  members: ["system", "tools", "tool_choice", "thinking", "output_config", "output_format", "context_management"],
  idle: ["model", "max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "stream", "metadata"].concat([
    "service_tier",
    "cache_control",
    "speed",
    "inference_geo",
    "compaction"
  ]),
  request: (counted, model) => ({ model, ...counted }),
  tokensIn: ({ input_tokens: tokens }) => count(tokens)
}

/** Anthropic's messages (API reference, "Messages"). */
export const anthropicMessages: WireFormat = {
  ...shared,
  operation: "chat",
  pathOf: () => "/v1/messages",
  route: { path: "/v1/messages", capability: "llm:complete" },
  isCount: false,
  faults: messageFaults,
  edit: editedMessage,
  counting
}

/** Anthropic; its base URL does not end in `/v1`. */
export const anthropicDialect: VendorDialect = {
  dialect: "anthropic",
  chat: anthropicMessages,
  apis: new Set(["chat"]),
  usualApis: new Set(["chat"]),
  modelsPath: "/v1/models?limit=1000",
  modelsIn: modelsInData,
  headers: { "anthropic-version": "2023-06-01" },
  authorize: (apiKey) => ({ "x-api-key": apiKey }),
  cacheWritesCostMore: true,
  translatesTools: true,
  errors: anthropicErrors,
  isClient: ({ headers, url }) =>
    (headers["anthropic-version"] ?? headers["anthropic-beta"]) !== undefined || /^(?:\/v1)*\/messages/.test(url),
  models: anthropicModels,
  model: anthropicModel
}
