import { isJson, listIn } from "../../kernel/json/parsed-json.ts"
import { type ProviderModel } from "./format.ts"

const dateOf = (value: unknown): Date | null => {
  if (typeof value !== "number" && typeof value !== "string") return null
  const date = new Date(typeof value === "number" ? value * 1000 : value)
  return Number.isNaN(date.getTime()) ? null : date
}

/** The models of a list as OpenAI and Anthropic have them; undefined if it is none. */
export const modelsInData = (list: unknown): ReadonlyArray<ProviderModel> | undefined => {
  const data = isJson(list) ? list.data : undefined
  if (!Array.isArray(data)) return undefined
  const models = listIn(data).map((model) =>
    isJson(model) && typeof model.id === "string"
      ? {
          id: model.id,
          ownedBy: typeof model.owned_by === "string" ? model.owned_by : null,
          createdAt: dateOf(model.created ?? model.created_at)
        }
      : undefined
  )
  return models.every((model) => model !== undefined) ? models : undefined
}
