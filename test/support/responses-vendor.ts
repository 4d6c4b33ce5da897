import { type Answerer, json, type ReceivedRequest, sse } from "./provider.ts"
import { calledWith, openAiVendor, said, thought, used } from "./vendors.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- a request of any shape
type Json = any

const responseUsage = {
  input_tokens: used.input,
  input_tokens_details: { cached_tokens: used.cached },
  output_tokens: used.output,
  output_tokens_details: { reasoning_tokens: used.reasoning },
  total_tokens: used.input + used.output
}

/** A stored response, and the items that it answered. */
interface Stored {
  readonly response: Json
  readonly input: ReadonlyArray<Json>
}

const event = (type: string, sequence_number: number, members: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number, ...members })}\n\n`

const itemsOf = (input: Json): ReadonlyArray<Json> =>
  typeof input === "string"
    ? [{ type: "message", role: "user", content: [{ type: "input_text", text: input }] }]
    : input

const messageOf = (id: string, text: string) => ({
  id,
  type: "message",
  status: "completed",
  role: "assistant",
  content: [{ type: "output_text", text, annotations: [], logprobs: [] }]
})

/** The output of a response: thoughts where they are asked for, and calls of each tool that is offered, or words. */
const outputOf = (body: Json, id: (prefix: string) => string): ReadonlyArray<Json> => {
  const last = itemsOf(body.input).at(-1)
  const offered: ReadonlyArray<Json> = last?.type === "function_call_output" ? [] : (body.tools ?? [])
  const tools = offered.filter(({ type }) => type === "function")
  const isJson = body.text?.format?.type === "json_schema"
  return [
    ...(body.also ?? []),
    ...(body.reasoning?.effort === undefined
      ? []
      : [
          {
            id: id("rs"),
            type: "reasoning",
            summary: [{ type: "summary_text", text: thought }],
            encrypted_content: "sealed thoughts"
          }
        ]),
    ...(tools.length > 0
      ? tools.map(({ name }, index) => ({
          id: id("fc"),
          type: "function_call",
          status: "completed",
          call_id: `call_${index + 1}`,
          name,
          arguments: JSON.stringify(calledWith)
        }))
      : [messageOf(id("msg"), isJson ? JSON.stringify(calledWith) : said)])
  ]
}

/** The events of an item, in the order of the standard. */
const itemEvents = (item: Json, output_index: number, next: () => number): ReadonlyArray<string> => {
  const at = { item_id: item.id, output_index }
  const added = (members: object) =>
    event("response.output_item.added", next(), { output_index, item: { ...item, ...members } })
  const done = () => event("response.output_item.done", next(), { output_index, item })
  if (item.type === "function_call") {
    return [
      added({ arguments: "", status: "in_progress" }),
      ...['{"city":', '"Oslo"}'].map((delta) =>
        event("response.function_call_arguments.delta", next(), { ...at, delta })
      ),
      event("response.function_call_arguments.done", next(), { ...at, arguments: item.arguments, name: item.name }),
      done()
    ]
  }
  if (item.type === "web_search_call") return [added({ status: "in_progress" }), done()]
  if (item.type === "reasoning") {
    const part = { ...at, summary_index: 0 }
    return [
      added({ summary: [] }),
      ...item.summary.flatMap(({ text }: Json) => [
        event("response.reasoning_summary_part.added", next(), { ...part, part: { type: "summary_text", text: "" } }),
        event("response.reasoning_summary_text.delta", next(), { ...part, delta: text }),
        event("response.reasoning_summary_text.done", next(), { ...part, text }),
        event("response.reasoning_summary_part.done", next(), { ...part, part: { type: "summary_text", text } })
      ]),
      done()
    ]
  }
  const [{ text }] = item.content
  const part = { ...at, content_index: 0 }
  return [
    added({ content: [], status: "in_progress" }),
    event("response.content_part.added", next(), { ...part, part: { ...item.content[0], text: "" } }),
    ...text
      .split(/(?= )/)
      .map((delta: string) => event("response.output_text.delta", next(), { ...part, delta, logprobs: [] })),
    event("response.output_text.done", next(), { ...part, text, logprobs: [] }),
    event("response.content_part.done", next(), { ...part, part: item.content[0] }),
    done()
  ]
}

/** The stream of a response. */
export const responseEvents = (response: Json): ReadonlyArray<string> => {
  let sequence = 0
  const next = () => sequence++
  const begun = { ...response, status: "in_progress", output: [], usage: null, error: null }
  return [
    event("response.created", next(), { response: begun }),
    event("response.in_progress", next(), { response: begun }),
    ...response.output.flatMap((item: Json, index: number) => itemEvents(item, index, next)),
    event(`response.${response.status}`, next(), { response })
  ]
}

const refuse = (response: Parameters<Answerer>[1], status: number, message: string, param: string | null = null) =>
  json(response, status, { error: { message, type: "invalid_request_error", param, code: null } })

/** OpenAI's service with its Responses API, which stores responses, and refuses ids that are not its own. */
export const makeResponsesVendor = (): Answerer => {
  const stored = new Map<string, Stored>()
  let made = 0
  const id = (prefix: string) => `${prefix}_${(++made).toString(16).padStart(50, "0")}`
  const isKnown = (item: Json): boolean =>
    item.id === undefined ||
    [...stored.values()].some(({ response }) => response.output.some((one: Json) => one.id === item.id))

  const create = ({ body }: ReceivedRequest, response: Parameters<Answerer>[1]) => {
    const unknown = itemsOf(body.input ?? []).find((item) => !isKnown(item))
    if (unknown !== undefined) return refuse(response, 404, `Item with id '${unknown.id}' not found.`, "input")
    const previous = body.previous_response_id
    if (typeof previous === "string" && !stored.has(previous)) {
      return refuse(response, 400, `Previous response with id '${previous}' not found.`, "previous_response_id")
    }
    const isCut = (body.max_output_tokens ?? Infinity) <= 3
    const answer = {
      id: id("resp"),
      object: "response",
      created_at: 1_700_000_000,
      status: isCut ? "incomplete" : "completed",
      background: false,
      error: null,
      incomplete_details: isCut ? { reason: "max_output_tokens" } : null,
      instructions: body.instructions ?? null,
      max_output_tokens: body.max_output_tokens ?? null,
      model: body.model,
      output: outputOf(body, id),
      parallel_tool_calls: true,
      previous_response_id: previous ?? null,
      reasoning: { effort: body.reasoning?.effort ?? null, summary: null },
      store: body.store ?? true,
      temperature: 1,
      text: { format: { type: "text" } },
      tool_choice: "auto",
      tools: body.tools ?? [],
      top_p: 1,
      truncation: "disabled",
      usage: responseUsage,
      metadata: body.metadata ?? {}
    }
    stored.set(answer.id, { response: answer, input: itemsOf(body.input) })
    if (body.stream !== true) return json(response, 200, answer, { "x-request-id": "u" })
    sse(response, responseEvents(answer))
    response.end()
  }

  return (request, response) => {
    const { body, method, path } = request
    const [, , , key = "", action = ""] = (path.split("?")[0] ?? "").split("/")
    if (!path.startsWith("/v1/responses")) return openAiVendor(request, response)
    if (key === "input_tokens") return json(response, 200, { object: "response.input_tokens", input_tokens: 42 })
    if (key === "compact") {
      const output = [{ id: id("cmp"), type: "compaction", encrypted_content: "short" }]
      return json(response, 200, { id: id("resp"), object: "response.compaction", output, usage: responseUsage })
    }
    if (key === "") return create({ ...request, body }, response)
    const found = stored.get(key)
    if (found === undefined) return refuse(response, 404, `Response with id '${key}' not found.`)
    if (action === "cancel") return refuse(response, 400, "Cannot cancel a synchronous response.")
    if (method === "DELETE") {
      stored.delete(key)
      return json(response, 200, { id: key, object: "response", deleted: true })
    }
    if (action !== "input_items") return json(response, 200, found.response)
    const data = found.input.map((item: Json, index: number) => Object.assign({ id: `msg_in${index}` }, item))
    json(response, 200, { object: "list", data, first_id: data[0]?.id, last_id: data.at(-1)?.id, has_more: false })
  }
}
