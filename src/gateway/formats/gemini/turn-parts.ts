import { Option, Schema } from "effect"
import { type Json } from "../../../kernel/json/parsed-json.ts"
import { argumentsIn } from "../common-form/call-arguments.ts"
import { inTurnOrder, type OrderedTurn } from "../common-form/turn-order.ts"
import { unsignedCall } from "../common-form/turn-state.ts"
import { type AnsweredPart } from "./domain.ts"

/** A part as it is written. */
export type WrittenPart = Json

/**
 * A part of a turn, in the order of the turn: so many UTF-16 code units of its text, a thought, or the call with this id. The
 * signature belongs to this part and to no other. What follows the last signed part has no signature.
 */
const TurnPart = Schema.Union([
  Schema.Struct({ text: Schema.Int, signature: Schema.optionalKey(Schema.String) }),
  Schema.Struct({ thought: Schema.String, signature: Schema.optionalKey(Schema.String) }),
  Schema.Struct({ call: Schema.String, signature: Schema.optionalKey(Schema.String) })
])
export type TurnPart = typeof TurnPart.Type

const decode = Schema.decodeUnknownOption(TurnPart)

/** The parts in the state of a turn. */
export const turnPartsIn = (state: ReadonlyArray<unknown> | null | undefined): ReadonlyArray<TurnPart> =>
  (state ?? []).flatMap((part) => Option.toArray(decode(part)))

/** Notes where the signatures of a turn stand, so that each one can return in its part. */
export class TurnParts {
  private open: Array<TurnPart> = []

  /** Adds a part, with the id of its call; returns what was not yet returned if the part is signed. */
  add({ text = "", thought, thoughtSignature: signature }: AnsweredPart, callId?: string): ReadonlyArray<TurnPart> {
    const signed = signature ? { signature } : {}
    // A signature is of its own part alone.
    const last = signature ? undefined : this.open.at(-1)
    if (callId !== undefined) this.open.push({ call: callId, ...signed })
    else if (thought === true) {
      const before = last !== undefined && "thought" in last ? this.open.splice(-1) && last.thought : ""
      this.open.push({ thought: before + text, ...signed })
    } else {
      const before = last !== undefined && "text" in last ? this.open.splice(-1) && last.text : 0
      this.open.push({ text: before + text.length, ...signed })
    }
    return signature ? this.open.splice(0) : []
  }
}

/** A turn of a model, with what Gemini wants back with it. */
export type Turn = OrderedTurn<WrittenPart, TurnPart>

/** A call as a part. */
export const callPart = (id: string, name: string, text: string): WrittenPart => ({
  functionCall: { id, name, args: argumentsIn(text) }
})

export const signedWith = (part: WrittenPart, signature: string | undefined): WrittenPart =>
  signature === undefined ? part : { ...part, thoughtSignature: signature }

/** The parts of a turn, with each signature in its own part. A text that is not the one that was signed has none. */
export const partsOfTurn = (turn: Turn): ReadonlyArray<WrittenPart> =>
  inTurnOrder(turn, {
    text: (text, piece) => (text !== "" || piece?.signature ? [signedWith({ text }, piece?.signature)] : []),
    call: (part, { signature }) => signedWith(part, signature),
    own: ({ signature, thought }) => signedWith({ thought: true, text: thought }, signature)
  })

/** Parts that Gemini takes back: it refuses calls of which none is signed, so the first one says that it is another model's. */
export const withSignedCall = (parts: ReadonlyArray<WrittenPart>): ReadonlyArray<WrittenPart> => {
  const calls = parts.filter(({ functionCall }) => functionCall !== undefined)
  if (calls.length === 0 || calls.some(({ thoughtSignature }) => thoughtSignature !== undefined)) return parts
  return parts.map((part) => (part === calls[0] ? signedWith(part, unsignedCall) : part))
}
