import { Schema } from "effect"

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
  image_url: optional(Schema.Struct({ url: Schema.String, detail: optional(Schema.String) })),
  file: optional(
    Schema.Struct({
      file_data: optional(Schema.String),
      file_id: optional(Schema.String),
      filename: optional(Schema.String)
    })
  )
})
export type ChatPart = typeof ChatPart.Type

/** A signed thought of an Anthropic model, in Anthropic's form: only with its signature can it be sent back. */
export const ThinkingBlock = Schema.Struct({
  type: Schema.Literals(["thinking", "redacted_thinking"]),
  thinking: optional(Schema.String),
  signature: optional(Schema.String),
  data: optional(Schema.String)
})
export type ThinkingBlock = typeof ThinkingBlock.Type

/** The member of a message that carries them between translations; no provider gets it. */
const thinkingBlocks = { thinking_blocks: optional(Schema.Array(ThinkingBlock)) }

/** The searches that a provider ran for an answer, for the translation to a response alone. */
const webSearches = { web_searches: optional(Schema.Array(Schema.Struct({ query: Schema.String }))) }

export const ChatMessage = Schema.Struct({
  ...thinkingBlocks,
  role: Schema.Literals(["system", "developer", "user", "assistant", "tool", "function"]),
  content: optional(Schema.Union([Schema.String, Schema.Array(ChatPart)])),
  tool_calls: optional(Schema.Array(ToolCall)),
  tool_call_id: optional(Schema.String)
})
export type ChatMessage = typeof ChatMessage.Type

export const ChatTool = Schema.Struct({
  type: Schema.String,
  function: optional(
    Schema.Struct({
      name: Schema.String,
      description: optional(Schema.String),
      parameters: optional(Schema.Record(Schema.String, Schema.Unknown)),
      strict: optional(Schema.Boolean)
    })
  ),
  /** Of Anthropic's own tools, which pass to it unchanged. */
  name: optional(Schema.String),
  max_uses: optional(Schema.Int),
  allowed_domains: optional(Schema.Array(Schema.String)),
  blocked_domains: optional(Schema.Array(Schema.String)),
  user_location: Schema.optionalKey(Schema.Unknown),
  mcp_server_name: optional(Schema.String)
})

export const ChatToolChoice = Schema.Union([
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
          schema: optional(Schema.Record(Schema.String, Schema.Unknown)),
          strict: optional(Schema.Boolean)
        })
      )
    })
  ),
  reasoning_effort: optional(Schema.String),
  user: optional(Schema.String),
  safety_identifier: optional(Schema.String),
  logprobs: optional(Schema.Boolean),
  modalities: optional(Schema.Array(Schema.String)),
  functions: optional(Schema.Array(Schema.Unknown)),
  web_search_options: optional(Schema.Unknown),
  /** Of Anthropic, beside its own tools. */
  mcp_servers: optional(Schema.Array(Schema.Unknown))
})
export type ChatRequest = typeof ChatRequest.Type

/** The text of a message; some providers send it in parts, of which the text parts are read. */
const Words = Schema.Union([Schema.String, Schema.Array(ChatPart)])

export const textOfWords = (words: typeof Words.Type | null | undefined): string =>
  typeof words === "string"
    ? words
    : (words ?? []).map(({ text, type }) => (type === "text" ? (text ?? "") : "")).join("")

/** The reasoning text, under either of its two member names. */
export const thoughtOf = (
  said: { readonly reasoning_content?: string | null; readonly reasoning?: unknown } | undefined | null
) => said?.reasoning_content || (typeof said?.reasoning === "string" ? said.reasoning : "")

/** A tool call; some providers send no id. */
const AnsweredCall = Schema.Struct({
  id: optional(Schema.String),
  function: Schema.Struct({ name: Schema.String, arguments: optional(Schema.String) })
})

export const ChatCompletion = Schema.Struct({
  id: optional(Schema.String),
  model: optional(Schema.String),
  created: optional(Schema.Finite),
  choices: Schema.Array(
    Schema.Struct({
      message: Schema.Struct({
        ...thinkingBlocks,
        ...webSearches,
        content: optional(Words),
        refusal: optional(Schema.String),
        reasoning_content: optional(Schema.String),
        reasoning: Schema.optionalKey(Schema.Unknown),
        tool_calls: optional(Schema.Array(AnsweredCall))
      }),
      finish_reason: optional(Schema.String)
    })
  ),
  // Decoded separately: usage formats vary most between providers, and an unknown format must not fail the response.
  usage: Schema.optionalKey(Schema.Unknown)
})
export type ChatCompletion = typeof ChatCompletion.Type

export const ChatChunk = Schema.Struct({
  id: optional(Schema.String),
  model: optional(Schema.String),
  choices: optional(
    Schema.Array(
      Schema.Struct({
        index: optional(Schema.Int),
        /** Of a text completion. */
        text: optional(Schema.String),
        delta: optional(
          Schema.Struct({
            ...thinkingBlocks,
            ...webSearches,
            content: optional(Words),
            refusal: optional(Schema.String),
            reasoning_content: optional(Schema.String),
            // The name that OpenRouter, Groq and newer servers use.
            reasoning: Schema.optionalKey(Schema.Unknown),
            tool_calls: optional(
              Schema.Array(
                Schema.Struct({
                  index: optional(Schema.Int),
                  id: optional(Schema.String),
                  function: optional(
                    Schema.Struct({ name: optional(Schema.String), arguments: optional(Schema.String) })
                  )
                })
              )
            )
          })
        ),
        finish_reason: optional(Schema.String)
      })
    )
  ),
  usage: Schema.optionalKey(Schema.Unknown)
})
export type ChatChunk = typeof ChatChunk.Type
