import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { count, isCount, member } from "../usage.ts"
import { camelCased, camelCasedRequest } from "./domain.ts"
import { modelNameOf } from "./paths.ts"

/** The request whose tokens are counted: a whole one, or its contents alone. */
export const countedRequest = (given: Json): { readonly body: Json; readonly faults: ReadonlyArray<Fault> } => {
  const { body, faults } = camelCasedRequest(given)
  const { generateContentRequest: whole } = body
  if (!isJson(whole)) return { body, faults }
  const both = (body.contents ?? null) === null ? [] : [{ path: ["contents"], message: expectedOne }]
  return { body: whole, faults: [...faults, ...both] }
}

const expectedOne = "Expected contents or generateContentRequest, not both"

/** A request that counts a whole one, with its instructions and tools, which contents alone do not have. */
export const toCountRequest = (request: Json, model: string): Json => ({
  generateContentRequest: { ...request, model: `models/${modelNameOf(model)}` }
})

export const toCountAnswer = (totalTokens: number): Json => ({ totalTokens })

/** The tokens that a provider counted; undefined if it counted none. */
export const readCount = (answer: unknown): number | undefined => {
  const total = member(camelCased(answer), "totalTokens")
  return isCount(total) ? count(total) : undefined
}
