import { Option, Result, Schema } from "effect"
import { hash } from "node:crypto"
import { lookupTable } from "../../../kernel/lookup-table.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { markOf, withMark } from "../common-form/cache-marks.ts"
import { isStrict } from "../common-form/strict-schema.ts"
import { isSealedState } from "../common-form/turn-state.ts"
import { type Untranslatable } from "../domain.ts"
import { Omissions } from "../omissions.ts"
import { type MessageBlock, type MessageParam, type MessagesRequest, ToolContent } from "./domain.ts"
import { toChatParts } from "./media.ts"

type Part = Readonly<Record<string, unknown>>
type Refuse = (path: Fault["path"], message: string) => void

/** The maximum number of stop sequences that OpenAI accepts. */
const maxStops = 4

/** Translates a messages request to OpenAI's dialect; a stream always requests its usage. */
export const messagesToChat = (
  request: MessagesRequest,
  omissions = new Omissions()
): Result.Result<Readonly<Record<string, unknown>>, Untranslatable> => {
  const faults: Array<Fault> = []
  const refuse: Refuse = (path, message) => faults.push({ path, message })
  const system = systemOf(request.system ?? "", ["system"], refuse)
  const messages = [
    ...(system.length === 0 ? [] : [{ role: "system", content: system }]),
    ...request.messages.flatMap((message, index) => chatMessages(message, ["messages", index], refuse, omissions))
  ]
  const translated: Record<string, unknown> = {
    model: request.model,
    messages,
    max_completion_tokens: request.max_tokens
  }
  if (typeof request.temperature === "number") translated.temperature = request.temperature
  if (typeof request.top_p === "number") translated.top_p = request.top_p
  const stop = request.stop_sequences ?? []
  if (stop.length > maxStops) refuse(["stop_sequences"], `OpenAI's models take at most ${maxStops}`)
  if (stop.length > 0) translated.stop = stop
  if (typeof request.stream === "boolean") translated.stream = request.stream
  if (request.stream === true) translated.stream_options = { include_usage: true }
  const tools = toolsOf(request, refuse, omissions)
  if (tools.length > 0) {
    translated.tools = tools
    const choice = request.tool_choice
    if (choice) translated.tool_choice = toolChoiceOf(choice, refuse)
    if (choice?.disable_parallel_tool_use === true) translated.parallel_tool_calls = false
  }
  const effort = effortOf(request)
  if (effort !== undefined) translated.reasoning_effort = effort
  if (thinks.has(request.thinking?.type ?? "")) translated.reasoning_summary = "auto"
  const schema = (request.output_config?.format ?? request.output_format)?.schema
  if (schema) {
    translated.response_format = {
      type: "json_schema",
      json_schema: { name: "answer", schema, strict: isStrict(schema) }
    }
  }
  if (typeof request.metadata?.user_id === "string") translated.safety_identifier = userOf(request.metadata.user_id)
  return faults.length > 0 ? Result.fail(faults) : Result.succeed(translated)
}

/** OpenAI limits the length of a user id; a longer one is replaced by its digest. */
const longestUser = 64
const userOf = (id: string): string => (id.length <= longestUser ? id : hash("sha256", id, "hex"))

/** Instructions as a text, or in parts where one of them has a mark of the prompt cache. */
const systemOf = (
  content: string | ReadonlyArray<MessageBlock>,
  at: Fault["path"],
  refuse: Refuse
): string | ReadonlyArray<Part> => {
  if (typeof content === "string") return content
  for (const [index, { type }] of content.entries()) {
    if (type !== "text") refuse([...at, index, "type"], `A block of type ${type} is not translated here`)
  }
  return content.some(hasMark)
    ? content.map((block) => ({ type: "text", text: block.text ?? "", ...markMember(block) }))
    : content.map(({ text }) => text ?? "").join("\n\n")
}

const hasMark = ({ cache_control: mark }: MessageBlock): boolean => markOf(mark) !== undefined

const markMember = ({ cache_control: given }: Pick<MessageBlock, "cache_control">): Part => {
  const mark = markOf(given)
  return mark === undefined ? {} : { cache_control: mark }
}

const chatMessages = (
  message: MessageParam,
  at: Fault["path"],
  refuse: Refuse,
  omissions: Omissions
): ReadonlyArray<Part> => {
  if (message.role === "system") {
    return [{ role: "system", content: systemOf(message.content, [...at, "content"], refuse) }]
  }
  if (typeof message.content === "string") return [{ role: message.role, content: message.content }]
  const blocks = message.content.map((block, index) => ({ block, at: [...at, "content", index] }))
  return message.role === "assistant" ? assistantMessages(blocks, omissions) : userMessages(blocks, refuse, omissions)
}

interface Located {
  readonly block: MessageBlock
  readonly at: Fault["path"]
}

/** An assistant's turn; none if only what means nothing to another provider is in it. */
const assistantMessages = (blocks: ReadonlyArray<Located>, omissions: Omissions): ReadonlyArray<Part> => {
  const texts: Array<string> = []
  const calls: Array<Part> = []
  const states: Array<string> = []
  for (const { block } of blocks) {
    if (block.type === "tool_use") {
      calls.push({
        id: block.id ?? "",
        type: "function",
        function: { name: block.name ?? "", arguments: JSON.stringify(block.input ?? {}) }
      })
    } else if (block.type === "text") texts.push(block.text ?? "")
    // The summary of what came before it.
    else if (block.type === "compaction" && typeof block.content === "string") texts.push(block.content)
    else if (block.type === "thinking" && isSealedState(block.signature)) states.push(block.signature)
    // Other thoughts, and what the provider's own tools did, mean nothing to another provider.
    else omissions.item(block.type)
  }
  if (texts.length + calls.length === 0) return []
  const mark = blocks.findLast(({ block }) => hasMark(block))
  return [
    {
      role: "assistant",
      content: texts.length === 0 ? null : texts.join(""),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
      ...(states.length === 0 ? {} : { turn_state: states }),
      ...(mark === undefined ? {} : markMember(mark.block))
    }
  ]
}

/** What a provider's own tools did, and what they keep at the provider. */
const ofOwnTools =
  /^(?:server_tool_use|mcp_tool_use|container_upload|mcp_tool_listing|tool_(?:addition|removal))$|^(?!tool_result$).+_tool_result$/

const userMessages = (blocks: ReadonlyArray<Located>, refuse: Refuse, omissions: Omissions): ReadonlyArray<Part> => {
  const results: Array<Part> = []
  const parts: Array<Part> = []
  for (const { block, at } of blocks) {
    if (block.type === "tool_result") results.push(toolMessage(block, at, parts, refuse, omissions))
    else if (ofOwnTools.test(block.type)) omissions.item(block.type)
    else for (const part of userParts(block, at, refuse)) parts.push(part)
  }
  // Tool results directly follow the turn that called the tools.
  return parts.length === 0 ? results : [...results, { role: "user", content: parts }]
}

const media: ReadonlySet<string> = new Set(["image", "document", "search_result"])

const userParts = (block: MessageBlock, at: Fault["path"], refuse: Refuse): ReadonlyArray<Part> => {
  const parts =
    block.type === "text"
      ? [{ type: "text", text: block.text ?? "" }]
      : media.has(block.type)
        ? toChatParts(block)
        : `A block of type ${block.type} is not translated`
  if (typeof parts === "object") return withMark(parts, markOf(block.cache_control))
  refuse([...at, "type"], parts)
  return []
}

const decodeToolContent = Schema.decodeUnknownOption(ToolContent)

/** A tool's result. A tool message holds only text, so images go into `parts`, the user message that follows. */
const toolMessage = (
  block: MessageBlock,
  at: Fault["path"],
  parts: Array<Part>,
  refuse: Refuse,
  omissions: Omissions
): Part => {
  const given = decodeToolContent(block.content ?? "")
  if (Option.isNone(given)) refuse([...at, "content"], "Expected a text, or a list of blocks")
  const content = Option.getOrElse(given, () => "") ?? ""
  const texts: Array<string> = block.is_error === true ? ["Error:"] : []
  if (typeof content === "string") texts.push(content)
  else {
    for (const [index, inner] of content.entries()) {
      // What a search of tools found means nothing to another provider.
      if (inner.type === "tool_reference") omissions.item(inner.type)
      else {
        for (const part of userParts(inner, [...at, "content", index], refuse)) {
          if (part.type === "text") texts.push(String(part.text))
          else parts.push(part)
        }
      }
    }
  }
  return { role: "tool", tool_call_id: block.tool_use_id ?? "", content: texts.join("\n"), ...markMember(block) }
}

type MessagesTool = NonNullable<MessagesRequest["tools"]>[number]

/** Whether a caller runs a tool itself; what Anthropic runs, no other provider has. */
const isCallers = ({ type }: MessagesTool): boolean => (type ?? "custom") === "custom"

const toolsOf = (request: MessagesRequest, refuse: Refuse, omissions: Omissions): ReadonlyArray<Part> =>
  (request.tools ?? []).flatMap((tool, index) => {
    const { cache_control, description, input_schema: parameters, name, strict, type } = tool
    if (!isCallers(tool)) {
      if (request.tool_choice?.type === "tool" && request.tool_choice.name === name) {
        refuse(["tools", index, "type"], `A provider's own tool is not translated: ${type}`)
      }
      omissions.tool(type)
      return []
    }
    const called = {
      name,
      ...(typeof description === "string" ? { description } : {}),
      ...(typeof strict === "boolean" ? { strict } : {}),
      parameters: parameters ?? { type: "object", properties: {} }
    }
    return [{ type: "function", function: called, ...markMember({ cache_control }) }]
  })

const toolChoiceOf = (choice: NonNullable<MessagesRequest["tool_choice"]>, refuse: Refuse) => {
  if (choice.type === "any") return "required"
  if (choice.type !== "tool") return choice.type
  if (typeof choice.name !== "string") refuse(["tool_choice", "name"], "Missing key")
  return { type: "function", function: { name: choice.name ?? "" } }
}

const efforts = lookupTable<string>({
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
  max: "high"
})

/** Callers see the thoughts of a model that may think. */
const thinks = new Set(["enabled", "adaptive"])

const effortOf = ({ output_config: config, thinking }: MessagesRequest): string | undefined => {
  if (thinking?.type === "enabled") {
    const budget = thinking.budget_tokens ?? 0
    return budget <= 2048 ? "low" : budget <= 8192 ? "medium" : "high"
  }
  const asked = efforts[config?.effort ?? ""]
  return thinking?.type === "adaptive" ? (asked ?? "medium") : asked
}
