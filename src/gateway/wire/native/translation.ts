import { Option, Schema } from "effect"
import { type Json, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../../kernel/utf8.ts"
import { withCallResults } from "../../formats/common-form/call-results.ts"
import { type ChatMessage, readCompletion } from "../../formats/common-form/domain.ts"
import { isStrict } from "../../formats/common-form/strict-schema.ts"
import { withImagesBesideTools } from "../../formats/common-form/tool-images.ts"
import { type TokenUsage } from "../../formats/domain.ts"
import { type EmbeddingRequest, type LlmMessage, type LlmPart, type LlmRequest } from "./request-domain.ts"

const partOf = (part: LlmPart): Json => {
  switch (part.type) {
    case "text":
      return { type: "text", text: part.text }
    case "image":
      return { type: "image_url", image_url: { url: part.url } }
    case "document": {
      const data = `data:application/pdf;base64,${part.data}`
      return { type: "file", file: { filename: part.name ?? "document.pdf", file_data: data } }
    }
  }
}

/** Null if only tools were called, which a response represents by an empty list. */
const contentOf = (content: LlmMessage["content"]) =>
  typeof content === "string" ? content : content === undefined || content.length === 0 ? null : content.map(partOf)

const messageOf = ({ content, role, toolCallId, toolCalls = [] }: LlmMessage): Json => ({
  role,
  content: contentOf(content),
  ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
  ...(toolCalls.length === 0
    ? {}
    : {
        tool_calls: toolCalls.map(({ arguments: input, id, name }) => ({
          id,
          type: "function",
          function: { name, arguments: typeof input === "string" ? input : JSON.stringify(input) }
        }))
      })
})

const formatOf = (format: NonNullable<LlmRequest["responseFormat"]>): Json =>
  format.type === "json-schema"
    ? { type: "json_schema", json_schema: { name: "answer", schema: format.schema, strict: isStrict(format.schema) } }
    : { type: format.type === "json" ? "json_object" : "text" }

const given = (members: Json): Json =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))

const withResults = (messages: ReadonlyArray<Json>): ReadonlyArray<Json> =>
  withCallResults(
    (messages as ReadonlyArray<ChatMessage>).map((message, index) => ({ message, at: ["messages", index] }))
  ).map(({ message }) => message)

/** Translates a native request to OpenAI's dialect, from which every other one is derived. */
export const chatOf = (request: LlmRequest): Json =>
  given({
    model: request.model,
    messages: withImagesBesideTools(withResults(request.messages.map(messageOf))),
    max_completion_tokens: request.maxTokens,
    temperature: request.temperature,
    top_p: request.topP,
    stop: request.stop,
    stream: request.stream,
    stream_options: request.stream === true ? { include_usage: true } : undefined,
    tools: request.tools?.map((tool) => ({ type: "function", function: tool })),
    tool_choice:
      typeof request.toolChoice === "object" ? { type: "function", function: request.toolChoice } : request.toolChoice,
    response_format: request.responseFormat && formatOf(request.responseFormat),
    reasoning_effort: request.reasoning?.effort
  })

export const embeddingsOf = ({ dimensions, input, model }: EmbeddingRequest): Json =>
  given({ model, input, dimensions, encoding_format: "float" })

const decodeEmbeddings = Schema.decodeUnknownOption(
  Schema.fromJsonString(
    Schema.Struct({ data: Schema.Array(Schema.Struct({ embedding: Schema.Array(Schema.Finite) })) })
  )
)

const reasons = new Set(["stop", "length", "tool_calls", "content_filter"])

/** Translates a completion to the native format; undefined if it is no object. */
export const saidIn = (bytes: Uint8Array) => {
  const completion = readCompletion(parsedJson(utf8Text(bytes)))
  if (completion === undefined) return undefined
  const [choice] = completion.choices ?? []
  const { content, refusal, tool_calls: calls = [] } = choice?.message ?? {}
  const text = content || (refusal ?? "")
  const toolCalls = calls.flatMap(({ function: called, id }, index) =>
    called?.name === undefined
      ? []
      : [{ id: id || `call_${index}`, name: called.name, arguments: called.arguments || "{}" }]
  )
  return {
    id: completion.id ?? "",
    text,
    content: text === "" ? [] : [{ type: "text" as const, text }],
    toolCalls,
    finishReason: finishOf(choice?.finish_reason, toolCalls.length > 0)
  }
}

/** Some providers send `stop` although tools are called. */
export const finishOf = (reason: string | null | undefined, callsTools: boolean) => {
  const known = reasons.has(reason ?? "") ? reason : "stop"
  return (callsTools && known === "stop" ? "tool_calls" : known) as "stop" | "length" | "tool_calls" | "content_filter"
}

/** The vectors of an answer. */
export const vectorsIn = (bytes: Uint8Array) =>
  Option.map(decodeEmbeddings(utf8Text(bytes)), ({ data }) => data.map(({ embedding }) => embedding))

export const usageOf = (usage: TokenUsage) => ({
  inputTokens: usage.inputTokens,
  outputTokens: usage.outputTokens,
  cachedInputTokens: usage.cachedInputTokens,
  cacheWriteTokens: usage.cacheWriteTokens,
  reasoningTokens: usage.reasoningTokens,
  totalTokens: usage.inputTokens + usage.outputTokens
})
