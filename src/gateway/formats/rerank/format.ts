import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { edited, mergePatch } from "../../json/json-edits.ts"
import { type UsageUnits, noUsage, type TokenUsage } from "../domain.ts"
import { type FormatTarget, type GivenRequest, type WireFormat } from "../format.ts"
import { openAiChat } from "../openai-chat/format.ts"
import { Faults, usualMetered } from "../request-faults.ts"
import { count, member, plausibleUsage } from "../usage.ts"
import { maxDocuments, maxTokensPerDocument, rerankBound, truncatesDocuments } from "./bound.ts"

const isDocument = (document: unknown): boolean => typeof document === "string" || isJson(document)

const faults = (body: Json) => {
  const { documents, query } = body
  const isList = Array.isArray(documents) && documents.length > 0
  const found = new Faults(body)
    .expect("query", (typeof query === "string" && query !== "") || isJson(query), "a text")
    .expect("documents", isList, "a list of texts")
    .limit("max_tokens_per_doc", 1)
  if (!isList) return found.found
  const other = documents.findIndex((document) => !isDocument(document))
  return found
    .expect("documents", documents.length <= maxDocuments, `at most ${maxDocuments} documents`)
    .expect(`documents.${other}`, other < 0, "a text").found
}

/** A document as Cohere's second version takes it. */
const asText = (document: unknown): unknown =>
  isJson(document) && typeof document.text === "string" ? document.text : document

/** What a request for a model of Cohere's says of its documents: texts of a length that bounds what they cost. */
const documentChanges = (
  { documents, max_tokens_per_doc: limit }: Json,
  { traits }: FormatTarget,
  isBounded: boolean
): Json => {
  if (!truncatesDocuments({ traits })) return {}
  return {
    ...(listIn(documents).some(isJson) ? { documents: listIn(documents).map(asText) } : {}),
    ...(isBounded && (limit ?? null) === null ? { max_tokens_per_doc: maxTokensPerDocument } : {})
  }
}

/** The number of results under the name that the model's vendor has for it. */
const countChanges = ({ top_k: most, top_n: asked }: Json, { traits }: FormatTarget): Json =>
  traits.refuses.has("top_n") && asked !== undefined
    ? { top_n: null, ...(most === undefined && traits.takes.has("top_k") ? { top_k: asked } : {}) }
    : {}

const edit = (
  { body, bytes }: GivenRequest,
  target: FormatTarget,
  { pinsService }: { readonly pinsService?: boolean }
) => {
  const changes = {
    ...documentChanges(body, target, pinsService === true),
    ...countChanges(body, target),
    ...(body.model === target.model ? {} : { model: target.model })
  }
  return edited(bytes, mergePatch(bytes, body, changes))
}

/** Tokens under any of the vendors' names: `usage` of most, `meta` of Cohere and of what speaks like it. */
const usageIn = (answer: unknown): TokenUsage | undefined => {
  const [usage, meta] = [member(answer, "usage"), member(answer, "meta")]
  const [tokens, billed] = [member(meta, "tokens"), member(meta, "billed_units")]
  const counts = [usage, billed, tokens].flatMap((part) =>
    ["total_tokens", "prompt_tokens", "input_tokens"].map((name) => count(member(part, name)))
  )
  return plausibleUsage({ ...noUsage, inputTokens: Math.max(...counts) })
}

/** More than a request of so many documents can have. */
const maxSearchUnits = 1_000_000

const unitsIn = (answer: unknown): UsageUnits | undefined => {
  const places = [member(member(answer, "meta"), "billed_units"), member(answer, "usage")]
  const searchUnits = Math.max(...places.map((place) => count(member(place, "search_units"))))
  return searchUnits > 0 && searchUnits <= maxSearchUnits ? { searchUnits } : undefined
}

/** The results of an answer, which Voyage calls its data. */
const resultsOf = (answer: unknown): ReadonlyArray<unknown> => {
  const [results, data] = [listIn(member(answer, "results")), listIn(member(answer, "data"))]
  return results.length > 0 ? results : data
}
const hasResults = (answer: unknown): boolean => resultsOf(answer).length > 0

/** A result with its document, where a caller asks for that and the provider leaves it out. */
const withDocument = (result: unknown, documents: ReadonlyArray<unknown>): unknown => {
  if (!isJson(result) || result.document !== undefined || typeof result.index !== "number") return result
  const document = documents[result.index]
  if (document === undefined) return result
  return { ...result, document: typeof document === "string" ? { text: document } : document }
}

/** An answer with its results under their usual name. */
const pass = (given: Uint8Array, answer: Json, request: Json): Uint8Array => {
  const results = resultsOf(answer)
  const lacksDocuments =
    request.return_documents === true && results.some((result) => isJson(result) && result.document === undefined)
  if (Array.isArray(answer.results) && !lacksDocuments) return given
  const documents = lacksDocuments ? listIn(request.documents) : []
  const written = { ...answer, results: results.map((result) => withDocument(result, documents)) }
  return new TextEncoder().encode(JSON.stringify(written))
}

/** The path of Cohere's own API beside that of its compatibility with OpenAI's, which has no reranking. */
const baseOf = (base: string): string => base.replace(/\/compatibility\/v1$/, "/v2")

/** Reranking as Jina, Voyage, vLLM, LiteLLM and Cohere's first version have it (Jina, "Reranker API"). */
export const rerank: WireFormat = {
  ...openAiChat,
  operation: "rerank",
  api: "rerank",
  baseOf,
  pathOf: () => "/rerank",
  route: { path: "/v1/rerank", capability: "llm:embed" },
  modelKind: "rerank",
  hasOutput: false,
  faults,
  metered: new Set([...usualMetered, "query", "documents", "max_tokens_per_doc"]),
  bound: rerankBound,
  edit,
  translation: {},
  usageIn,
  unitsIn,
  hasContent: hasResults,
  holdsAnything: hasResults,
  tells: () => false,
  wordsIn: () => [],
  pass,
  streamed: () => undefined
}

/** Cohere's second version ("Rerank API v2"), which is the same but for its path. */
export const rerankV2: WireFormat = { ...rerank, route: { path: "/v2/rerank", capability: "llm:embed" } }
