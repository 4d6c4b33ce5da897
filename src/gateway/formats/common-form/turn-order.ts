import { type Fault } from "../../../kernel/problems/problem.ts"
import { type ChatMessage, type ChatPart } from "./domain.ts"

/** So many UTF-16 code units of a turn's text. */
export interface TextPlace {
  readonly text: number
}

/** The call with this id. */
export interface CallPlace {
  readonly call: string
}

/** A turn of a model, as messages and completions have it, and the order of its pieces, which its state has. */
export interface OrderedTurn<Part, Piece extends object> {
  readonly text: string
  readonly calls: ReadonlyArray<{ readonly id: string; readonly part: Part }>
  /** In their order: places in the text, places of calls, and pieces that only their provider reads. */
  readonly state: ReadonlyArray<Piece>
}

/** How the pieces of a turn are written. What follows the last piece of the state has none. */
export interface PieceWriter<Part, Piece extends object> {
  text(text: string, piece?: Extract<Piece, TextPlace>): ReadonlyArray<Part>
  call(part: Part, piece: Extract<Piece, CallPlace>): Part
  own(piece: Exclude<Piece, TextPlace | CallPlace>): Part
}

/**
 * The parts of a turn in the order in which its provider made them. Where the text is not the one that the places were noted
 * of, because a caller shortened it, it is written whole, after the pieces.
 */
export const inTurnOrder = <Part, Piece extends object>(
  { calls, state, text }: OrderedTurn<Part, Piece>,
  write: PieceWriter<Part, Piece>
): ReadonlyArray<Part> => {
  const isText = (piece: Piece): piece is Extract<Piece, TextPlace> => "text" in piece
  const isCall = (piece: Piece): piece is Extract<Piece, CallPlace> => "call" in piece
  const parts: Array<Part> = []
  const rest = new Set(calls)
  const byId = new Map(calls.toReversed().map((call) => [call.id, call]))
  const isWhole = state.filter(isText).reduce((sum, piece) => sum + piece.text, 0) <= text.length
  let textAt = 0
  for (const piece of state) {
    if (isCall(piece)) {
      const call = byId.get(piece.call)
      if (call !== undefined && rest.delete(call)) parts.push(write.call(call.part, piece))
    } else if (!isText(piece)) parts.push(write.own(piece as Exclude<Piece, TextPlace | CallPlace>))
    else if (isWhole) parts.push(...write.text(text.slice(textAt, (textAt += piece.text)), piece))
  }
  if (textAt < text.length) parts.push(...write.text(text.slice(textAt)))
  return [...parts, ...Array.from(rest, ({ part }) => part)]
}

/** Notes where the text and the calls of a turn stand, up to each piece that only their provider reads. */
export class TurnPlaces {
  private places: Array<TextPlace | CallPlace> = []

  text({ length }: string): void {
    const last = this.places.at(-1)
    if (last !== undefined && "text" in last) this.places.splice(-1, 1, { text: last.text + length })
    else if (length > 0) this.places.push({ text: length })
  }

  call(id: string): void {
    this.places.push({ call: id })
  }

  /** The pieces of the state since the last one that was the provider's own. */
  upTo<Own>(own: Own): ReadonlyArray<TextPlace | CallPlace | Own> {
    return [...this.places.splice(0), own]
  }
}

/** A message with its place in the request. */
export interface PlacedMessage {
  readonly message: ChatMessage
  readonly at: Fault["path"]
}

/** What a message says, in parts. */
export const partsOf = (content: ChatMessage["content"]): ReadonlyArray<ChatPart> =>
  typeof content === "string" ? [{ type: "text", text: content }] : (content ?? [])

const hasState = ({ turn_state: state }: ChatMessage): boolean => (state ?? []).length > 0

/** Messages of a model in sequence as one. */
const joined = (messages: ReadonlyArray<ChatMessage>): ChatMessage => ({
  role: "assistant",
  content: messages.flatMap(({ content }) => partsOf(content)),
  tool_calls: messages.flatMap(({ tool_calls: calls }) => calls ?? []),
  turn_state: messages.flatMap(({ turn_state: state }) => state ?? [])
})

/**
 * Messages, with those of one turn of a model together, since what a provider wants back refers to the turn; by default where
 * there is such a thing.
 */
export const turnsOf = (
  messages: ReadonlyArray<ChatMessage>,
  joins: (turn: ReadonlyArray<ChatMessage>) => boolean = (turn) => turn.some(hasState)
): ReadonlyArray<PlacedMessage> => {
  const turns: Array<Array<PlacedMessage>> = []
  for (const [index, message] of messages.entries()) {
    const placed = { message, at: ["messages", index] }
    const last = turns.at(-1)
    if (message.role === "assistant" && last?.[0]?.message.role === "assistant") last.push(placed)
    else turns.push([placed])
  }
  return turns.flatMap((turn) => {
    const [first] = turn
    const own = turn.map(({ message }) => message)
    return first === undefined || turn.length === 1 || !joins(own) ? turn : [{ at: first.at, message: joined(own) }]
  })
}
