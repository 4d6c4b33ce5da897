import { Schema } from "effect"
import { anything, list, members, object, place, type Reader, text } from "../../../kernel/json/readers.ts"

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

/** A block of a message. The kinds that are not listed here keep their `type`, so that a fault can name it. */
export const MessageBlock = Schema.Struct({
  type: Schema.String,
  text: optional(Schema.String),
  source: optional(Schema.Union([Source, Schema.String])),
  title: optional(Schema.String),
  context: optional(Schema.String),
  cache_control: Schema.optionalKey(Schema.Unknown),
  // The results of a provider's own tools have forms of their own.
  content: Schema.optionalKey(Schema.Unknown),
  thinking: optional(Schema.String),
  signature: optional(Schema.String),
  data: optional(Schema.String),
  id: optional(Schema.String),
  name: optional(Schema.String),
  input: Schema.optionalKey(Schema.Unknown),
  tool_use_id: optional(Schema.String),
  is_error: optional(Schema.Boolean)
})
export type MessageBlock = typeof MessageBlock.Type

/** What a caller's tool gave. */
export const ToolContent = Schema.NullOr(Schema.Union([Schema.String, Schema.Array(MessageBlock)]))

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
  system: optional(Schema.Union([Schema.String, Schema.Array(MessageBlock)])),
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
        strict: optional(Schema.Boolean),
        cache_control: Schema.optionalKey(Schema.Unknown)
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
  /** The name that the format of the answer had before. */
  output_format: optional(OutputFormat),
  metadata: optional(Schema.Struct({ user_id: optional(Schema.String) }))
})
export type MessagesRequest = typeof MessagesRequest.Type

const readCitation = members({ type: text, url: text, source: text, title: text, cited_text: text })
export type AnsweredCitation = NonNullable<ReturnType<typeof readCitation>>

const blockMembers = members({
  type: text,
  id: text,
  name: text,
  text,
  thinking: text,
  signature: text,
  data: text,
  input: anything,
  citations: list(readCitation)
})
export type AnsweredBlock = NonNullable<ReturnType<typeof blockMembers>>

/** A block of an answer; what has a text and no type is a text. */
const block: Reader<AnsweredBlock> = (value) => {
  if (typeof value === "string") return { type: "text", text: value }
  const read = blockMembers(value)
  return read?.type === undefined && read?.text !== undefined ? { ...read, type: "text" } : read
}

const blocks = list(block)

/** A message. An answer is read member by member: what translation does not know fails none of it. */
export const readMessage = members({
  id: text,
  content: (value) => (typeof value === "string" ? blocks([value]) : blocks(value)),
  stop_reason: text,
  usage: object
})
export type Message = NonNullable<ReturnType<typeof readMessage>>

/** An event of a streamed message, discriminated by `type`. */
export const readEvent = members({
  type: text,
  index: place,
  message: members({ id: text, usage: object }),
  content_block: block,
  delta: members({
    type: text,
    text,
    thinking: text,
    signature: text,
    partial_json: text,
    citation: readCitation,
    stop_reason: text
  }),
  usage: object
})
export type MessageEvent = NonNullable<ReturnType<typeof readEvent>>
