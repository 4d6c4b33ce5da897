import { Result } from "effect"
import { isJson, type Json, listIn } from "../../../../kernel/json/parsed-json.ts"
import { type Fault } from "../../../../kernel/problems/problem.ts"
import { hasMarks } from "../../common-form/cache-marks.ts"
import { withCallIds } from "../../common-form/call-ids.ts"
import { withCallResults } from "../../common-form/call-results.ts"
import { type ChatMessage, type ChatPart, type ChatRequest } from "../../common-form/domain.ts"
import { turnsOf } from "../../common-form/turn-order.ts"
import { type Untranslatable } from "../../domain.ts"
import { Omissions } from "../../omissions.ts"
import { isEmpty } from "../../token-upper-bound.ts"
import { itemsOfTurn, turnItemsIn } from "./turn-items.ts"

/** The API takes no longer ids of calls (OpenAI, API reference, "Create a model response": `call_id`). */
const longestIds = { longestCallId: 64 }

type Refuse = (path: Fault["path"], message: string) => void

/** What a translated request is always sent with: nothing is stored, and the thoughts come back encrypted instead. */
const stateless = { store: false, include: ["reasoning.encrypted_content"] }

/** Translates a chat request to one of the Responses API. */
export const chatToResponse = (
  request: ChatRequest,
  target: { readonly model: string; readonly limit: number | undefined },
  omissions = new Omissions()
): Result.Result<Json, Untranslatable> => {
  const faults: Array<Fault> = []
  const refuse: Refuse = (path, message) => void faults.push({ path, message })
  // A seed is a wish, which no API promises to grant.
  if ((request.seed ?? null) !== null) omissions.member("seed")
  if (hasMarks(request)) omissions.member("cache_control")
  const asksForLogprobs = request.logprobs === true
  const translated: Record<string, unknown> = {
    model: target.model,
    ...inputOf(request, refuse, omissions),
    ...stateless,
    ...(asksForLogprobs ? { include: [...stateless.include, "message.output_text.logprobs"] } : {})
  }
  const set = (name: string, value: unknown) => {
    if (value !== undefined && value !== null) translated[name] = value
  }
  refuseWhatHasNoForm(request, refuse)
  set("max_output_tokens", request.max_completion_tokens ?? request.max_tokens ?? target.limit)
  for (const name of sameMembers) set(name, request[name])
  if (asksForLogprobs) set("top_logprobs", request.top_logprobs)
  set("reasoning", reasoningOf(request))
  set("text", textOf(request, refuse))
  Object.assign(translated, toolMembers(request, refuse))
  return faults.length > 0 ? Result.fail(faults) : Result.succeed(translated)
}

/** Members that mean the same in both APIs. */
const sameMembers = [
  "stream",
  "temperature",
  "top_p",
  "metadata",
  "user",
  "safety_identifier",
  "service_tier",
  "prompt_cache_retention"
] as const

const reasoningOf = ({ reasoning_effort: effort, reasoning_summary: summary }: ChatRequest): Json | undefined => {
  const members = Object.entries({ effort, summary }).filter(([, value]) => (value ?? null) !== null)
  return members.length === 0 ? undefined : Object.fromEntries(members)
}

const textOf = ({ response_format: format, verbosity }: ChatRequest, refuse: Refuse): Json | undefined => {
  const members = {
    ...(format === undefined || format === null || format.type === "text" ? {} : { format: formatOf(format, refuse) }),
    ...((verbosity ?? null) === null ? {} : { verbosity })
  }
  return Object.keys(members).length === 0 ? undefined : members
}

const formatOf = ({ json_schema: given, type }: NonNullable<ChatRequest["response_format"]>, refuse: Refuse): Json => {
  if (type === "json_object") return { type }
  if (type !== "json_schema") refuse(["response_format", "type"], `A format of type ${type} is not translated`)
  const { description, name, schema, strict } = given ?? {}
  return {
    type: "json_schema",
    name: name ?? "answer",
    schema: schema ?? {},
    ...(description ? { description } : {}),
    ...(typeof strict === "boolean" ? { strict } : {})
  }
}

/** The instructions at the beginning, and the items of the conversation. */
const inputOf = ({ messages }: ChatRequest, refuse: Refuse, omissions: Omissions): Json => {
  const first = messages.findIndex(({ role }) => role !== "system" && role !== "developer")
  // Instructions alone are no conversation.
  const leading = messages.slice(0, Math.max(0, first))
  const instructions = leading.map(({ content }) => plainText(content))
  const isPlain = !instructions.includes(undefined)
  const written = new Set(isPlain ? leading : [])
  const conversation = turnsOf(messages).filter(({ message }) => !written.has(message))
  // The API refuses calls without results, and results without calls.
  const input = withCallResults(conversation).flatMap(({ at, message }) =>
    itemsOf(withCallIds(message, longestIds), at, refuse, omissions)
  )
  if (input.length === 0) input.push(beginning)
  return { ...(written.size > 0 ? { instructions: instructions.join("\n\n") } : {}), input }
}

/** What a conversation begins with in which a caller says nothing; the API refuses one without items. */
const beginning: Json = { type: "message", role: "user", content: [{ type: "input_text", text: "Begin." }] }

/** The text of a message; undefined if it has other parts. */
const plainText = (content: ChatMessage["content"]): string | undefined => {
  if (typeof content === "string") return content
  const parts = content ?? []
  return parts.every(({ type }) => type === "text") ? parts.map(({ text }) => text ?? "").join("\n") : undefined
}

const itemsOf = (
  message: ChatMessage,
  at: Fault["path"],
  refuse: Refuse,
  omissions: Omissions
): ReadonlyArray<Json> => {
  const { content, role } = message
  switch (role) {
    case "system":
    case "developer":
    case "user":
      return [{ type: "message", role, content: partsOf(content, at, refuse) }]
    case "assistant":
      return turnOf(message, omissions)
    case "tool":
      if (typeof message.tool_call_id !== "string") refuse([...at, "tool_call_id"], "Missing key")
      return [
        {
          type: "function_call_output",
          call_id: message.tool_call_id ?? "",
          output: plainText(content) ?? partsOf(content, at, refuse)
        }
      ]
    case "function":
      refuse([...at, "role"], "Functions were replaced by tools; only tools are translated")
      return []
  }
}

const turnOf = (
  { content, refusal, tool_calls: calls, turn_state: state }: ChatMessage,
  omissions: Omissions
): ReadonlyArray<Json> => {
  const parts: ReadonlyArray<ChatPart> =
    typeof content === "string" ? [{ type: "text", text: content }] : (content ?? [])
  // What else another provider's model gave means nothing to this one.
  for (const { type } of parts) if (type !== "text" && type !== "refusal") omissions.item(type)
  const refusals = [...parts.map((part) => part.refusal), refusal].filter(Boolean)
  const items = itemsOfTurn({
    text: parts.map(({ text, type }) => (type === "text" ? (text ?? "") : "")).join(""),
    calls: (calls ?? []).map(({ function: called, id }) => ({
      id,
      part: { type: "function_call", call_id: id, name: called.name, arguments: called.arguments }
    })),
    state: turnItemsIn(state)
  })
  const refused = refusals.map((one) => ({ type: "refusal", refusal: one }))
  const all = refused.length === 0 ? items : [...items, { type: "message", role: "assistant", content: refused }]
  // The API refuses reasoning that nothing of its turn follows.
  return all.slice(0, all.findLastIndex(({ type }) => type !== "reasoning") + 1)
}

const partsOf = (content: ChatMessage["content"], at: Fault["path"], refuse: Refuse): string | ReadonlyArray<Json> => {
  if (typeof content === "string") return content
  return (content ?? []).flatMap((part, index) => {
    const written = partOf(part)
    if (typeof written === "object") return [written]
    refuse([...at, "content", index, "type"], written)
    return []
  })
}

/** A part of a message; a string explains why there is none. */
const partOf = (part: ChatPart): Json | string => {
  const { file, image_url: image, input_audio: audio, refusal, text, type } = part
  if (type === "text" || type === "refusal") return { type: "input_text", text: text ?? refusal ?? "" }
  if (type === "image_url" && image) {
    const { detail, url } = typeof image === "string" ? { url: image, detail: undefined } : image
    return { type: "input_image", image_url: url, detail: detail ?? "auto" }
  }
  if (type === "file" && file) {
    const given = Object.entries(file).filter(([, value]) => (value ?? null) !== null)
    return { type: "input_file", ...Object.fromEntries(given) }
  }
  if (type === "input_audio" && isJson(audio)) return { type, input_audio: audio }
  return `A part of type ${type} is not translated`
}

const toolMembers = (request: ChatRequest, refuse: Refuse): Json => {
  const tools = (request.tools ?? []).flatMap((tool, index): ReadonlyArray<Json> => {
    if (tool.type !== "function" || !tool.function) {
      refuse(["tools", index, "type"], `Only tools of type function are translated, not ${tool.type}`)
      return []
    }
    const { description, name, parameters, strict } = tool.function
    return [
      {
        type: "function",
        name,
        ...(typeof description === "string" ? { description } : {}),
        parameters: parameters ?? { type: "object", properties: {} },
        // The default of this API is another than that of chat completions.
        strict: strict ?? false
      }
    ]
  })
  if (tools.length === 0) return {}
  const choice = choiceOf(request.tool_choice, refuse)
  const { parallel_tool_calls: parallel } = request
  return {
    tools,
    ...(choice === undefined ? {} : { tool_choice: choice }),
    ...(typeof parallel === "boolean" ? { parallel_tool_calls: parallel } : {})
  }
}

const choiceOf = (asked: ChatRequest["tool_choice"], refuse: Refuse): unknown => {
  if (asked === undefined || asked === null) return undefined
  if (typeof asked === "string") return asked
  if ("allowed_tools" in asked) {
    const { mode, tools } = asked.allowed_tools
    const named = tools.flatMap((tool) =>
      tool.type === "function" && tool.function ? [{ type: "function", name: tool.function.name }] : []
    )
    if (named.length < tools.length) refuse(["tool_choice", "allowed_tools"], "Only functions are translated")
    return { type: "allowed_tools", mode, tools: named }
  }
  if (asked.type === "function" && asked.function) return { type: "function", name: asked.function.name }
  refuse(["tool_choice", "type"], `A choice of type ${asked.type} is not translated`)
  return undefined
}

/** Members that the Responses API has nothing like, each with its default. */
const withoutForm: ReadonlyArray<readonly [name: keyof ChatRequest, isDefault: (value: unknown) => boolean]> = [
  ["n", (value) => value === 1],
  ["stop", isEmpty],
  ["logit_bias", (value) => isJson(value) && Object.keys(value).length === 0],
  ["presence_penalty", (value) => value === 0],
  ["frequency_penalty", (value) => value === 0],
  ["prediction", isEmpty],
  ["audio", isEmpty],
  ["modalities", (value) => listIn(value).every((modality) => modality === "text")],
  ["functions", isEmpty],
  ["web_search_options", () => false],
  ["mcp_servers", isEmpty]
]

const refuseWhatHasNoForm = (request: ChatRequest, refuse: Refuse): void => {
  for (const [name, isDefault] of withoutForm) {
    const value = request[name] ?? null
    if (value !== null && !isDefault(value))
      refuse([name], "The model has the Responses API alone, which has no such member")
  }
}
