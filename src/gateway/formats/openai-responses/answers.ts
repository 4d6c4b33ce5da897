import { Struct } from "effect"
import { parsedJson, isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../../kernel/lookup-table.ts"
import { type TokenUsage } from "../domain.ts"
import { type ResponsesRequest } from "./domain.ts"
import { customInput, type ToolNames } from "./to-chat.ts"

/** What a response says besides the model's output. */
export interface ResponseHead {
  readonly id: string
  readonly createdSeconds: number
  readonly request: ResponsesRequest
  readonly tools: ToolNames
  /** The id of the item at a place of the output; each is an id of its own. */
  itemId(prefix: string, place: number): string
}

export const toResponseUsage = (usage: TokenUsage) => ({
  input_tokens: usage.inputTokens,
  input_tokens_details: { cached_tokens: usage.cachedInputTokens, cache_write_tokens: usage.cacheWriteTokens },
  output_tokens: usage.outputTokens,
  output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
  total_tokens: usage.inputTokens + usage.outputTokens
})

/** Why a response is not complete, by a completion's finish reason. */
const incompleteReasons = lookupTable<string>({
  length: "max_output_tokens",
  content_filter: "content_filter"
})

/** Whether a finish reason says that the output was cut. */
export const isIncomplete = (finishReason: string | undefined): boolean =>
  incompleteReasons[finishReason ?? ""] !== undefined

/** A response at a stage of its making. */
export const responseOf = (
  { createdSeconds, id, request }: Pick<ResponseHead, "createdSeconds" | "id" | "request">,
  output: ReadonlyArray<Json>,
  ending: {
    readonly status: "in_progress" | "completed" | "failed"
    readonly finishReason?: string | undefined
    readonly usage?: TokenUsage | undefined
    readonly error?: { readonly code: string; readonly message: string } | undefined
  }
): Json => {
  const reason = incompleteReasons[ending.finishReason ?? ""]
  const isIncomplete = ending.status === "completed" && reason !== undefined
  return {
    id,
    object: "response",
    created_at: createdSeconds,
    status: isIncomplete ? "incomplete" : ending.status,
    background: false,
    error: ending.error ?? null,
    incomplete_details: isIncomplete ? { reason } : null,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    max_tool_calls: request.max_tool_calls ?? null,
    model: request.model,
    output,
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id: request.previous_response_id ?? null,
    reasoning: { effort: request.reasoning?.effort ?? null, summary: request.reasoning?.summary ?? null },
    service_tier: "default",
    store: request.store ?? true,
    temperature: request.temperature ?? null,
    text: { format: { type: "text" }, ...request.text },
    tool_choice: request.tool_choice ?? "auto",
    // A response may be shown to others, and never has a server's token.
    tools: (request.tools ?? []).map((tool) => Struct.omit(tool, ["authorization", "headers"])),
    top_p: request.top_p ?? null,
    truncation: request.truncation ?? "disabled",
    usage: ending.usage === undefined ? null : toResponseUsage(ending.usage),
    user: request.user ?? null,
    metadata: request.metadata ?? {}
  }
}

export const messageItem = (id: string, content: ReadonlyArray<Json>, status: string): Json => ({
  id,
  type: "message",
  status,
  role: "assistant",
  content
})

export const textPart = (text: string, annotations: ReadonlyArray<Json> = []): Json => ({
  type: "output_text",
  text,
  annotations,
  logprobs: []
})

export const refusalPart = (refusal: string): Json => ({ type: "refusal", refusal })

/** A model's thoughts; `encrypted` is what its provider wants back. */
export const reasoningItem = (id: string, text: string, encrypted = ""): Json => ({
  id,
  type: "reasoning",
  summary: text === "" ? [] : [{ type: "summary_text", text }],
  ...(encrypted === "" ? {} : { encrypted_content: encrypted })
})

/** A search that the model's provider ran. */
export const searchItem = (id: string, query: string): Json => ({
  id,
  type: "web_search_call",
  status: "completed",
  action: { type: "search", query, queries: [query] }
})

/** A call of a function, or of a custom tool, as the caller named it. */
export const callItem = (
  { itemId, tools: { custom, namespaced } }: Pick<ResponseHead, "itemId" | "tools">,
  place: number,
  call: { readonly id: string; readonly name: string; readonly arguments: string },
  status: string
): Json => {
  const own = namespaced.get(call.name)
  const named = own === undefined ? { name: call.name } : own
  return custom.has(call.name)
    ? {
        id: itemId("ctc", place),
        type: "custom_tool_call",
        status,
        call_id: call.id,
        ...named,
        input: call.arguments === "" ? "" : customText(call.arguments)
      }
    : {
        id: itemId("fc", place),
        type: "function_call",
        status,
        call_id: call.id,
        ...named,
        arguments: call.arguments
      }
}

/** The text in the one argument of a custom tool; a model may also have sent the text itself. */
export const customText = (text: string): string => {
  const value = parsedJson(text)
  const input = isJson(value) ? value[customInput] : value
  return typeof input === "string" ? input : text
}
