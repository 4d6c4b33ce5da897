import { Option, Schema } from "effect"
import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { list, members, object, type Reader, text } from "../../../kernel/json/readers.ts"
import { ChatMessage, ChatRequest, ChatToolChoice, readChunk } from "../common-form/domain.ts"

/**
 * A part of a turn of Gemini's, in the order of the turn: so many UTF-16 code units of the message's text or of its
 * thoughts, or the call with this id. The signature belongs to this part and to no other.
 */
const TurnPart = Schema.Union([
  Schema.Struct({ text: Schema.Int, signature: Schema.optionalKey(Schema.String) }),
  Schema.Struct({ thought: Schema.Int, signature: Schema.optionalKey(Schema.String) }),
  Schema.Struct({ call: Schema.String, signature: Schema.optionalKey(Schema.String) })
])
export type TurnPart = typeof TurnPart.Type

/** What Gemini wants back of a turn: its parts up to the last one that is signed. What follows them has no signature. */
export const GeminiTurn = Schema.Struct({ format: Schema.Literal("gemini"), parts: Schema.Array(TurnPart) })
export type GeminiTurn = typeof GeminiTurn.Type

/**
 * The member of a message that carries what providers want back with it, one element for each format; elements of formats
 * other than Gemini's are not looked into. In chunks the elements of one format are continued: their `parts` follow each other.
 */
export const turnStateMember = { turn_state: Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.Unknown))) }

const optional = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

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

/** A chat request with the members that a translation to Gemini reads besides those of every translation. */
export const HubRequest = Schema.Struct({
  ...ChatRequest.fields,
  messages: Schema.Array(
    Schema.Struct({ ...ChatMessage.fields, ...turnStateMember, reasoning_content: optional(Schema.String) })
  ).pipe(Schema.check(Schema.isMinLength(1))),
  tool_choice: optional(Schema.Union([AllowedTools, ChatToolChoice])),
  seed: optional(Schema.Int),
  presence_penalty: optional(Schema.Finite),
  frequency_penalty: optional(Schema.Finite)
})
export type HubRequest = typeof HubRequest.Type
export type HubMessage = HubRequest["messages"][number]

const decodeTurn = Schema.decodeUnknownOption(GeminiTurn)

/** What Gemini wants back, of what a message or a chunk carries; empty if it made no part of it. */
export const turnPartsIn = (state: unknown): ReadonlyArray<TurnPart> =>
  Array.isArray(state)
    ? state.flatMap((one) => Option.match(decodeTurn(one), { onNone: () => [], onSome: ({ parts }) => parts }))
    : []

/** The member that carries these parts; none if nothing is signed. */
export const turnStateOf = (parts: ReadonlyArray<TurnPart>): { readonly turn_state?: ReadonlyArray<GeminiTurn> } =>
  parts.length === 0 ? {} : { turn_state: [{ format: "gemini", parts }] }

type ChatChoice = NonNullable<NonNullable<ReturnType<typeof readChunk>>["choices"]>[number]

/** What a choice says, in a message or in its part in a chunk. */
export interface HubChoice extends ChatChoice {
  readonly turn: ReadonlyArray<TurnPart>
}

const choice =
  (member: "delta" | "message"): Reader<HubChoice> =>
  (value) => {
    if (!isJson(value)) return undefined
    const said = value[member]
    const [read] = readChunk({ choices: [{ ...value, delta: said }] })?.choices ?? []
    return read === undefined ? undefined : { ...read, turn: turnPartsIn(isJson(said) ? said.turn_state : undefined) }
  }

/** A chunk with what Gemini wants back. */
export const readHubChunk = members({ id: text, choices: list(choice("delta")), usage: object })
export type HubChunk = NonNullable<ReturnType<typeof readHubChunk>>

/** A completion with what Gemini wants back. */
export const readHubCompletion = members({ id: text, choices: list(choice("message")), usage: object })
export type HubCompletion = NonNullable<ReturnType<typeof readHubCompletion>>

/** The head of a translated chat completion. */
export interface CompletionHead {
  /** The name of the model that the caller used. */
  readonly model: string
  /** The id of the completion, in case the provider sent none. */
  readonly id: string
  /** Whether it carries what Gemini wants back, and the searches that its provider ran. */
  readonly keepsThoughts?: boolean | undefined
}

/** The head of an answer to a caller of Gemini's format. */
export interface AnswerHead {
  /** The name of the model that the caller used. */
  readonly model: string
  /** The id of the answer, in case the provider sent none. */
  readonly id: string
  /** Whether the caller asked for thoughts; Gemini writes none unless `includeThoughts` is set. */
  readonly includesThoughts: boolean
}

/** A part as it is written. */
export type WrittenPart = Json
