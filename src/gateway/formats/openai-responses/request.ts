import { type Json } from "../../../kernel/json/parsed-json.ts"
import { edited, mergePatch } from "../../json/json-edits.ts"
import { type FormatTarget, type GivenRequest, type SentLimits } from "../format.ts"
import { Faults } from "../request-faults.ts"

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

/** A request for a provider that speaks the Responses API. */
export const editedResponse = (
  { body, bytes }: GivenRequest,
  { model }: FormatTarget,
  { limit, toolLimit }: SentLimits
): Uint8Array =>
  edited(
    bytes,
    mergePatch(bytes, body, {
      ...(body.model === model ? {} : { model }),
      ...(limit === undefined ? {} : { max_output_tokens: limit }),
      ...(toolLimit === undefined ? {} : { max_tool_calls: toolLimit })
    })
  )

/** A request for a count or a compaction, which have no limits. */
export const withModel = ({ body, bytes }: GivenRequest, { model }: FormatTarget): Uint8Array =>
  body.model === model ? bytes : edited(bytes, mergePatch(bytes, body, { model }))
