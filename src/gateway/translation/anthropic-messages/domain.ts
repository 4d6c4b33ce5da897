import { Schema } from "effect"

/** Anthropic's messages, limited to the members that translation reads; other members are ignored. */
const optional = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

const Source = Schema.Struct({
  type: Schema.String,
  media_type: optional(Schema.String),
  data: optional(Schema.String),
  url: optional(Schema.String),
  content: optional(Schema.Unknown)
})
export type Source = typeof Source.Type

const blockMembers = {
  type: Schema.String,
  text: optional(Schema.String),
  source: optional(Schema.Union([Source, Schema.String])),
  title: optional(Schema.String),
  thinking: optional(Schema.String),
  signature: optional(Schema.String),
  data: optional(Schema.String),
  id: optional(Schema.String),
  name: optional(Schema.String),
  input: Schema.optionalKey(Schema.Unknown),
  tool_use_id: optional(Schema.String),
  is_error: optional(Schema.Boolean)
}

const InnerBlock = Schema.Struct(blockMembers)
/** A block of a message. The kinds that are not listed here keep their `type`, so that a fault can name it. */
export const MessageBlock = Schema.Struct({
  ...blockMembers,
  content: optional(Schema.Union([Schema.String, Schema.Array(InnerBlock)]))
})
export type MessageBlock = typeof MessageBlock.Type

export const MessageParam = Schema.Struct({
  role: Schema.Literals(["user", "assistant", "system"]),
  content: Schema.Union([Schema.String, Schema.Array(MessageBlock)])
})
export type MessageParam = typeof MessageParam.Type

const TokenLimit = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))

const OutputFormat = Schema.Struct({ type: Schema.String, schema: Schema.Record(Schema.String, Schema.Unknown) })

export const MessagesRequest = Schema.Struct({
  model: Schema.String,
  max_tokens: TokenLimit,
  messages: Schema.Array(MessageParam).pipe(Schema.check(Schema.isMinLength(1))),
  system: optional(Schema.Union([Schema.String, Schema.Array(InnerBlock)])),
  temperature: optional(Schema.Finite),
  top_p: optional(Schema.Finite),
  stop_sequences: optional(Schema.Array(Schema.String)),
  stream: optional(Schema.Boolean),
  tools: optional(
    Schema.Array(
      Schema.Struct({
        type: optional(Schema.String),
        name: Schema.String,
        description: optional(Schema.String),
        input_schema: optional(Schema.Record(Schema.String, Schema.Unknown)),
        strict: optional(Schema.Boolean)
      })
    )
  ),
  tool_choice: optional(
    Schema.Struct({
      type: Schema.Literals(["auto", "any", "tool", "none"]),
      name: optional(Schema.String),
      disable_parallel_tool_use: optional(Schema.Boolean)
    })
  ),
  thinking: optional(Schema.Struct({ type: Schema.String, budget_tokens: optional(Schema.Int) })),
  output_config: optional(Schema.Struct({ effort: optional(Schema.String), format: optional(OutputFormat) })),
  metadata: optional(Schema.Struct({ user_id: optional(Schema.String) }))
})
export type MessagesRequest = typeof MessagesRequest.Type

export const MessageUsage = Schema.Struct({
  input_tokens: optional(Schema.Finite),
  output_tokens: optional(Schema.Finite),
  cache_read_input_tokens: optional(Schema.Finite),
  cache_creation_input_tokens: optional(Schema.Finite),
  cache_creation: optional(Schema.Struct({ ephemeral_1h_input_tokens: optional(Schema.Finite) })),
  output_tokens_details: optional(Schema.Struct({ thinking_tokens: optional(Schema.Finite) })),
  iterations: Schema.optionalKey(Schema.Unknown)
})
export type MessageUsage = typeof MessageUsage.Type

export const Message = Schema.Struct({
  id: optional(Schema.String),
  model: optional(Schema.String),
  content: Schema.Array(MessageBlock),
  stop_reason: optional(Schema.String),
  usage: optional(MessageUsage)
})
export type Message = typeof Message.Type

/** An event of a streamed message, discriminated by `type`. */
export const MessageEvent = Schema.Struct({
  type: Schema.String,
  index: optional(Schema.Int),
  message: optional(
    Schema.Struct({ id: optional(Schema.String), model: optional(Schema.String), usage: optional(MessageUsage) })
  ),
  content_block: optional(
    Schema.Struct({
      type: Schema.String,
      id: optional(Schema.String),
      name: optional(Schema.String),
      text: optional(Schema.String),
      thinking: optional(Schema.String),
      signature: optional(Schema.String),
      data: optional(Schema.String),
      input: Schema.optionalKey(Schema.Unknown)
    })
  ),
  delta: optional(
    Schema.Struct({
      type: optional(Schema.String),
      text: optional(Schema.String),
      thinking: optional(Schema.String),
      signature: optional(Schema.String),
      partial_json: optional(Schema.String),
      stop_reason: optional(Schema.String)
    })
  ),
  usage: optional(MessageUsage),
  error: optional(Schema.Struct({ type: optional(Schema.String), message: optional(Schema.String) }))
})
export type MessageEvent = typeof MessageEvent.Type
