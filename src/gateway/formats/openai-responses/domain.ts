import { Schema } from "effect"

/** OpenAI's Responses API, limited to the members that translation reads (`openai`, resources/responses/responses.d.ts). */
const optional = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

/** A part of a message or of a tool's output. */
export const ResponsePart = Schema.Struct({
  type: Schema.String,
  text: optional(Schema.String),
  refusal: optional(Schema.String),
  image_url: optional(Schema.String),
  detail: optional(Schema.String),
  file_id: optional(Schema.String),
  file_data: optional(Schema.String),
  file_url: optional(Schema.String),
  filename: optional(Schema.String),
  input_audio: Schema.optionalKey(Schema.Unknown)
})
export type ResponsePart = typeof ResponsePart.Type

/**
 * An item of a conversation. The kinds that are not translated keep their `type`, so that a fault can name it. The members
 * that have another form in each kind of item are read where the kind is translated.
 */
export const ResponseItem = Schema.Struct({
  type: optional(Schema.String),
  id: optional(Schema.String),
  status: optional(Schema.String),
  role: optional(Schema.String),
  content: Schema.optionalKey(Schema.Unknown),
  text: Schema.optionalKey(Schema.Unknown),
  /** Of an item that adds tools. */
  tools: Schema.optionalKey(Schema.Unknown),
  call_id: optional(Schema.String),
  name: optional(Schema.String),
  namespace: optional(Schema.String),
  arguments: Schema.optionalKey(Schema.Unknown),
  input: Schema.optionalKey(Schema.Unknown),
  output: Schema.optionalKey(Schema.Unknown),
  summary: Schema.optionalKey(Schema.Unknown),
  encrypted_content: optional(Schema.String)
})
export type ResponseItem = typeof ResponseItem.Type

interface Tool {
  readonly type: string
  readonly name?: string | null
  readonly description?: string | null
  readonly parameters?: Readonly<Record<string, unknown>> | null
  readonly strict?: boolean | null
  readonly format?: Readonly<Record<string, unknown>> | null
  readonly tools?: ReadonlyArray<Tool> | null
  readonly filters?: { readonly allowed_domains?: ReadonlyArray<string> | null } | null
  readonly user_location?: Readonly<Record<string, unknown>> | null
  readonly server_label?: string | null
  readonly server_url?: string | null
  readonly authorization?: string | null
  readonly headers?: unknown
  readonly require_approval?: unknown
  readonly allowed_tools?: unknown
}
export const ResponseTool: Schema.Codec<Tool> = Schema.Struct({
  type: Schema.String,
  name: optional(Schema.String),
  description: optional(Schema.String),
  parameters: optional(Schema.Record(Schema.String, Schema.Unknown)),
  strict: optional(Schema.Boolean),
  format: optional(Schema.Record(Schema.String, Schema.Unknown)),
  /** Of a web search. */
  filters: optional(Schema.Struct({ allowed_domains: optional(Schema.Array(Schema.String)) })),
  user_location: optional(Schema.Record(Schema.String, Schema.Unknown)),
  /** Of an MCP server. */
  server_label: optional(Schema.String),
  server_url: optional(Schema.String),
  authorization: optional(Schema.String),
  headers: Schema.optionalKey(Schema.Unknown),
  require_approval: Schema.optionalKey(Schema.Unknown),
  allowed_tools: Schema.optionalKey(Schema.Unknown),
  /** Of a namespace. */
  tools: optional(Schema.Array(Schema.suspend((): Schema.Codec<Tool> => ResponseTool)))
})
export type ResponseTool = Tool

const ToolChoice = Schema.Union([
  Schema.Literals(["none", "auto", "required"]),
  Schema.Struct({
    type: Schema.String,
    name: optional(Schema.String),
    namespace: optional(Schema.String),
    mode: optional(Schema.Literals(["auto", "required"])),
    tools: optional(
      Schema.Array(
        Schema.Struct({
          type: Schema.String,
          name: optional(Schema.String),
          namespace: optional(Schema.String),
          server_label: optional(Schema.String)
        })
      )
    )
  })
])

export const ResponsesRequest = Schema.Struct({
  model: Schema.String,
  input: optional(Schema.Union([Schema.String, Schema.Array(ResponseItem)])),
  instructions: optional(Schema.String),
  previous_response_id: optional(Schema.String),
  store: optional(Schema.Boolean),
  stream: optional(Schema.Boolean),
  background: optional(Schema.Boolean),
  conversation: Schema.optionalKey(Schema.Unknown),
  prompt: Schema.optionalKey(Schema.Unknown),
  include: optional(Schema.Array(Schema.String)),
  max_output_tokens: optional(Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))),
  max_tool_calls: optional(Schema.Int),
  temperature: optional(Schema.Finite),
  top_p: optional(Schema.Finite),
  top_logprobs: optional(Schema.Int),
  tools: optional(Schema.Array(ResponseTool)),
  tool_choice: optional(ToolChoice),
  parallel_tool_calls: optional(Schema.Boolean),
  text: optional(
    Schema.Struct({
      format: optional(
        Schema.Struct({
          type: Schema.String,
          name: optional(Schema.String),
          schema: optional(Schema.Record(Schema.String, Schema.Unknown)),
          strict: optional(Schema.Boolean)
        })
      ),
      verbosity: optional(Schema.String)
    })
  ),
  reasoning: optional(Schema.Struct({ effort: optional(Schema.String), summary: optional(Schema.String) })),
  truncation: optional(Schema.String),
  metadata: optional(Schema.Record(Schema.String, Schema.String)),
  user: optional(Schema.String),
  safety_identifier: optional(Schema.String),
  service_tier: optional(Schema.String),
  prompt_cache_key: Schema.optionalKey(Schema.Unknown),
  prompt_cache_retention: Schema.optionalKey(Schema.Unknown)
})
export type ResponsesRequest = typeof ResponsesRequest.Type
