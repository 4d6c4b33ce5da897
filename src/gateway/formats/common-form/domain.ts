import { Effect, Schema } from "effect"
import { isJson } from "../../../kernel/json/parsed-json.ts"
import { list, members, object, place, type Reader, text } from "../../../kernel/json/readers.ts"

/** OpenAI's chat completions, limited to the members that translation reads; other members are ignored. */
const optional = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

export const ToolCall = Schema.Struct({
  id: Schema.String,
  type: Schema.optionalKey(Schema.String),
  function: Schema.Struct({ name: Schema.String, arguments: Schema.String })
})
export type ToolCall = typeof ToolCall.Type

/** A part of a message. The kinds that are not listed here keep their `type`, so that a fault can name it. */
export const ChatPart = Schema.Struct({
  type: Schema.String,
  text: optional(Schema.String),
  refusal: optional(Schema.String),
  // Some vendors take the URL itself.
  image_url: optional(
    Schema.Union([Schema.Struct({ url: Schema.String, detail: optional(Schema.String) }), Schema.String])
  ),
  file: optional(
    Schema.Struct({
      file_data: optional(Schema.String),
      file_id: optional(Schema.String),
      /** Of Anthropic and of the Responses API. */
      file_url: optional(Schema.String),
      filename: optional(Schema.String)
    })
  ),
  input_audio: Schema.optionalKey(Schema.Unknown),
  cache_control: Schema.optionalKey(Schema.Unknown)
})
export type ChatPart = typeof ChatPart.Type

export const ChatMessage = Schema.Struct({
  /** What the provider wants back with the turn; only the format that made it looks into it (`turn-state.ts`). */
  turn_state: optional(Schema.Array(Schema.Unknown)),
  role: Schema.Literals(["system", "developer", "user", "assistant", "tool", "function"]),
  content: optional(Schema.Union([Schema.String, Schema.Array(ChatPart)])),
  /** Of a model that did not answer. */
  refusal: optional(Schema.String),
  tool_calls: optional(Schema.Array(ToolCall)),
  tool_call_id: optional(Schema.String),
  /** A mark of the prompt cache, after the message. */
  cache_control: Schema.optionalKey(Schema.Unknown)
})
export type ChatMessage = typeof ChatMessage.Type

export const ChatTool = Schema.Struct({
  // Mistral's clients send none.
  type: Schema.String.pipe(Schema.withDecodingDefaultKey(Effect.succeed("function"))),
  function: optional(
    Schema.Struct({
      name: Schema.String,
      description: optional(Schema.String),
      parameters: optional(Schema.Record(Schema.String, Schema.Unknown)),
      strict: optional(Schema.Boolean)
    })
  ),
  cache_control: Schema.optionalKey(Schema.Unknown),
  /** Of Anthropic's own tools, which pass to it unchanged. */
  name: optional(Schema.String),
  max_uses: optional(Schema.Int),
  allowed_domains: optional(Schema.Array(Schema.String)),
  blocked_domains: optional(Schema.Array(Schema.String)),
  user_location: Schema.optionalKey(Schema.Unknown),
  mcp_server_name: optional(Schema.String)
})

/** The functions that a model may call, of those that are declared. */
const AllowedTools = Schema.Struct({
  type: Schema.Literal("allowed_tools"),
  allowed_tools: Schema.Struct({
    mode: Schema.Literals(["auto", "required"]),
    tools: Schema.Array(
      Schema.Struct({ type: Schema.String, function: optional(Schema.Struct({ name: Schema.String })) })
    )
  })
})

export const ChatToolChoice = Schema.Union([
  AllowedTools,
  Schema.Literals(["none", "auto", "required"]),
  Schema.Struct({ type: Schema.String, function: optional(Schema.Struct({ name: Schema.String })) })
])

const TokenLimit = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))

export const ChatRequest = Schema.Struct({
  model: Schema.String,
  messages: Schema.Array(ChatMessage).pipe(Schema.check(Schema.isMinLength(1))),
  max_tokens: optional(TokenLimit),
  max_completion_tokens: optional(TokenLimit),
  temperature: optional(Schema.Finite),
  top_p: optional(Schema.Finite),
  n: optional(Schema.Int),
  stop: optional(Schema.Union([Schema.String, Schema.Array(Schema.String)])),
  stream: optional(Schema.Boolean),
  stream_options: optional(Schema.Struct({ include_usage: optional(Schema.Boolean) })),
  tools: optional(Schema.Array(ChatTool)),
  tool_choice: optional(ChatToolChoice),
  parallel_tool_calls: optional(Schema.Boolean),
  response_format: optional(
    Schema.Struct({
      type: Schema.String,
      json_schema: optional(
        Schema.Struct({
          name: optional(Schema.String),
          description: optional(Schema.String),
          schema: optional(Schema.Record(Schema.String, Schema.Unknown)),
          strict: optional(Schema.Boolean)
        })
      )
    })
  ),
  reasoning_effort: optional(Schema.String),
  /** Whether thoughts are to be shown, as `auto`, where a model shows them only then. */
  reasoning_summary: optional(Schema.String),
  verbosity: Schema.optionalKey(Schema.Unknown),
  seed: optional(Schema.Int),
  presence_penalty: optional(Schema.Finite),
  frequency_penalty: optional(Schema.Finite),
  user: optional(Schema.String),
  safety_identifier: optional(Schema.String),
  service_tier: Schema.optionalKey(Schema.Unknown),
  metadata: Schema.optionalKey(Schema.Unknown),
  prompt_cache_key: Schema.optionalKey(Schema.Unknown),
  prompt_cache_retention: Schema.optionalKey(Schema.Unknown),
  logit_bias: Schema.optionalKey(Schema.Unknown),
  prediction: Schema.optionalKey(Schema.Unknown),
  audio: Schema.optionalKey(Schema.Unknown),
  logprobs: optional(Schema.Boolean),
  top_logprobs: optional(Schema.Int),
  modalities: optional(Schema.Array(Schema.String)),
  functions: optional(Schema.Array(Schema.Unknown)),
  web_search_options: optional(Schema.Unknown),
  /** A mark of the prompt cache, after the last message. */
  cache_control: Schema.optionalKey(Schema.Unknown),
  /** Of Anthropic, beside its own tools. */
  mcp_servers: optional(Schema.Array(Schema.Unknown))
})
export type ChatRequest = typeof ChatRequest.Type

/** Members of a request that are left out for other vendors; any answer is right without them. */
export const openAiAlone = [
  "logit_bias",
  "verbosity",
  "prediction",
  "service_tier",
  "metadata",
  "prompt_cache_key",
  "prompt_cache_retention"
] as const

/** Parts of a text; those that have no type are texts, too. */
const textTypes = new Set<unknown>([undefined, null, "text", "output_text"])

/** The text of a message; some providers send it in parts, of which the text parts are read. */
const words: Reader<string> = (value) => {
  if (typeof value === "string") return value
  if (Array.isArray(value)) return value.map(words).join("")
  return isJson(value) && textTypes.has(value.type) ? text(value.text) : undefined
}

/** The thoughts among the parts of a content, as Mistral has them. */
export const thoughtsInContent = (content: unknown): string =>
  (Array.isArray(content) ? content : [])
    .map((part: unknown) => (isJson(part) && part.type === "thinking" ? (words(part.thinking) ?? "") : ""))
    .join("")

/** The text of a content in parts, and the thoughts among them. */
export const textAndThoughtIn = (content: unknown): { readonly text: string; readonly thought: string } => ({
  text: words(content) ?? "",
  thought: thoughtsInContent(content)
})

/** The reasoning text, under either of its two member names. */
export const thoughtOf = (
  said: { readonly reasoning_content?: string | undefined; readonly reasoning?: string | undefined } | undefined
): string => said?.reasoning_content || (said?.reasoning ?? "")

/** The arguments of a call; some providers send the object itself. */
const callArguments: Reader<string> = (value) => (isJson(value) ? JSON.stringify(value) : text(value))

/** A call in an answer, or a fragment of one; some providers send no id. */
const call = members({
  index: place,
  id: text,
  function: members({ name: text, arguments: callArguments })
})
export type CallFragment = NonNullable<ReturnType<typeof call>>

/** Citations of pages, as chat completions have them; of other kinds there is no common form. */
const readAnnotations = list(
  members({
    url_citation: members({ url: text, title: text, start_index: place, end_index: place, content: text })
  })
)
export type Annotation = NonNullable<ReturnType<typeof readAnnotations>>[number]

const saidMembers = members({
  /** What the provider wants back with the turn, sealed; in chunks, what is to be sent back besides what came before. */
  turn_state: text,
  /** The searches that a provider ran for an answer, for the translation to a response alone. */
  web_searches: list(members({ query: text })),
  content: words,
  refusal: text,
  reasoning_content: text,
  // The name that OpenRouter, Groq and newer servers use.
  reasoning: text,
  tool_calls: list(call),
  annotations: readAnnotations
})

/** What a model said, in a message or in its part in a chunk; it may be a text alone. */
const said: Reader<NonNullable<ReturnType<typeof saidMembers>>> = (value) => {
  if (typeof value === "string") return { content: value }
  const read = saidMembers(value)
  const thought = isJson(value) ? thoughtsInContent(value.content) : ""
  return thought === "" || thoughtOf(read) !== "" ? read : { ...read, reasoning_content: thought }
}

/** A completion. An answer is read member by member: what translation does not know fails none of it. */
export const readCompletion = members({
  id: text,
  choices: list(members({ index: place, message: said, finish_reason: text })),
  usage: object
})
export type ChatCompletion = NonNullable<ReturnType<typeof readCompletion>>

export const readChunk = members({
  id: text,
  choices: list(members({ index: place, delta: said, finish_reason: text })),
  usage: object
})
export type ChatChunk = NonNullable<ReturnType<typeof readChunk>>
