import { inputOf } from "../anthropic-messages/chat-to-messages.ts"
import { type AnsweredPart } from "./domain.ts"
import { type TurnPart, type WrittenPart } from "./hub.ts"

/** What Gemini takes for the signature of a call that it did not make itself. */
export const unsignedCall = "skip_thought_signature_validator"

/** Notes where the signatures of a turn stand, so that each one can return in its part. */
export class TurnParts {
  private open: Array<TurnPart> = []

  /** Adds a part, with the id of its call; returns what was not yet returned if the part is signed. */
  add(part: AnsweredPart, callId?: string): ReadonlyArray<TurnPart> {
    const { text = "", thought, thoughtSignature: signature } = part
    const signed = signature ? { signature } : {}
    if (callId !== undefined) this.open.push({ call: callId, ...signed })
    else this.addText(thought === true ? "thought" : "text", text.length, signed)
    if (!signature) return []
    const parts = this.open
    this.open = []
    return parts
  }

  private addText(kind: "text" | "thought", length: number, signed: { readonly signature?: string }): void {
    const last = this.open.at(-1)
    const before = last !== undefined && signed.signature === undefined ? lengthOf(last, kind) : undefined
    if (before !== undefined) this.open.pop()
    const all = (before ?? 0) + length
    this.open.push(kind === "text" ? { text: all, ...signed } : { thought: all, ...signed })
  }
}

const lengthOf = (part: TurnPart, kind: "text" | "thought"): number | undefined => {
  if (kind === "text") return "text" in part ? part.text : undefined
  return "thought" in part ? part.thought : undefined
}

/** A turn of a model, as messages and completions have it. */
export interface Turn {
  readonly text: string
  readonly thought: string
  readonly calls: ReadonlyArray<{ readonly id: string; readonly part: WrittenPart }>
  /** What Gemini wants back with it. */
  readonly turn: ReadonlyArray<TurnPart>
}

/** A call as a part; arguments that are no object are passed on unchanged, under `arguments`. */
export const callPart = (id: string, name: string, text: string): WrittenPart => ({
  functionCall: { id, name, args: inputOf(text) ?? { arguments: text } }
})

const signedWith = (part: WrittenPart, signature: string | undefined): WrittenPart =>
  signature === undefined ? part : { ...part, thoughtSignature: signature }

/**
 * The parts of a turn, with each signature in its own part. Where the text is not the one that was signed, because a caller
 * shortened it, it is written without signatures.
 */
export const partsOfTurn = ({ calls, text, thought, turn }: Turn): ReadonlyArray<WrittenPart> => {
  const parts: Array<WrittenPart> = []
  const rest = new Map(calls.map(({ id, part }) => [id, part]))
  const isWhole = turn.reduce((sum, part) => sum + (lengthOf(part, "text") ?? 0), 0) <= text.length
  let textAt = 0
  let thoughtAt = 0
  for (const one of turn) {
    const { signature } = one
    if ("call" in one) {
      const part = rest.get(one.call)
      if (part !== undefined) parts.push(signedWith(part, signature))
      rest.delete(one.call)
    } else if ("thought" in one) {
      const written = thought.slice(thoughtAt, (thoughtAt += one.thought))
      // The signature is wanted, the text is not.
      if (written !== "" || signature) parts.push(signedWith({ thought: true, text: written }, signature))
    } else if (isWhole) {
      const written = text.slice(textAt, (textAt += one.text))
      if (written !== "" || signature) parts.push(signedWith({ text: written }, signature))
    }
  }
  if (thoughtAt < thought.length) parts.push({ thought: true, text: thought.slice(thoughtAt) })
  if (textAt < text.length) parts.push({ text: text.slice(textAt) })
  return [...parts, ...rest.values()]
}

/** Parts that Gemini takes back: it refuses calls of which none is signed, so the first one says that it is another model's. */
export const withSignedCall = (parts: ReadonlyArray<WrittenPart>): ReadonlyArray<WrittenPart> => {
  const calls = parts.filter(({ functionCall }) => functionCall !== undefined)
  if (calls.length === 0 || calls.some(({ thoughtSignature }) => thoughtSignature !== undefined)) return parts
  return parts.map((part) => (part === calls[0] ? signedWith(part, unsignedCall) : part))
}
