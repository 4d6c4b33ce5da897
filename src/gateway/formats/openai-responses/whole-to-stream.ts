import { isJson, listIn, parsedJson, textIn, type Json } from "../../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../../kernel/lookup-table.ts"

/** The texts that a model wrote in a response, with the names of the functions that it calls. */
export const textsOfResponse = (response: unknown): ReadonlyArray<string> =>
  (isJson(response) ? listIn(response.output) : []).flatMap((item) => {
    if (!isJson(item)) return []
    const parts = [...listIn(item.content), ...listIn(item.summary)].filter(isJson)
    return [item.name, item.arguments, item.input, ...parts.flatMap(({ refusal, text }) => [text, refusal])].filter(
      (text): text is string => typeof text === "string"
    )
  })

/** What calls of tools are called with: the member, and its events. */
const inputs = lookupTable<{ readonly member: string; readonly event: string }>({
  function_call: { member: "arguments", event: "function_call_arguments" },
  custom_tool_call: { member: "input", event: "custom_tool_call_input" }
})

/** The stream of a response that its provider sent as a whole; undefined if it cannot be read. */
export const streamedResponse = (text: string): string | undefined => {
  const response = parsedJson(text)
  if (!isJson(response)) return undefined
  let sequence = 0
  const event = (type: string, members: Json) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, ...members, sequence_number: sequence++ })}\n\n`
  const begun = { ...response, status: "in_progress", output: [], usage: null, error: null, incomplete_details: null }
  const eventsOf = (item: Json, output_index: number) => {
    const at = { item_id: item.id, output_index }
    const texts = item.type === "message" ? listIn(item.content).filter(isJson) : []
    const input = inputs[textIn(item.type)]
    const unwritten = {
      ...(item.status === undefined ? {} : { status: "in_progress" }),
      ...(texts.length > 0 ? { content: [] } : {}),
      ...(input === undefined ? {} : { [input.member]: "" })
    }
    return [
      event("response.output_item.added", { output_index, item: { ...item, ...unwritten } }),
      ...(input === undefined
        ? []
        : [
            event(`response.${input.event}.delta`, { ...at, delta: item[input.member] }),
            event(`response.${input.event}.done`, {
              ...at,
              ...(item.type === "function_call" ? { name: item.name } : {}),
              [input.member]: item[input.member]
            })
          ]),
      ...texts.flatMap((part, content_index) => {
        const { refusal, text } = part
        const [kind, member, words] =
          typeof refusal === "string" ? ["refusal", "refusal", refusal] : ["output_text", "text", text]
        if (typeof words !== "string") {
          return ["added", "done"].map((stage) =>
            event(`response.content_part.${stage}`, { ...at, content_index, part })
          )
        }
        const empty = { ...part, [textIn(member)]: "" }
        return [
          event("response.content_part.added", { ...at, content_index, part: empty }),
          event(`response.${textIn(kind)}.delta`, { ...at, content_index, delta: words, logprobs: [] }),
          event(`response.${textIn(kind)}.done`, { ...at, content_index, [textIn(member)]: words, logprobs: [] }),
          event("response.content_part.done", { ...at, content_index, part })
        ]
      }),
      event("response.output_item.done", { output_index, item })
    ]
  }
  return [
    event("response.created", { response: begun }),
    event("response.in_progress", { response: begun }),
    ...listIn(response.output).filter(isJson).flatMap(eventsOf),
    event(
      `response.${response.status === "failed" || response.status === "incomplete" ? response.status : "completed"}`,
      {
        response
      }
    )
  ].join("")
}
