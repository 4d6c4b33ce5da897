import { Result } from "effect"
import { list, members, place, text } from "../../../kernel/json/readers.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { type ShownModel } from "../format.ts"
import { camelCased } from "./domain.ts"
import { modelNameOf } from "./paths.ts"

type Listed = Pick<ShownModel, "contextTokens" | "id" | "kind" | "maxOutputTokens">

const methods: Readonly<Record<ShownModel["kind"], ReadonlyArray<string>>> = {
  chat: ["generateContent", "countTokens"],
  embedding: ["embedContent"],
  moderation: [],
  image: [],
  transcription: [],
  rerank: [],
  speech: [],
  realtime: []
}

/** A model as Google's clients see it; limits that are not configured are left out. */
export const geminiModel = ({ contextTokens, id, kind, maxOutputTokens }: Listed) => ({
  name: `models/${id}`,
  version: "",
  displayName: id,
  ...(contextTokens === null ? {} : { inputTokenLimit: contextTokens }),
  ...(maxOutputTokens === null ? {} : { outputTokenLimit: maxOutputTokens }),
  supportedGenerationMethods: methods[kind]
})

const usualPage = 50
const largestPage = 1000

/** A page of the models: 50 by default, up to 1,000. The token of the next page is the name of this one's last model. */
export const geminiModels = (
  models: ReadonlyArray<Listed>,
  query: URLSearchParams
): Result.Result<object, ReadonlyArray<Fault>> => {
  const asked = query.get("pageSize") ?? query.get("page_size") ?? ""
  const token = query.get("pageToken") ?? query.get("page_token") ?? ""
  if (!/^\d{0,9}$/.test(asked)) {
    return Result.fail([{ path: ["pageSize"], message: "Expected a whole number" }])
  }
  const from = token === "" ? 0 : models.findIndex(({ id }) => id === token) + 1
  if (token !== "" && from === 0) {
    return Result.fail([{ path: ["pageToken"], message: "Expected the token of an earlier page" }])
  }
  const page = models.slice(from, from + Math.min(largestPage, Number(asked) || usualPage))
  const last = page.at(-1)?.id
  const hasMore = from + page.length < models.length && last !== undefined
  return Result.succeed({ models: page.map(geminiModel), ...(hasMore ? { nextPageToken: last } : {}) })
}

const modelList = members({
  models: list(members({ name: text, displayName: text, inputTokenLimit: place, outputTokenLimit: place })),
  nextPageToken: text
})

/** A model that a provider lists. */
export interface ListedModel {
  readonly id: string
  readonly contextTokens: number | null
  readonly maxOutputTokens: number | null
}

/** A page of a provider's models, with the token of the next one; undefined if it is no list. */
export const readModels = (
  body: unknown
): { readonly models: ReadonlyArray<ListedModel>; readonly nextPageToken: string | undefined } | undefined => {
  const read = modelList(camelCased(body))
  return read?.models === undefined
    ? undefined
    : {
        models: read.models.flatMap(({ inputTokenLimit, name, outputTokenLimit }) =>
          name === undefined
            ? []
            : [
                {
                  id: modelNameOf(name),
                  contextTokens: inputTokenLimit ?? null,
                  maxOutputTokens: outputTokenLimit ?? null
                }
              ]
        ),
        nextPageToken: read.nextPageToken || undefined
      }
}
