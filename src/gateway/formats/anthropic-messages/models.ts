import { Result } from "effect"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { type ShownModel } from "../format.ts"

/** The creation time of most models is unknown, but the SDKs require one. */
const unknownMoment = "1970-01-01T00:00:00Z"

/** A model as Anthropic's clients see it; its capabilities in Anthropic's format are unknown. */
export const anthropicModel = ({ contextTokens, id, maxOutputTokens }: ShownModel) => ({
  type: "model",
  id,
  display_name: id,
  created_at: unknownMoment,
  max_input_tokens: contextTokens,
  max_tokens: maxOutputTokens,
  capabilities: null,
  lifecycle: "active",
  line: null,
  deprecated_at: null,
  retires_at: null
})

const usualLimit = 20
const largestLimit = 1000

/** A page of the chat models as Anthropic's clients list them: 20 by default, up to 1,000. */
export const anthropicModels = (models: ReadonlyArray<ShownModel>, url: string): Result.Result<object, Fault> => {
  const query = new URLSearchParams(url.slice(url.includes("?") ? url.indexOf("?") : url.length))
  const limit = query.get("limit")
  const most = limit === null ? usualLimit : /^\d{1,4}$/.test(limit) ? Number(limit) : 0
  if (most < 1 || most > largestLimit) {
    return Result.fail({ path: ["limit"], message: `Expected a whole number from 1 to ${largestLimit}` })
  }
  const all = models.filter(({ kind }) => kind === "chat")
  const places: Record<string, number> = {}
  for (const name of ["after_id", "before_id"]) {
    const asked = query.get(name)
    if (asked === null) continue
    const place = all.findIndex(({ id }) => id === asked)
    if (place < 0) return Result.fail({ path: [name], message: "Expected the id of a model" })
    places[name] = place
  }
  const { after_id: after = -1, before_id: before = all.length } = places
  // The page before a model ends at that model.
  const isBackwards = places.before_id !== undefined
  const from = isBackwards ? Math.max(after + 1, before - most) : after + 1
  const data = all.slice(from, isBackwards ? before : from + most).map(anthropicModel)
  const hasMore = isBackwards ? before - most > after + 1 : from + most < all.length
  return Result.succeed({ data, has_more: hasMore, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null })
}
