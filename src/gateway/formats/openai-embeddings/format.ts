import { Result } from "effect"
import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../../kernel/utf8.ts"
import { edited, mergePatch } from "../../json/json-edits.ts"
import { holdsAnything, reportedUsage, tellsAnything } from "../answer-content.ts"
import { usageOfEmbedding } from "../common-form/usage.ts"
import { type BoundTerms, type WireFormat } from "../format.ts"
import { embeddingMembers } from "../openai-chat/bounded-members.ts"
import { openAiChat } from "../openai-chat/format.ts"
import { chatTranslation } from "../openai-chat/translation.ts"
import { unboundedModels } from "../provider-tools.ts"
import { Faults } from "../request-faults.ts"
import { cacheKeyChange, serviceChanges } from "../sent-changes.ts"
import { askedIn } from "../served-domain.ts"
import { BoundWalk, perRequest, type TokenUpperBound } from "../token-upper-bound.ts"
import { plausibleUsage } from "../usage.ts"

const isOther = (input: unknown): boolean => typeof input === "object" && input !== null

/** The maximum usage of an embedding request, which has no output tokens. */
const bound = (body: Json, terms: BoundTerms): TokenUpperBound => {
  const inputs = listIn(body.input)
  const walk = new BoundWalk(terms.imageTokens)
  walk.members(body, embeddingMembers)
  // Some providers embed images and documents, by their data or their address.
  const other = inputs.findIndex((input) => (Array.isArray(input) ? input.some(isOther) : isOther(input)))
  if (isJson(body.input)) walk.refuse(["input"], "An input that is no text has no bound")
  if (other >= 0) walk.refuse(["input", other], "An input that is no text has no bound")
  return {
    mediaTokens: 0,
    inputTokens: terms.bodyBytes + perRequest + (Array.isArray(body.input) ? inputs.length : 1),
    readsApart: inputs.length > 1,
    extraOutputTokens: 0,
    choices: 1,
    askedOutputTokens: undefined,
    asksFor: askedIn(body),
    unbounded: [...walk.unbounded, ...unboundedModels(terms.models)]
  }
}

const usageIn = (value: unknown) => {
  const reported = reportedUsage(value)
  return reported === undefined ? undefined : plausibleUsage(usageOfEmbedding(reported))
}

const hasVectors = (answer: unknown): boolean => isJson(answer) && listIn(answer.data).length > 0

/** Matches an answer whose first vector is an array of numbers. */
const numbers = /"embedding"\s*:\s*\[/
const longestHead = 4096

const inBase64 = (item: unknown): unknown =>
  isJson(item) && Array.isArray(item.embedding)
    ? { ...item, embedding: Buffer.from(Float32Array.from(item.embedding.map(Number)).buffer).toString("base64") }
    : item

/** Encodes vectors in base64, which OpenAI's SDK asks for by default and then requires, whatever its provider returns. */
const vectorsInBase64 = (given: Uint8Array, answer: Json): Uint8Array =>
  numbers.test(utf8Text(given.subarray(0, longestHead))) && Array.isArray(answer.data)
    ? new TextEncoder().encode(JSON.stringify({ ...answer, data: answer.data.map(inBase64) }))
    : given

/** OpenAI's embeddings (API reference, "Embeddings"). */
export const openAiEmbeddings: WireFormat = {
  ...openAiChat,
  operation: "embed",
  api: "embeddings",
  pathOf: () => "/embeddings",
  route: { path: "/v1/embeddings", capability: "llm:embed" },
  modelKind: "embedding",
  hasOutput: false,
  faults: (body) => new Faults(body).texts("input", "text, or a list of texts", () => true, "inputs").found,
  bound,
  edit: ({ body, bytes }, target, limits) => {
    const { model } = target
    const changes = {
      ...serviceChanges(body, target, limits, false),
      ...cacheKeyChange(body, target, limits.cacheKey, false),
      ...(body.model === model ? {} : { model })
    }
    return edited(bytes, mergePatch(bytes, body, changes))
  },
  translation: {
    ...chatTranslation,
    requestToCommon: ({ body }) => Result.succeed(body),
    requestFromCommon: (common, { model }) => Result.succeed({ ...common, model }),
    answerToCommon: (answer) => answer,
    answerFromCommon: (answer) => answer
  },
  isVast: true,
  usageIn,
  hasContent: hasVectors,
  holdsAnything: (answer) => hasVectors(answer) || holdsAnything(answer, usageIn),
  tells: (value) => tellsAnything(value, usageIn),
  wordsIn: () => [],
  pass: (given, answer, { encoding_format: encoding }) =>
    encoding === "base64" ? vectorsInBase64(given, answer) : given,
  streamed: () => undefined
}
