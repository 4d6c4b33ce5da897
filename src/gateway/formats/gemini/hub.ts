import { Option, Schema } from "effect"
import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { list, members, object, type Reader, text } from "../../../kernel/json/readers.ts"
import { type ChatMessage, type ChatRequest, readChunk } from "../common-form/domain.ts"

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

export type HubRequest = ChatRequest
export type HubMessage = ChatMessage

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

/** A part as it is written. */
export type WrittenPart = Json
