import { Predicate, Result, Schema } from "effect"
import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { allowedAlone } from "../common-form/allowed-tools.ts"
import { isSealedState } from "../common-form/turn-state.ts"
import { type BilledTool, type Untranslatable } from "../domain.ts"
import { type ResponseItem, type ResponsePart, type ResponsesRequest, ResponseTool } from "./domain.ts"

type Refuse = (path: Fault["path"], message: string) => void

/** How the tools of a request are named in a chat completion. */
export interface ToolNames {
  /** Custom tools, which are functions of one string there. */
  readonly custom: ReadonlySet<string>
  /** The namespace and the own name of functions that are listed in a namespace. */
  readonly namespaced: ReadonlyMap<string, { readonly namespace: string; readonly name: string }>
  /** The names of tools that the target runs as its own, by their kinds. */
  readonly mapped: ReadonlyMap<string, string>
  /** The types of tools that only OpenAI runs, which are left out. */
  readonly omitted: ReadonlyArray<string>
}

export interface TranslatedRequest {
  readonly body: Json
  /** Whether there is anything that the model can answer. */
  readonly hasMessages: boolean
  readonly tools: ToolNames
  /** The types of items that are left out, because they mean something to their own provider alone. */
  readonly omittedItems: ReadonlyArray<string>
}

/** The one argument of a custom tool, where it is a function. */
export const customInput = "input"

/**
 * Translates a request with its whole conversation to a chat completion. `ownTools` are the tools that the target, if it is
 * Anthropic's, runs for a known fee; besides them it connects to MCP servers.
 */
export const responsesToChat = (
  request: ResponsesRequest,
  items: ReadonlyArray<ResponseItem>,
  ownTools: ReadonlySet<BilledTool> = new Set()
): Result.Result<TranslatedRequest, Untranslatable> => {
  const faults: Array<Fault> = []
  const refuse: Refuse = (path, message) => void faults.push({ path, message })
  const offered = toolsOf(request, items, refuse, ownTools)
  const { names } = offered
  const { choice, tools: chatTools } = choiceOf(request, offered, refuse)
  const servers = offered.servers.filter(({ name }) => chatTools.some((tool) => tool.mcp_server_name === name))
  const { messages, omittedItems } = messagesOf(request, items, refuse)
  const body: Record<string, unknown> = { model: request.model, messages }
  const set = (name: string, value: unknown) => {
    if (value !== undefined && value !== null) body[name] = value
  }
  set("max_completion_tokens", request.max_output_tokens)
  set("temperature", request.temperature)
  set("top_p", request.top_p)
  set("user", request.user)
  set("safety_identifier", request.safety_identifier)
  set("reasoning_effort", request.reasoning?.effort)
  set("verbosity", request.text?.verbosity)
  set("prompt_cache_key", request.prompt_cache_key)
  set("prompt_cache_retention", request.prompt_cache_retention)
  set("service_tier", request.service_tier)
  if (request.stream === true) Object.assign(body, { stream: true, stream_options: { include_usage: true } })
  if (chatTools.length > 0) {
    body.tools = chatTools
    set("parallel_tool_calls", request.parallel_tool_calls)
  }
  if (servers.length > 0) body.mcp_servers = servers
  if (chatTools.length > 0) set("tool_choice", choice)
  const format = request.text?.format
  if (format?.type === "json_object") body.response_format = { type: "json_object" }
  if (format?.type === "json_schema") {
    const { name, schema, strict } = format
    body.response_format = { type: "json_schema", json_schema: { name: name ?? "answer", schema, strict } }
  }
  if ((request.top_logprobs ?? 0) > 0) refuse(["top_logprobs"], "Log probabilities are not translated")
  return faults.length > 0
    ? Result.fail(faults)
    : Result.succeed({
        body,
        hasMessages: messages.some(({ content, tool_calls: calls }) => content !== null || calls !== undefined),
        tools: names,
        omittedItems
      })
}

const messagesOf = ({ instructions }: ResponsesRequest, items: ReadonlyArray<ResponseItem>, refuse: Refuse) => {
  const messages: Array<Record<string, unknown>> = []
  const omitted = new Set<string>()
  if (typeof instructions === "string" && instructions !== "") messages.push({ role: "system", content: instructions })
  /** The message of the assistant's turn, which has its words and its calls. */
  const assistant = (): Record<string, unknown> => {
    const last = messages.at(-1)
    if (last?.role === "assistant") return last
    const made: Record<string, unknown> = { role: "assistant", content: null }
    messages.push(made)
    return made
  }
  const call = (id: string, name: string, input: string) => {
    const turn = assistant()
    const calls = (turn.tool_calls ??= []) as Array<Json>
    calls.push({ id, type: "function", function: { name, arguments: input } })
  }
  for (const [index, item] of items.entries()) {
    const at = ["input", index]
    const missing = (member: string, value: unknown): string => {
      if (typeof value === "string") return value
      refuse([...at, member], (value ?? null) === null ? "Missing key" : "Expected a text")
      return ""
    }
    switch (item.type ?? "message") {
      case "message": {
        if (item.role === undefined || item.role === null || !roles.has(item.role)) {
          refuse([...at, "role"], (item.role ?? null) === null ? "Missing key" : `Expected ${[...roles].join(" | ")}`)
          break
        }
        const parts = partsOf(item.content, [...at, "content"], refuse)
        if (item.role !== "assistant") {
          messages.push({ role: item.role, content: parts })
          break
        }
        const text = typeof parts === "string" ? parts : parts.map(({ text: words }) => String(words ?? "")).join("")
        const last = messages.at(-1)
        // The words of a turn may follow its thoughts and its earlier words, but not its calls.
        if (last?.role === "assistant" && last.tool_calls === undefined) {
          last.content = `${(last.content as string | null) ?? ""}${text}`
        } else messages.push({ role: "assistant", content: text })
        break
      }
      case "function_call":
        call(missing("call_id", item.call_id), chatName(item), missing("arguments", argumentsOf(item)))
        break
      case "custom_tool_call":
        call(
          missing("call_id", item.call_id),
          chatName(item),
          JSON.stringify({ [customInput]: missing("input", item.input) })
        )
        break
      case "function_call_output":
      case "custom_tool_call_output":
        messages.push({
          role: "tool",
          tool_call_id: missing("call_id", item.call_id),
          content: partsOf(item.output, [...at, "output"], refuse)
        })
        break
      case "reasoning": {
        const { encrypted_content: state } = item
        if (!isSealedState(state)) break
        // Its provider knows its place; a message of its own would stand between calls and their results.
        const states = (assistant().turn_state ??= []) as Array<string>
        states.push(state)
        break
      }
      // Their tools are among those of the request.
      case "additional_tools":
      case "tool_search_output":
        break
      // What a provider's own tools did means nothing to another provider, and clients send items that are newer than this.
      default: {
        const type = item.type ?? ""
        const text = providerItems.has(type) ? "" : wordsOf(item)
        if (text === "" && omitted.size < maxNamed) omitted.add(itemType.test(type) ? type : "other")
        if (text === "") break
        const { role = "" } = item
        messages.push({ role: roles.has(role ?? "") ? role : "user", content: text })
      }
    }
  }
  return { messages, omittedItems: [...omitted] }
}

const roles = new Set(["user", "assistant", "system", "developer"])

/** Items of tools that a provider runs. */
const providerItems = new Set(
  ["web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"].concat([
    "mcp_call",
    "mcp_list_tools",
    "tool_search_call"
  ])
)

/** What a header may name: the types that vendors have, of so many items that it is not too long. */
const itemType = /^[\w.-]{1,64}$/
const maxNamed = 20

/** The words of an item that is no message of the API, such as one of another agent. */
const wordsOf = ({ content, text }: ResponseItem): string =>
  [text, content, ...listIn(content).map((part) => (isJson(part) ? part.text : undefined))]
    .filter(Predicate.isString)
    .join("")

const chatName = ({ name, namespace }: Pick<ResponseItem, "name" | "namespace">): string =>
  namespace ? joined(namespace, name ?? "") : (name ?? "")

/** The name of a namespace's function, as a chat completion knows it. */
const joined = (namespace: string, name: string): string => `${namespace}__${name}`

/** Some clients send the arguments of a call as the object itself. */
const argumentsOf = ({ arguments: given }: ResponseItem): unknown => (isJson(given) ? JSON.stringify(given) : given)

const partsOf = (content: unknown, at: Fault["path"], refuse: Refuse): string | ReadonlyArray<Json> => {
  if (content === undefined || content === null) return ""
  if (typeof content === "string") return content
  if (!Array.isArray(content)) {
    refuse(at, "Expected a text, or a list of content parts")
    return ""
  }
  const parts = content.flatMap((part: unknown, index): ReadonlyArray<Json> => {
    if (isJson(part)) return partOf(part as ResponsePart, [...at, index], refuse)
    refuse([...at, index], "Expected a content part")
    return []
  })
  return parts.every(({ type }) => type === "text") ? parts.map(({ text }) => String(text)).join("") : parts
}

const partOf = (part: ResponsePart, at: Fault["path"], refuse: Refuse): ReadonlyArray<Json> => {
  switch (part.type) {
    case "input_text":
    case "output_text":
    case "text":
    case "summary_text":
    case "reasoning_text":
      return [{ type: "text", text: part.text ?? "" }]
    case "refusal":
      return [{ type: "text", text: part.refusal ?? "" }]
    case "input_image":
      if (typeof part.image_url !== "string") {
        refuse([...at, "image_url"], "Files of a provider are not translated; send the image as a URL or data")
        return []
      }
      return [
        { type: "image_url", image_url: { url: part.image_url, ...(part.detail ? { detail: part.detail } : {}) } }
      ]
    case "input_file":
      if (typeof part.file_url === "string" && typeof part.file_data !== "string") {
        const named = part.filename ? { filename: part.filename } : {}
        return [{ type: "file", file: { ...named, file_url: part.file_url } }]
      }
      if (typeof part.file_data !== "string") {
        refuse([...at, "file_data"], "Files of a provider are not translated; send the file's data or its URL")
        return []
      }
      return [{ type: "file", file: { filename: part.filename ?? "document.pdf", file_data: part.file_data } }]
    case "input_audio":
      return [{ type: "input_audio", input_audio: part.input_audio }]
    default:
      refuse([...at, "type"], `A part of type ${part.type} is not translated`)
      return []
  }
}

/** Tools that OpenAI runs, or that its own models are trained to call; some carry a date. */
const runElsewhere =
  /^(?:web_search|file_search|code_interpreter|image_generation|mcp|computer|tool_search|local_shell|shell|apply_patch|programmatic)[a-z0-9_]{0,40}$/

const given = (members: Json): Json => Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null))

/** OpenAI's types of one kind of tool differ by a date, and by whether it is a preview. */
const kindOf = (type: string): string => (type.startsWith("web_search") ? "web_search" : type)

/** A tool as Anthropic runs it; undefined where it has none, or where it takes less than the request asks for. */
const ownToolOf = (
  tool: ResponseTool,
  maxUses: number | null | undefined,
  ownTools: ReadonlySet<BilledTool>
): Json | undefined => {
  switch (kindOf(tool.type)) {
    case "web_search": {
      const { filters, user_location: place } = tool
      const domains = filters?.allowed_domains ?? []
      return ownTools.has("webSearch")
        ? {
            type: "web_search_20250305",
            name: "web_search",
            ...(typeof maxUses === "number" ? { max_uses: maxUses } : {}),
            ...(domains.length > 0 ? { allowed_domains: domains } : {}),
            ...(place ? { user_location: { ...given(place), type: "approximate" } } : {})
          }
        : undefined
    }
    case "code_interpreter":
      return ownTools.has("codeExecution") ? { type: "code_execution_20250825", name: "code_execution" } : undefined
    case "mcp":
      // Anthropic asks for no approvals, which are the default, and sends no headers but a token.
      return ownTools.size > 0 &&
        tool.server_url &&
        tool.server_label &&
        tool.require_approval === "never" &&
        [tool.allowed_tools, tool.headers].every((value) => (value ?? null) === null)
        ? { type: "mcp_toolset", mcp_server_name: tool.server_label }
        : undefined
    default:
      return undefined
  }
}

const serverOf = ({ authorization, server_label: name, server_url: url }: ResponseTool): Json => ({
  type: "url",
  url,
  name,
  ...(authorization ? { authorization_token: authorization } : {})
})

const decodeTools = Schema.decodeUnknownResult(Schema.Array(ResponseTool))

const placed = (list: ReadonlyArray<ResponseTool>, at: Fault["path"]) =>
  list.map((tool, index) => [tool, [...at, index]] as const)

/** The tools of a request, and those that its items add. */
const placedTools = (
  { tools }: ResponsesRequest,
  items: ReadonlyArray<ResponseItem>,
  refuse: Refuse
): ReadonlyArray<readonly [tool: ResponseTool, at: Fault["path"]]> => {
  const added = items.flatMap((item, index) => {
    if (!addsTools.has(item.type ?? "")) return []
    const at = ["input", index, "tools"]
    const decoded = decodeTools(item.tools ?? [])
    if (Result.isSuccess(decoded)) return placed(decoded.success, at)
    refuse(at, "Expected a list of tools")
    return []
  })
  return [...placed(tools ?? [], ["tools"]), ...added]
}

const addsTools = new Set(["additional_tools", "tool_search_output"])

/** The tools of a request as a chat completion has them. */
interface OfferedTools {
  readonly chatTools: ReadonlyArray<Json>
  readonly names: ToolNames
  readonly servers: ReadonlyArray<Json>
}

const nameOf = (tool: Json): unknown => (isJson(tool.function) ? tool.function.name : undefined)

const toolsOf = (
  request: ResponsesRequest,
  items: ReadonlyArray<ResponseItem>,
  refuse: Refuse,
  ownTools: ReadonlySet<BilledTool>
): OfferedTools => {
  const { max_tool_calls: maxUses } = request
  const servers: Array<Json> = []
  const mapped = new Map<string, string>()
  const chatTools: Array<Json> = []
  const custom = new Set<string>()
  const namespaced = new Map<string, { readonly namespace: string; readonly name: string }>()
  const omitted: Array<string> = []
  const add = (tool: ResponseTool, at: Fault["path"], namespace?: string): void => {
    const { description, name, parameters, strict, type } = tool
    if (type !== "function" && type !== "custom") {
      if (type !== "namespace") {
        const own = ownToolOf(tool, maxUses, ownTools)
        if (own !== undefined) {
          chatTools.push(own)
          if (typeof own.name === "string") mapped.set(kindOf(type), own.name)
          if (type === "mcp") servers.push(serverOf(tool))
        } else if (!runElsewhere.test(type)) refuse([...at, "type"], "Expected a type of tool that OpenAI's API knows")
        else if (!omitted.includes(type)) omitted.push(type)
        return
      }
      for (const [index, own] of (tool.tools ?? []).entries()) add(own, [...at, "tools", index], name ?? "")
      return
    }
    if (typeof name !== "string" || name === "") {
      refuse([...at, "name"], "Missing key")
      return
    }
    const known = namespace === undefined ? name : joined(namespace, name)
    // A search among tools returns again what was declared.
    const declared = chatTools.findIndex((one) => nameOf(one) === known)
    if (declared >= 0) chatTools.splice(declared, 1)
    if (namespace !== undefined) namespaced.set(known, { namespace, name })
    if (type === "custom") custom.add(known)
    chatTools.push({
      type: "function",
      function:
        type === "custom"
          ? { name: known, description: customDescription(tool), parameters: customParameters }
          : {
              name: known,
              ...(description ? { description } : {}),
              ...(parameters ? { parameters } : {}),
              ...(typeof strict === "boolean" ? { strict } : {})
            }
    })
  }
  for (const [tool, at] of placedTools(request, items, refuse)) add(tool, at)
  const names: ToolNames = { custom, namespaced, mapped, omitted }
  return { chatTools, names, servers }
}

const customParameters = {
  type: "object",
  properties: { [customInput]: { type: "string", description: "The input of the tool, as plain text" } },
  required: [customInput],
  additionalProperties: false
}

const customDescription = ({ description, format }: ResponseTool): string => {
  const grammar =
    format?.type === "grammar"
      ? `The input follows this ${String(format.syntax)} grammar:\n${String(format.definition)}`
      : ""
  return [description ?? "", grammar].filter((text) => text !== "").join("\n\n")
}

type ToolChoice = Exclude<NonNullable<ResponsesRequest["tool_choice"]>, string>
type AllowedTool = NonNullable<ToolChoice["tools"]>[number]

/** Whether an element of a list of allowed tools allows one. */
const allows = (
  { name, namespace, server_label: server, type }: AllowedTool,
  tool: Json,
  names: ToolNames
): boolean => {
  if (type === "mcp") return tool.mcp_server_name !== undefined && tool.mcp_server_name === server
  const known = nameOf(tool)
  if (known === undefined) return names.mapped.get(kindOf(type)) === tool.name
  if (type === "namespace") return names.namespaced.get(String(known))?.namespace === name
  return known === (namespace ? joined(namespace, name ?? "") : name)
}

/** The tools that the model may call, and its choice among them. */
const choiceOf = (
  { tool_choice: asked }: ResponsesRequest,
  { chatTools: tools, names }: OfferedTools,
  refuse: Refuse
): { readonly tools: ReadonlyArray<Json>; readonly choice: unknown } => {
  if (typeof asked !== "object" || asked === null) return { tools, choice: asked }
  const { mapped, omitted } = names
  const own = mapped.get(kindOf(asked.type))
  if (own !== undefined) return { tools, choice: { type: "function", function: { name: own } } }
  if ((asked.type === "function" || asked.type === "custom") && typeof asked.name === "string") {
    return { tools, choice: { type: "function", function: { name: chatName(asked) } } }
  }
  if (asked.type === "allowed_tools") {
    const mode = asked.mode ?? "auto"
    // No provider takes a list of allowed tools for certain.
    const allowed = allowedAlone(mode, tools, (tool) => (asked.tools ?? []).some((one) => allows(one, tool, names)))
    if (mode === "required" && allowed.choice === "none") {
      refuse(["tool_choice", "tools"], "None of the tools that may be called is one that the model can call")
    }
    return allowed
  }
  refuse(
    ["tool_choice", "type"],
    omitted.map(kindOf).includes(kindOf(asked.type))
      ? `The tool ${asked.type} is run by OpenAI alone, and the model is another provider's`
      : `A choice of type ${asked.type} is not translated`
  )
  return { tools, choice: undefined }
}
