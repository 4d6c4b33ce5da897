import { isJson, listIn } from "../../kernel/parsed-json.ts"
import { cuts, type Edit, placesIn } from "../json/json-edits.ts"

type Json = Readonly<Record<string, unknown>>

const isUnsigned = (block: unknown): boolean =>
  isJson(block) && block.type === "thinking" && (typeof block.signature !== "string" || block.signature === "")

/**
 * Cuts thoughts without a signature out of the text of a messages request: Anthropic refuses them, and a conversation has
 * them that another vendor's model was in. A message of nothing else goes as a whole.
 */
export const withoutUnsignedThinking = (json: Uint8Array, body: Json): ReadonlyArray<Edit> => {
  const concerned = listIn(body.messages).flatMap((message, index) => {
    const blocks = isJson(message) ? listIn(message.content) : []
    return blocks.some(isUnsigned) ? [{ index, blocks, isAll: blocks.every(isUnsigned) }] : []
  })
  if (concerned.length === 0) return []
  const member = placesIn(json, 0, ["messages"]).at(-1)
  if (member?.name !== "messages") return []
  const messages = placesIn(json, member.value)
  const whole = new Set(concerned.flatMap(({ index, isAll }) => (isAll ? [index] : [])))
  return [
    ...cuts(messages, (index) => whole.has(index)),
    ...concerned.flatMap(({ blocks, index, isAll }) => {
      const content = isAll ? undefined : placesIn(json, messages[index]?.start).find(({ name }) => name === "content")
      return content === undefined ? [] : cuts(placesIn(json, content.value), (place) => isUnsigned(blocks[place]))
    })
  ]
}
