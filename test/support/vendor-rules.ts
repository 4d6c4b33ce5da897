import { type ReceivedRequest } from "./provider.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- requests of every shape are looked into
type Json = any

const list = (value: Json): ReadonlyArray<Json> => (Array.isArray(value) ? value : [])
const isText = (value: unknown): boolean => typeof value === "string"
const toolName = /^[a-zA-Z0-9_-]{1,64}$/

const chatMembers = new Set(
  "model messages max_tokens max_completion_tokens temperature top_p n stop stream stream_options tools tool_choice parallel_tool_calls response_format reasoning_effort user safety_identifier logprobs modalities metadata seed store service_tier presence_penalty frequency_penalty logit_bias prompt_cache_key verbosity".split(
    " "
  )
)

const chatPart = (part: Json): string | undefined => {
  switch (part.type) {
    case "text":
      return isText(part.text) ? undefined : "text"
    case "image_url":
      return /^(?:https?:|data:image\/)/.test(part.image_url?.url) ? undefined : "image_url.url"
    case "file":
      return String(part.file?.file_data).startsWith("data:application/pdf;base64,") ? undefined : "file.file_data"
    case "input_audio":
    case "refusal":
      return undefined
    default:
      return `type ${part.type}`
  }
}

const chatMessages = (messages: ReadonlyArray<Json>): string | undefined => {
  let open = new Set<string>()
  for (const [index, message] of messages.entries()) {
    const at = `messages.${index}`
    if (!["system", "developer", "user", "assistant", "tool"].includes(message.role)) return `${at}.role`
    if (message.role === "tool") {
      if (!open.delete(message.tool_call_id)) return `${at}.tool_call_id answers no call`
      if (list(message.content).some(({ type }) => type !== "text")) return `${at}.content`
    } else if (open.size > 0) return `${at}: calls without results`
    const calls = list(message.tool_calls)
    if (message.content === undefined && calls.length === 0) return `${at}.content`
    if (message.role !== "user" && list(message.content).some(({ type }) => type !== "text")) return `${at}.content`
    for (const part of list(message.content)) {
      const fault = chatPart(part)
      if (fault !== undefined) return `${at}.content.${fault}`
    }
    if (calls.some(({ function: called, id }) => !isText(id) || !isText(called?.arguments))) return `${at}.tool_calls`
    if (calls.length > 0) open = new Set(calls.map(({ id }) => id))
  }
  return open.size > 0 ? "messages: calls without results" : undefined
}

/** Why OpenAI would refuse a chat completion, as far as its reference says. */
export const chatFault = ({ body }: Omit<ReceivedRequest, "bytes">): string | undefined => {
  const unknown = Object.keys(body).find((name) => !chatMembers.has(name))
  if (unknown !== undefined) return `Unrecognized request argument supplied: ${unknown}`
  if (body.max_tokens !== undefined && body.max_completion_tokens !== undefined) return "max_tokens: two limits"
  if (body.stream_options !== undefined && body.stream !== true) return "stream_options"
  for (const [index, { function: tool, type }] of list(body.tools).entries()) {
    if (type !== "function" || !toolName.test(tool?.name)) return `tools.${index}`
  }
  if (body.tool_choice !== undefined && list(body.tools).length === 0) return "tool_choice without tools"
  const format = body.response_format
  if (format?.type === "json_schema" && !toolName.test(format.json_schema?.name)) return "response_format"
  return chatMessages(list(body.messages))
}

const messageMembers = new Set(
  "model max_tokens messages system temperature top_p top_k stop_sequences stream tools tool_choice thinking output_config metadata service_tier container mcp_servers context_management".split(
    " "
  )
)

const contentBlock = (block: Json): string | undefined => {
  const source = block.source ?? {}
  switch (block.type) {
    case "text":
      return isText(block.text) && block.text !== "" ? undefined : "text must be non-empty"
    case "image":
    case "document":
      if (source.type === "base64") {
        const types = block.type === "image" ? /^image\/(?:png|jpeg|gif|webp)$/ : /^application\/pdf$/
        return types.test(source.media_type) && /^[A-Za-z0-9+/]+=*$/.test(source.data) ? undefined : "source"
      }
      if (source.type === "text") return block.type === "document" && isText(source.data) ? undefined : "source"
      return source.type === "url" && /^https?:/.test(source.url) ? undefined : "source"
    case "tool_use":
      return isText(block.id) && toolName.test(block.name) && typeof block.input === "object" ? undefined : "tool_use"
    case "tool_result":
      return isText(block.tool_use_id) ? undefined : "tool_use_id"
    case "thinking":
      return isText(block.thinking) && isText(block.signature) && block.signature !== "" ? undefined : "signature"
    case "redacted_thinking":
      return isText(block.data) && block.data !== "" ? undefined : "data"
    default:
      return `type ${block.type}`
  }
}

/** The beta by which instructions may stand between turns. */
const midConversationSystem = "mid-conversation-system-"

const messageTurns = (messages: ReadonlyArray<Json>, betas: string): string | undefined => {
  let open: ReadonlyArray<string> = []
  for (const [index, { content, role }] of messages.entries()) {
    const at = `messages.${index}`
    if (role === "system" && betas.includes(midConversationSystem)) continue
    if (role !== "user" && role !== "assistant") return `${at}.role`
    if (index === 0 && role !== "user") return `${at}.role: the first message is the user's`
    if (content === "") return `${at}.content must be non-empty`
    const blocks = list(content)
    for (const block of blocks) {
      const fault = contentBlock(block) ?? list(block.content).map(contentBlock).find(isText)
      if (fault !== undefined) return `${at}.content.${fault}`
    }
    const results = blocks.filter(({ type }) => type === "tool_result").map(({ tool_use_id }) => tool_use_id)
    if (open.some((id) => !results.includes(id)) || results.some((id) => !open.includes(id))) {
      return `${at}: each tool_use has its tool_result in the next message`
    }
    if (results.length > 0 && blocks.findIndex(({ type }) => type !== "tool_result") < results.length - 1) {
      if (blocks.length > results.length) return `${at}: tool_result blocks come first`
    }
    if (String(blocks.at(-1)?.type).endsWith("thinking")) return `${at}.content: the final block cannot be thinking`
    open = blocks.filter(({ type }) => type === "tool_use").map(({ id }) => id)
  }
  return open.length > 0 ? "messages: tool_use without tool_result" : undefined
}

/** The models that take budgets and sampling; its newer ones refuse both. */
const takesBudgets = /claude-(?:3|sonnet-4|haiku-4|opus-4-[0-6])/

const thinkingFault = (body: Json): string | undefined => {
  const isOlder = takesBudgets.test(body.model)
  const sampling = ["temperature", "top_p", "top_k"].find((name) => body[name] !== undefined)
  if (!isOlder && sampling !== undefined) return `\`${sampling}\` is deprecated for this model.`
  if (body.thinking?.type !== "enabled") return undefined
  if (!isOlder) return '"thinking.type.enabled" is not supported for this model.'
  const budget = body.thinking.budget_tokens
  if (!(budget >= 1024 && budget < body.max_tokens)) return "thinking.budget_tokens"
  if ((body.temperature ?? 1) !== 1) return "temperature: thinking takes 1 alone"
  return ["any", "tool"].includes(body.tool_choice?.type) ? "tool_choice: thinking takes auto or none" : undefined
}

/** Why Anthropic would refuse a message, as far as its reference says. */
export const messageFault = ({ body, headers, path }: Omit<ReceivedRequest, "bytes">): string | undefined => {
  if (headers["anthropic-version"] === undefined) return "anthropic-version: header is required"
  const unknown = Object.keys(body).find((name) => !messageMembers.has(name))
  if (unknown !== undefined) return `${unknown}: Extra inputs are not permitted`
  if (path.endsWith("/messages") && !(Number.isInteger(body.max_tokens) && body.max_tokens > 0)) return "max_tokens"
  if (body.temperature !== undefined && !(body.temperature >= 0 && body.temperature <= 1)) return "temperature"
  if (list(body.system).some(({ text, type }) => type !== "text" || text === "")) return "system"
  for (const [index, { input_schema: schema, name, type = "custom" }] of list(body.tools).entries()) {
    if (type === "custom" && (!toolName.test(name) || schema?.type !== "object")) return `tools.${index}`
  }
  if (body.tool_choice !== undefined && list(body.tools).length === 0) return "tool_choice without tools"
  return thinkingFault(body) ?? messageTurns(list(body.messages), String(headers["anthropic-beta"]))
}
