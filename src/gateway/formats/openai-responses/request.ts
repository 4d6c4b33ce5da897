import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { type Edit, edited, editsAt, mergePatch } from "../../json/json-edits.ts"
import { isSealedState } from "../common-form/turn-state.ts"
import { type FormatTarget, type GivenRequest, type SentLimits } from "../format.ts"
import { Faults } from "../request-faults.ts"
import { cacheKeyChange, serviceChanges } from "../sent-changes.ts"

/** The faults of a request of the Responses API. */
export const inputFaults = (body: Json) => {
  const { input } = body
  const isInput = (input ?? null) === null || typeof input === "string" || Array.isArray(input)
  return new Faults(body)
    .expect("input", isInput, "text, or a list of items")
    .each("input", "items", () => true, [], "an item")
    .limit("max_output_tokens", 1)
    .switch("stream").found
}

/** The edits that remove thoughts of other providers' models, which the provider cannot decrypt. */
const withoutSealedItems = ({ body, bytes }: GivenRequest): ReadonlyArray<Edit> =>
  editsAt(
    bytes,
    listIn(body.input).flatMap((item, index) =>
      isJson(item) && isSealedState(item.encrypted_content) ? [{ path: ["input", index], text: undefined }] : []
    )
  )

/** A request for a provider that speaks the Responses API. */
export const editedResponse = (request: GivenRequest, target: FormatTarget, limits: SentLimits): Uint8Array => {
  const { body, bytes } = request
  const { cacheKey, limit, toolLimit } = limits
  const { model } = target
  const members = {
    ...serviceChanges(body, target, limits),
    ...(body.model === model ? {} : { model }),
    ...(limit === undefined ? {} : { max_output_tokens: limit }),
    ...(toolLimit === undefined ? {} : { max_tool_calls: toolLimit }),
    ...cacheKeyChange(body, target, cacheKey)
  }
  return edited(bytes, [...mergePatch(bytes, body, members), ...withoutSealedItems(request)])
}

/** A request for a count or a compaction, which have no limits. */
export const withModel = (request: GivenRequest, target: FormatTarget, { cacheKey }: SentLimits): Uint8Array =>
  editedResponse(request, target, { limit: undefined, outputTokens: 1, toolLimit: undefined, cacheKey })
