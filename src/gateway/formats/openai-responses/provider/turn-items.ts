import { Option, Schema } from "effect"
import { isJson, type Json, listIn, textIn } from "../../../../kernel/json/parsed-json.ts"
import { inTurnOrder, type OrderedTurn } from "../../common-form/turn-order.ts"

/**
 * A piece of a turn's state: an item that the API takes back as it gave it, such as encrypted reasoning; so many UTF-16 code
 * units of the turn's text, which are one message, with its phase; or the call with this id.
 */
const TurnItem = Schema.Union([
  Schema.Struct({ item: Schema.Record(Schema.String, Schema.Unknown) }),
  Schema.Struct({ text: Schema.Int, phase: Schema.optionalKey(Schema.String) }),
  Schema.Struct({ call: Schema.String })
])
export type TurnItem = typeof TurnItem.Type

const decode = Schema.decodeUnknownOption(TurnItem)

/** The items in the state of a turn. */
export const turnItemsIn = (state: ReadonlyArray<unknown> | null | undefined): ReadonlyArray<TurnItem> =>
  (state ?? []).flatMap((piece) => Option.toArray(decode(piece)))

/** More than the encrypted reasoning of any item has; pictures that a tool drew are not kept. */
const maxKeptLength = 1_048_576

/**
 * An item as the API takes it back; undefined for one that it could only find in its own store, where nothing is. A status
 * of reasoning is refused, as are members that are null.
 */
const returned = (item: Json): Json | undefined => {
  const { encrypted_content: encrypted, type } = item
  const isReasoning = type === "reasoning"
  if (isReasoning && !encrypted && listIn(item.content).length === 0) return undefined
  const members = Object.entries(item).filter(([name, value]) => value !== null && !(isReasoning && name === "status"))
  const kept = Object.fromEntries(members)
  return JSON.stringify(kept).length > maxKeptLength ? undefined : kept
}

/** Notes the items of a turn in their order, as far as the API wants them back (OpenAI, "Reasoning models"). */
export class TurnItems {
  private readonly places: Array<TurnItem> = []

  /** Adds an item, of which so much text was passed on; returns what was not yet returned if it is to be given back. */
  add(item: Json, textLength: number): ReadonlyArray<TurnItem> {
    switch (item.type) {
      case "message": {
        const phase = textIn(item.phase)
        if (textLength > 0) this.places.push({ text: textLength, ...(phase === "" ? {} : { phase }) })
        return phase === "" ? [] : this.places.splice(0)
      }
      case "function_call":
        this.places.push({ call: textIn(item.call_id) })
        return []
      default: {
        const kept = returned(item)
        return kept === undefined ? [] : [...this.places.splice(0), { item: kept }]
      }
    }
  }
}

/** The items of a turn, each in its place. */
export const itemsOfTurn = (turn: OrderedTurn<Json, TurnItem>): ReadonlyArray<Json> =>
  inTurnOrder<Json, TurnItem>(turn, {
    text: (text, piece) => (text === "" ? [] : [messageItem(text, piece?.phase)]),
    call: (item) => item,
    own: ({ item }) => item
  })

const messageItem = (text: string, phase: string | undefined): Json => ({
  type: "message",
  role: "assistant",
  content: [{ type: "output_text", text }],
  ...(phase === undefined ? {} : { phase })
})

/** The objects in a list. */
export const objectsIn = (value: unknown): ReadonlyArray<Json> => listIn(value).filter(isJson)
