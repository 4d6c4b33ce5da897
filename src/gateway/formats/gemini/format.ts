import { Result } from "effect"
import { isJson, type Json, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { edited, editsAt, mergePatch } from "../../json/json-edits.ts"
import { answerScope, type IdScope } from "../../json/kept-ids.ts"
import { type TokenUsage } from "../domain.ts"
import { comment } from "../event-reader.ts"
import {
  type Counting,
  type FormatTarget,
  type GivenRequest,
  type SentLimits,
  type VendorDialect,
  type WireFormat
} from "../format.ts"
import { renamedAnswer } from "../passed-answer.ts"
import { usualMetered } from "../request-faults.ts"
import { cacheKeyChange } from "../sent-changes.ts"
import { plausibleUsage } from "../usage.ts"
import { answerSays, candidatesOf, wordsInAnswer } from "./answers.ts"
import { hasEnded, isIncomplete } from "./answers.ts"
import { generateBound, generateFaults } from "./bound.ts"
import { countedRequest, readCount, toCountAnswer, toCountRequest } from "./counts.ts"
import { type Answer, readAnswer } from "./domain.ts"
import { errorInAnswer, geminiErrors, readGeminiError } from "./errors.ts"
import { geminiModel, geminiModels, readModels } from "./models.ts"
import { isGooglePath, modelNameOf, providerPath } from "./paths.ts"
import { ElementGathering, ElementReader, streamedAnswer } from "./reader.ts"
import { geminiTranslation } from "./translation.ts"
import { withoutSealedStates } from "./turn-state.ts"
import { reportsUsage, tierOf, usageOfAnswer } from "./usage.ts"

const usageIn = (value: unknown): TokenUsage | undefined => {
  const usage = readAnswer(value)?.usageMetadata
  return reportsUsage(usage) ? plausibleUsage(usageOfAnswer(usage)) : undefined
}

/** Whether a model has ended, or the prompt was blocked, so that an answer without content is one. */
const hasReason = (answer: Answer): boolean =>
  candidatesOf(answer).some(({ finishReason }) => hasEnded(finishReason) && !isIncomplete(finishReason))

const holds = (value: unknown): boolean => {
  const answer = readAnswer(value)
  return answer !== undefined && (answerSays(answer) || hasReason(answer))
}

const asksForThoughts = (body: Json): boolean => {
  const { generationConfig: config } = countedRequest(body).body
  const thinking = isJson(config) ? config.thinkingConfig : undefined
  return isJson(thinking) && thinking.includeThoughts === true
}

/** Names the target's model where the caller names one beside the path, where Google takes it only if it is the same. */
const namedModel = ({ model: given }: Json, { model }: FormatTarget): Json =>
  given === undefined ? {} : { model: `models/${modelNameOf(model)}` }

/** Sets the output limit where the caller gave none, in the case that the request has. */
const limited = (body: Json, limit: number | undefined): Json => {
  if (limit === undefined) return {}
  return body.generation_config === undefined
    ? { generationConfig: { maxOutputTokens: limit } }
    : { generation_config: { max_output_tokens: limit } }
}

const edit = ({ body, bytes }: GivenRequest, target: FormatTarget, { cacheKey, limit }: SentLimits): Uint8Array =>
  edited(bytes, [
    ...mergePatch(bytes, body, {
      ...namedModel(body, target),
      ...limited(body, limit),
      ...cacheKeyChange(body, target, cacheKey, false)
    }),
    ...editsAt(bytes, withoutSealedStates(body))
  ])

const editCount = ({ body, bytes }: GivenRequest, target: FormatTarget): Uint8Array => {
  const whole = ["generateContentRequest", "generate_content_request"].filter((name) => isJson(body[name]))
  const given = whole[0] === undefined ? body : (body[whole[0]] as Json)
  const named = namedModel(given, target)
  const states = withoutSealedStates(given).map(({ path, text }) => ({ path: [...whole.slice(0, 1), ...path], text }))
  return edited(bytes, [
    ...mergePatch(bytes, body, whole[0] === undefined ? named : { [whole[0]]: named }),
    ...editsAt(bytes, states)
  ])
}

/** Ids of calls are names that model and caller share. */
const scope: IdScope = {
  ...answerScope,
  others: new Set([...answerScope.others, "functioncall", "functionresponse", "function_call", "function_response"])
}

const shared = {
  dialect: "gemini",
  api: "chat",
  modelKind: "chat",
  hasOutput: true,
  idPrefix: "gemini",
  keepAlive: comment,
  metered: usualMetered,
  bound: (body, terms) =>
    generateBound(countedRequest(body).body, terms.bodyBytes, terms.imageTokens, terms.contextTokens, terms),
  faults: (body) => [...countedRequest(body).faults, ...generateFaults(countedRequest(body).body)],
  idScope: () => scope,
  asksForThoughts,
  translation: geminiTranslation,
  usageIn,
  servedIn: (value, headers) => {
    const tier = tierOf(value, headers)
    return tier === undefined ? undefined : { tier, speed: undefined, geo: undefined }
  },
  hasContent: (value) => answerSays(readAnswer(value) ?? {}),
  holdsAnything: holds,
  tells: (value) => errorInAnswer(value) !== undefined || holds(value),
  wordsIn: (answer) => wordsInAnswer(readAnswer(answer) ?? {}),
  pass: (given, answer, _, rename) => renamedAnswer(given, answer, rename),
  reader: (progress) => new ElementReader(progress),
  gathering: () => new ElementGathering(),
  streamed: (answer) => streamedAnswer(parsedJson(answer))
} satisfies Partial<WireFormat>

/** A request for a count of tokens, which costs nothing (Gemini API, "models.countTokens"). */
export const geminiCount: WireFormat = {
  ...shared,
  operation: "count-tokens",
  pathOf: (model) => providerPath(model, "countTokens"),
  isCount: true,
  estimates: true,
  counted: toCountAnswer,
  edit: editCount
}

const schemas = ["responseSchema", "responseJsonSchema", "responseFormat"]

const counting: Counting = {
  format: geminiCount,
  list: "contents",
  members: ["systemInstruction", "tools", "toolConfig"],
  idle: ["safetySettings", "generationConfig", "labels", "model"],
  read: (given) => {
    const { body } = countedRequest(given)
    const { generationConfig: config } = body
    // A schema is read with the prompt, and not documented to be counted.
    const isPlain = isJson(config) ? schemas.every((name) => (config[name] ?? null) === null) : true
    return isPlain ? body : undefined
  },
  request: toCountRequest,
  tokensIn: (answer) => readCount(answer) ?? 0
}

/** Google's Gemini API (reference, "models.generateContent" and "models.streamGenerateContent"). */
export const geminiGenerate: WireFormat = {
  ...shared,
  operation: "chat",
  pathOf: (model, streams) => providerPath(model, streams ? "streamGenerateContent" : "generateContent"),
  isCount: false,
  edit,
  counting
}

/** Google; the base URL of its providers ends in `/v1beta`. */
export const geminiDialect: VendorDialect = {
  dialect: "gemini",
  chat: geminiGenerate,
  translatesTools: false,
  apis: new Set(["chat", "embeddings"]),
  usualApis: new Set(["chat", "embeddings"]),
  modelsPath: "/models?pageSize=1000",
  modelsIn: (list) => readModels(list)?.models.map(({ id }) => ({ id, ownedBy: "google", createdAt: null })),
  headers: {},
  authorize: (apiKey) => ({ "x-goog-api-key": apiKey }),
  readError: readGeminiError,
  errors: geminiErrors,
  isClient: ({ headers, url }) => headers["x-goog-api-key"] !== undefined || isGooglePath(url),
  models: (models, url) =>
    Result.mapError(
      geminiModels(models, new URL(url, "http://localhost").searchParams),
      ([fault]) => fault ?? { path: [], message: "Expected another page" }
    ),
  model: geminiModel
}
