import { Result } from "effect"
import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { answerScope, diagnosedScope } from "../../json/kept-ids.ts"
import { hasContent, holdsAnything, reportedUsage, tellsAnything } from "../answer-content.ts"
import { usageInCompletion, usageOfCompletion } from "../common-form/usage.ts"
import { type ProviderApi } from "../domain.ts"
import { comment } from "../event-reader.ts"
import { type VendorDialect, type WireFormat } from "../format.ts"
import { modelsInData } from "../models-in-data.ts"
import { renamedAnswer } from "../passed-answer.ts"
import { usualMetered } from "../request-faults.ts"
import { namesIn } from "../served-domain.ts"
import { plausibleUsage } from "../usage.ts"
import { openAiErrors } from "./errors.ts"
import { ChunkGathering } from "./gathering.ts"
import { openAiModel, openAiModels } from "./models.ts"
import { chatBound, chatFaults, editedChat } from "./request.ts"
import { ChunkReader } from "./stream.ts"
import { chatTranslation } from "./translation.ts"
import { withTextContent } from "./vendor-messages.ts"
import { streamedCompletion } from "./whole-to-stream.ts"
import { wordsIn } from "./words.ts"

const usageIn = (value: unknown) => {
  const inner = reportedUsage(value)
  const found = isJson(value) ? usageInCompletion(value) : undefined
  return plausibleUsage(found ?? (inner && usageOfCompletion(inner)))
}

/** The header that a member with betas of OpenAI's API belongs in; servers in front of Anthropic's read the other one. */
export const openAiBetaHeader = (member: string): string => (member === "betas" ? "openai-beta" : "anthropic-beta")

/** What the model wrote in the answer to a chat request or a text completion. */
export const wordsOfCompletion = ({ choices }: Json): ReadonlyArray<unknown> | undefined =>
  Array.isArray(choices)
    ? listIn(choices)
        .filter(isJson)
        .flatMap(({ message, text }) => [text].concat(wordsIn(message)))
    : undefined

/** OpenAI's chat completions, which many vendors speak (OpenAI, API reference, "Chat Completions"). */
export const openAiChat: WireFormat = {
  dialect: "openai",
  operation: "chat",
  api: "chat",
  pathOf: () => "/chat/completions",
  route: { path: "/v1/chat/completions", capability: "llm:complete" },
  modelKind: "chat",
  isCount: false,
  hasOutput: true,
  idPrefix: "chatcmpl",
  keepAlive: comment,
  faults: chatFaults,
  metered: usualMetered,
  betaHeader: openAiBetaHeader,
  bound: chatBound,
  edit: editedChat,
  idScope: ({ diagnostics }) => (isJson(diagnostics) ? diagnosedScope : answerScope),
  asksForUsage: ({ stream_options: asked }) => isJson(asked) && asked.include_usage === true,
  translation: chatTranslation,
  usageIn,
  servedIn: namesIn,
  hasContent,
  holdsAnything: (answer) => holdsAnything(answer, usageIn),
  tells: (value) => tellsAnything(value, usageIn),
  wordsIn: wordsOfCompletion,
  rewriting: ({ traits }) => (traits.thoughtsIn === "content" ? withTextContent : undefined),
  pass: (given, answer, _, rename) => renamedAnswer(given, answer, rename),
  reader: (progress, terms) => new ChunkReader(progress, terms, false),
  gathering: () => new ChunkGathering(),
  streamed: streamedCompletion
}

/** What most providers of OpenAI's APIs have. */
const usualApis: ReadonlyArray<ProviderApi> = [
  "chat",
  "completions",
  "embeddings",
  "moderations",
  "rerank",
  "speech",
  "images",
  "transcriptions"
]

/** OpenAI, and the many providers of its APIs; their base URL ends in `/v1`. */
export const openAiDialect: VendorDialect = {
  dialect: "openai",
  chat: openAiChat,
  apis: new Set([...usualApis, "responses", "realtime"]),
  usualApis: new Set(usualApis),
  storedPath: "/responses",
  modelsPath: "/models",
  modelsIn: modelsInData,
  headers: {},
  authorize: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  translatesTools: false,
  errors: openAiErrors,
  isClient: () => true,
  models: (models) => Result.succeed(openAiModels(models)),
  model: openAiModel
}
