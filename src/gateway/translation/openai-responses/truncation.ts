import { type ResponseItem } from "./domain.ts"

/** Images and files are no text. */
const withoutData = (_: string, value: unknown): unknown =>
  typeof value === "string" && value.startsWith("data:") ? undefined : value

const calls = new Set(["function_call", "custom_tool_call"])
const outputs = new Set(["function_call_output", "custom_tool_call_output"])

/**
 * The latest items of a conversation, of so many bytes of text at most, as `truncation: "auto"` asks for. The last item
 * stays in any case, and no output of a tool without its call.
 */
export const truncated = (items: ReadonlyArray<ResponseItem>, maxBytes: number): ReadonlyArray<ResponseItem> => {
  let first = Math.max(0, items.length - 1)
  let bytes = 0
  for (let index = first; index >= 0; index--) {
    bytes += Buffer.byteLength(JSON.stringify(items[index], withoutData))
    if (bytes > maxBytes) break
    first = index
  }
  if (first === 0) return items
  const kept = items.slice(first)
  const called = new Set(kept.flatMap(({ call_id: id, type }) => (calls.has(type ?? "") ? [id] : [])))
  return kept.filter(({ call_id: id, type }) => !outputs.has(type ?? "") || called.has(id))
}
