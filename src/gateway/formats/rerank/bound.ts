import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { type BoundTerms } from "../format.ts"
import { unboundedModels } from "../provider-tools.ts"
import { askedIn } from "../served-domain.ts"
import { boundMembers, BoundWalk, perRequest, positive, type TokenUpperBound } from "../token-upper-bound.ts"
import { type ModelTraits } from "../traits-domain.ts"

/** Cohere's limit, by "Best Practices for using Rerank". */
export const maxDocuments = 10_000

/** Where Cohere cuts documents unless a request says otherwise (API reference, "Rerank API v2"). */
export const maxTokensPerDocument = 4096

/**
 * A document counts once for each so many tokens of it with the query, of which at most half is read (Cohere's "Pricing" and
 * "Best Practices for using Rerank"), and a search unit has so many documents.
 */
const tokensPerChunk = 500
const documentsPerUnit = 100

/** What a server writes around a query and a document for a model that reads them as a prompt. */
const perDocument = perRequest

/** Whether a model's provider cuts documents at `max_tokens_per_doc`. */
export const truncatesDocuments = ({ traits }: { readonly traits: ModelTraits }): boolean =>
  traits.takes.has("max_tokens_per_doc")

/** Members of a request that are bounded. */
const rerankMembers = boundMembers(
  "model query documents top_n top_k return_documents rank_fields max_tokens_per_doc max_chunks_per_doc truncation " +
    "truncate truncate_prompt_tokens priority user metadata"
)

const ownText: ReadonlySet<string> = new Set(["text"])
const bytesOf = (value: unknown): number => Buffer.byteLength(typeof value === "string" ? value : JSON.stringify(value))

/** The maximum usage of a request: its tokens, where each document is read with the query, and its search units. */
export const rerankBound = (body: Json, terms: BoundTerms): TokenUpperBound => {
  const { query } = body
  const documents = listIn(body.documents)
  const walk = new BoundWalk(terms.imageTokens)
  walk.members(body, rerankMembers)
  if (isJson(query)) walk.refuse(["query"], "A query that is no text has no bound")
  for (const [index, document] of documents.entries()) {
    if (!isJson(document)) continue
    walk.references(document, ownText, ["documents", index])
    if (document.image !== undefined) walk.refuse(["documents", index], "A document that is no text has no bound")
  }
  const queryBytes = bytesOf(query)
  const isCut = terms.models.length > 0 && terms.models.every(truncatesDocuments)
  const longest = isCut ? (positive(body.max_tokens_per_doc) ?? maxTokensPerDocument) : Infinity
  const perChunk = tokensPerChunk - Math.min(queryBytes, tokensPerChunk / 2)
  const chunks = documents.reduce<number>(
    (sum, document) => sum + Math.max(1, Math.ceil(Math.min(longest, bytesOf(document)) / perChunk)),
    0
  )
  return {
    inputTokens: terms.bodyBytes + perRequest + documents.length * (queryBytes + perDocument),
    mediaTokens: 0,
    readsApart: true,
    extraOutputTokens: 0,
    choices: 1,
    askedOutputTokens: undefined,
    asksFor: askedIn(body),
    units: { searchUnits: Math.ceil(chunks / documentsPerUnit) },
    unbounded: [...walk.unbounded, ...unboundedModels(terms.models)]
  }
}
