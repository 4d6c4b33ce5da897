import { type Answerer, json, type ReceivedRequest } from "./provider.ts"

/** Four bytes are a token here. */
const tokensOf = (text: string): number => Math.ceil(Buffer.byteLength(text) / 4)
const textOf = (document: string | { readonly text: string }): string =>
  typeof document === "string" ? document : document.text
const wordsOf = (text: string): ReadonlySet<string> => new Set(text.toLowerCase().match(/[a-z]+/g))

const ranked = ({ documents, query }: ReceivedRequest["body"], most: number | undefined) => {
  const asked = [...wordsOf(query)]
  return documents
    .map((document: string | { readonly text: string }, index: number) => {
      const words = wordsOf(textOf(document))
      return { index, relevance_score: asked.filter((word) => words.has(word)).length / asked.length }
    })
    .toSorted((one: Ranked, other: Ranked) => other.relevance_score - one.relevance_score)
    .slice(0, most)
}

interface Ranked {
  readonly relevance_score: number
}

/** A vendor's path, the members that it takes, and what it answers. */
interface Vendor {
  readonly path: string
  readonly members: ReadonlyArray<string>
  readonly takesObjects: boolean
  readonly answer: (body: ReceivedRequest["body"]) => object
}

/** The query is read with each document. */
const totalTokens = ({ documents, query }: ReceivedRequest["body"]): number =>
  documents.reduce(
    (sum: number, document: string | { readonly text: string }) => sum + tokensOf(textOf(document)) + tokensOf(query),
    0
  )

/** Documents count once for each 500 tokens of theirs with the query, and a hundred of them are a search unit. */
export const searchUnitsOf = (
  { documents, max_tokens_per_doc: cut = 4096, query }: ReceivedRequest["body"],
  tokensIn = tokensOf
): number => {
  const perChunk = 500 - Math.min(tokensIn(query), 250)
  const chunks = documents.reduce(
    (sum: number, document: string) => sum + Math.max(1, Math.ceil(Math.min(cut, tokensIn(document)) / perChunk)),
    0
  )
  return Math.ceil(chunks / 100)
}

const vendors: Readonly<Record<"cohere" | "jina" | "voyage", Vendor>> = {
  cohere: {
    path: "/v2/rerank",
    members: ["model", "query", "documents", "top_n", "max_tokens_per_doc", "priority"],
    takesObjects: false,
    answer: (body) => ({
      id: "07734bd2-2473-4f07-94e1-0d9f0e6843cf",
      results: ranked(body, body.top_n),
      meta: {
        api_version: { version: "2", is_experimental: false },
        billed_units: { search_units: searchUnitsOf(body) }
      }
    })
  },
  jina: {
    path: "/v1/rerank",
    members: ["model", "query", "documents", "top_n", "return_documents"],
    takesObjects: true,
    answer: (body) => ({
      model: body.model,
      object: "list",
      usage: { total_tokens: totalTokens(body) },
      results: ranked(body, body.top_n)
    })
  },
  voyage: {
    path: "/v1/rerank",
    members: ["model", "query", "documents", "top_k", "return_documents", "truncation"],
    takesObjects: false,
    answer: (body) => ({
      object: "list",
      data: ranked(body, body.top_k),
      model: body.model,
      usage: { total_tokens: totalTokens(body) }
    })
  }
}

/** A reranker as its vendor's reference describes it; `changed` replaces members of its answers. */
export const rerankVendor =
  (name: keyof typeof vendors, changed: object = {}): Answerer =>
  ({ body, path }, response) => {
    const { answer, members, path: own, takesObjects } = vendors[name]
    if (path !== own) return json(response, 404, { message: `no such path: ${path}` })
    const unknown = Object.keys(body).find((member) => !members.includes(member))
    if (unknown !== undefined) return json(response, 422, { message: `unknown field: ${unknown}` })
    if (!takesObjects && body.documents.some((document: unknown) => typeof document !== "string")) {
      return json(response, 422, { message: "invalid type: documents must be strings" })
    }
    return json(response, 200, { ...answer(body), ...changed })
  }
