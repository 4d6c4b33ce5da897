import { Effect } from "effect"
import { type GatewayError, invalidMember } from "../../errors/gateway-error.ts"
import { type ServedModel } from "../../configuration/gateway-snapshot.ts"

/** The creation time of most models is unknown, but the SDKs require one. */
const unknownMoment = "1970-01-01T00:00:00Z"

/** A model as Anthropic's clients see it; its capabilities in Anthropic's format are unknown. */
export const anthropicModel = ({ contextTokens, id, maxOutputTokens }: ServedModel) => ({
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

/** The page of a list that Anthropic's clients request. */
export interface PageAsked {
  readonly limit: string | null
  readonly afterId: string | null
  readonly beforeId: string | null
}

export const pageAsked = (url: string): PageAsked => {
  const query = new URLSearchParams(url.slice(url.includes("?") ? url.indexOf("?") : url.length))
  return { limit: query.get("limit"), afterId: query.get("after_id"), beforeId: query.get("before_id") }
}

const usualLimit = 20
const largestLimit = 1000

/** A page of the chat models as Anthropic's clients list them: 20 by default, up to 1,000. */
export const anthropicModels = Effect.fnUntraced(function* (
  models: ReadonlyArray<ServedModel>,
  { afterId, beforeId, limit }: PageAsked
): Effect.fn.Return<object, GatewayError> {
  const most = limit === null ? usualLimit : /^\d{1,4}$/.test(limit) ? Number(limit) : 0
  if (most < 1 || most > largestLimit) {
    return yield* invalidMember("limit", `limit: Expected a whole number from 1 to ${largestLimit}`)
  }
  const all = models.filter(({ kind }) => kind === "chat")
  const placeOf = (name: string, id: string) => {
    const place = all.findIndex((model) => model.id === id)
    return place < 0 ? Effect.fail(invalidMember(name, `${name}: Expected the id of a model`)) : Effect.succeed(place)
  }
  const from = afterId === null ? 0 : (yield* placeOf("after_id", afterId)) + 1
  const to = beforeId === null ? all.length : yield* placeOf("before_id", beforeId)
  // The page before a model ends at that model.
  const page = beforeId === null ? all.slice(from, from + most) : all.slice(Math.max(from, to - most), to)
  const data = page.map(anthropicModel)
  const hasMore = beforeId === null ? from + most < all.length : to - most > from
  return { data, has_more: hasMore, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null }
})
