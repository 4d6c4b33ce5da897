import { Result } from "effect"
import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { type FormatTarget, type GivenRequest, type Translation, type WireFormat } from "../format.ts"
import { embedBound } from "../gemini/bound.ts"
import { camelCased, camelCasedRequest } from "../gemini/domain.ts"
import { geminiGenerate } from "../gemini/format.ts"
import { modelNameOf, providerPath } from "../gemini/paths.ts"
import { decoding } from "../request-faults.ts"
import { plausibleUsage } from "../usage.ts"
import {
  BatchEmbedRequest,
  embedAnswerToCommon,
  EmbedRequest,
  embedToCommon,
  CommonEmbedRequest,
  commonToEmbed,
  commonToEmbedAnswer,
  usageOfEmbedAnswer
} from "./translation.ts"

const decodeOne = decoding(EmbedRequest)
const decodeBatch = decoding(BatchEmbedRequest)
const decodeCommon = decoding(CommonEmbedRequest)

const requestsOf = (body: Json) => listIn(camelCasedRequest(body).body.requests)

/** The common form of vectors is OpenAI's; other formats' requests for them become a batch. */
const translation = (isBatch: boolean): Translation => ({
  requestToCommon: ({ body, model }) => {
    const asked = { model: String(model) }
    const { body: request } = camelCasedRequest(body)
    return isBatch
      ? Result.flatMap(decodeBatch(request), ({ requests }) => embedToCommon(requests, asked, ["requests"]))
      : Result.flatMap(decodeOne(request), (one) => embedToCommon([one], asked))
  },
  requestFromCommon: (common, target) =>
    Result.flatMap(decodeCommon(common), (request) => commonToEmbed(request, target)),
  answerToCommon: (answer, { model }) => embedAnswerToCommon(answer, model, usageOfEmbedAnswer(answer)),
  answerFromCommon: (answer, _, usage) => commonToEmbedAnswer(answer, isBatch, usage),
  streamToCommon: () => ({ push: () => [], end: () => [] }),
  streamFromCommon: () => ({ push: () => "", end: () => "" })
})

const named = (request: unknown, model: string): unknown =>
  isJson(request) ? Object.assign({}, request, { model: `models/${modelNameOf(model)}` }) : request

/** Each request of a batch names the model. */
const edit = ({ body, bytes }: GivenRequest, { model }: FormatTarget): string | Uint8Array => {
  if (body.requests !== undefined) {
    return JSON.stringify({ ...body, requests: requestsOf(body).map((one) => named(one, model)) })
  }
  return body.model === undefined ? bytes : JSON.stringify(named(body, model))
}

const hasVectors = (value: unknown): boolean => {
  const answer = camelCased(value)
  return isJson(answer) && (isJson(answer.embedding) || listIn(answer.embeddings).length > 0)
}

const maxRequests = 2048

const shared = {
  ...geminiGenerate,
  operation: "embed",
  api: "embeddings",
  modelKind: "embedding",
  hasOutput: false,
  bound: (body, { bodyBytes }) => embedBound(body, bodyBytes),
  edit,
  isVast: true,
  usageIn: (value) => plausibleUsage(usageOfEmbedAnswer(value)),
  hasContent: hasVectors,
  holdsAnything: hasVectors,
  tells: hasVectors,
  wordsIn: () => [],
  pass: (given) => given,
  streamed: () => undefined
} satisfies Partial<WireFormat>

/** One vector (Gemini API, "models.embedContent"). */
export const geminiEmbed: WireFormat = {
  ...shared,
  pathOf: (model) => providerPath(model, "embedContent"),
  faults: (body) => (isJson(body.content) ? [] : [{ path: ["content"], message: "Expected a content with parts" }]),
  translation: translation(false)
}

/** Several vectors (Gemini API, "models.batchEmbedContents"). */
export const geminiBatchEmbed: WireFormat = {
  ...shared,
  pathOf: (model) => providerPath(model, "batchEmbedContents"),
  faults: (body) => {
    const { length } = requestsOf(body)
    return length > 0 && length <= maxRequests
      ? []
      : [{ path: ["requests"], message: `Expected 1 to ${maxRequests} requests` }]
  },
  translation: translation(true)
}
