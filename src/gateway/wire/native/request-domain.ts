import { Schema } from "effect"
import { AgentId } from "../../../agents/agents/domain.ts"
import { GoverningCap, Label, Metadata, PlanId, ReservationId } from "../../../budgets/ledger/domain.ts"
import { described, storable, text } from "../../../kernel/text.ts"
import { UsdOrZero } from "../../../kernel/usd.ts"
import { ModelName } from "../../configuration/domain.ts"

const optional = Schema.optionalKey
const between = (minimum: number, maximum: number) =>
  Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum, maximum })))
const Tokens = between(0, 2_147_483_647)
const Milliseconds = between(0, 86_400_000)

/** A part of a message: text, an image by its URL or its data, or a PDF by its data (base64). */
export const LlmPart = Schema.Union([
  Schema.Struct({ type: Schema.tag("text"), text: storable(Schema.String.annotate({ examples: ["Hello"] })) }),
  Schema.Struct({
    type: Schema.tag("image"),
    url: storable(
      Schema.String.annotate({
        description: "An https address, or `data:<media type>;base64,<data>`",
        examples: ["https://example.com/cat.png"]
      })
    )
  }),
  Schema.Struct({
    type: Schema.tag("document"),
    data: storable(Schema.String.annotate({ description: "A PDF in base64", examples: ["JVBERi0xLjcK"] })),
    name: optional(text(1, 255).annotate({ examples: ["report.pdf"] }))
  })
]).annotate({ identifier: "LlmPart" })
export type LlmPart = typeof LlmPart.Type

export const LlmToolCall = Schema.Struct({
  id: text(1, 200).annotate({ examples: ["call_1"] }),
  name: text(1, 200).annotate({ examples: ["weather"] }),
  arguments: Schema.Union([storable(Schema.String), Schema.Record(Schema.String, Schema.Json)]).annotate({
    description: "An object, or its JSON as an answer had it",
    examples: [{ city: "Oslo" }]
  })
}).annotate({ identifier: "LlmToolCall" })
export type LlmToolCall = typeof LlmToolCall.Type

interface Said {
  readonly content?: unknown
  readonly toolCalls?: ReadonlyArray<unknown>
}

/** A message must have content or tool calls. */
const saysSomething = Schema.makeFilter(
  ({ content, toolCalls = [] }: Said) =>
    content !== undefined || toolCalls.length > 0 ? undefined : { path: ["content"], issue: "Missing key" },
  {
    examples: [{ role: "user", content: "Hello" }],
    toJsonSchema: () => ({ description: "Without content only where it calls tools" })
  }
)

export const LlmMessage = Schema.Struct({
  role: Schema.Literals(["system", "user", "assistant", "tool"]).annotate({ examples: ["user"] }),
  content: optional(Schema.Union([storable(Schema.String), Schema.Array(LlmPart)]).annotate({ examples: ["Hello"] })),
  toolCalls: optional(Schema.Array(LlmToolCall)).pipe(Schema.annotateKey({ description: "What the assistant called" })),
  toolCallId: optional(text(1, 200)).pipe(Schema.annotateKey({ description: "Which call a message of a tool answers" }))
})
  .pipe(Schema.check(saysSomething))
  .annotate({ identifier: "LlmMessage" })
export type LlmMessage = typeof LlmMessage.Type

const JsonSchema = Schema.Record(Schema.String, Schema.Json).annotate({ examples: [{ type: "object" }] })

const LlmTool = Schema.Struct({
  name: text(1, 200).annotate({ examples: ["weather"] }),
  description: optional(text(0, 10_000)),
  parameters: optional(JsonSchema),
  strict: optional(Schema.Boolean)
}).annotate({ identifier: "LlmTool", examples: [{ name: "weather", parameters: { type: "object" } }] })

const Cached = Schema.Boolean.annotate({
  description:
    "Whether an equal request of the tenant may be answered with what was answered before, at no cost; as the model's configuration says unless given"
})

/** A completion request, independent of the provider. */
export const LlmRequest = Schema.Struct({
  model: ModelName,
  messages: Schema.Array(LlmMessage).pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(10_000))),
  maxTokens: optional(between(1, 2_147_483_647)),
  temperature: optional(Schema.Finite.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 2 })))),
  topP: optional(Schema.Finite.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 1 })))),
  stop: optional(Schema.Array(text(1, 1000)).pipe(Schema.check(Schema.isMaxLength(4)))),
  tools: optional(Schema.Array(LlmTool).pipe(Schema.check(Schema.isMaxLength(1000)))),
  toolChoice: optional(
    Schema.Union([Schema.Literals(["auto", "none", "required"]), Schema.Struct({ name: text(1, 200) })])
  ),
  responseFormat: optional(
    Schema.Union([
      Schema.Struct({ type: Schema.Literals(["text", "json"]) }),
      Schema.Struct({ type: Schema.tag("json-schema"), schema: JsonSchema })
    ])
  ),
  reasoning: optional(Schema.Struct({ effort: Schema.Literals(["low", "medium", "high"]) })),
  stream: optional(Schema.Boolean),
  agentId: optional(AgentId),
  planId: optional(PlanId),
  taskType: optional(Label),
  reservationId: optional(
    described(ReservationId, { description: "Calls with what was reserved, or approved, before" })
  ),
  metadata: optional(Metadata),
  dryRun: optional(Schema.Boolean).pipe(
    Schema.annotateKey({
      description: "Answers what the call may cost at most and under which caps, and calls no provider"
    })
  ),
  fallbacks: optional(Schema.Array(ModelName).pipe(Schema.check(Schema.isMaxLength(10)))).pipe(
    Schema.annotateKey({ description: "Models to be asked in turn where every target of the first one fails" })
  ),
  cache: optional(Cached)
}).annotate({
  identifier: "LlmRequest",
  examples: [{ model: "loopback-1", messages: [{ role: "user", content: "Hello" }] }]
})
export type LlmRequest = typeof LlmRequest.Type

export const LlmUsage = Schema.Struct({
  inputTokens: Tokens,
  outputTokens: Tokens,
  cachedInputTokens: Tokens,
  cacheWriteTokens: Tokens,
  reasoningTokens: Tokens,
  totalTokens: Tokens
}).annotate({
  identifier: "LlmUsage",
  description: "Cached and written tokens are parts of the input, reasoning a part of the output"
})

const CallReservationId = Schema.String.annotate({
  format: "uuid",
  examples: ["0198a5b0-7c00-7000-8000-00000000002a"]
})

const Served = {
  model: ModelName.annotate({ description: "The provider's own name for the model that answered" }),
  provider: Schema.String.annotate({ examples: ["openai"] }),
  costUsd: UsdOrZero,
  reservationId: Schema.NullOr(CallReservationId).annotate({ description: "Null where the response cache answered" }),
  cached: Schema.Boolean.annotate({ description: "Whether the response cache answered" })
}

const Component = Schema.Finite.pipe(Schema.check(Schema.isBetween({ minimum: -1e9, maximum: 1e9 })))

/** The answer to a completion. */
export const LlmAnswer = Schema.Struct({
  id: Schema.String.annotate({ examples: ["chatcmpl-1"] }),
  ...Served,
  text: Schema.String,
  content: Schema.Array(Schema.Struct({ type: Schema.tag("text"), text: Schema.String })),
  toolCalls: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      name: Schema.String,
      arguments: Schema.String.annotate({ description: "JSON text, as the model wrote it" })
    })
  ),
  finishReason: Schema.Literals(["stop", "length", "tool_calls", "content_filter"]),
  usage: LlmUsage,
  planId: Schema.NullOr(PlanId),
  latencyMs: Milliseconds,
  upstreamLatencyMs: Milliseconds,
  attempts: Schema.Array(
    Schema.Struct({
      provider: Schema.String,
      model: Schema.String,
      status: between(100, 599),
      durationMs: Milliseconds
    })
  )
}).annotate({ identifier: "LlmAnswer" })
export type LlmAnswer = typeof LlmAnswer.Type

/** The maximum usage and cost of a call. */
export const LlmEstimate = Schema.Struct({
  dryRun: Schema.Literal(true),
  model: ModelName,
  inputTokens: Tokens,
  outputTokens: Tokens,
  totalTokens: Tokens,
  costUsd: UsdOrZero,
  planId: Schema.NullOr(PlanId),
  caps: Schema.Array(GoverningCap).annotate({ description: "The caps that govern the call, with what they have left" })
}).annotate({ identifier: "LlmEstimate" })
export type LlmEstimate = typeof LlmEstimate.Type

/** Texts as vectors. */
export const EmbeddingRequest = Schema.Struct({
  model: ModelName,
  input: Schema.Union([
    storable(Schema.String),
    Schema.Array(storable(Schema.String)).pipe(Schema.check(Schema.isMinLength(1), Schema.isMaxLength(2048)))
  ]).annotate({ examples: ["Hello"] }),
  dimensions: optional(between(1, 100_000)),
  cache: optional(Cached),
  agentId: optional(AgentId),
  planId: optional(PlanId),
  taskType: optional(Label)
}).annotate({ identifier: "EmbeddingRequest", examples: [{ model: "loopback-1", input: "Hello" }] })
export type EmbeddingRequest = typeof EmbeddingRequest.Type

export const EmbeddingAnswer = Schema.Struct({
  ...Served,
  embeddings: Schema.Array(Schema.Array(Component)).annotate({ examples: [[[0.1, -0.2]]] }),
  usage: Schema.Struct({ inputTokens: Tokens })
}).annotate({ identifier: "EmbeddingAnswer" })
export type EmbeddingAnswer = typeof EmbeddingAnswer.Type
