import { type ChatMessage, type ChatPart } from "./domain.ts"
import { partsOf, type PlacedMessage } from "./turn-order.ts"

/** The result of a call that has none: the client was interrupted, or left it out. */
const interrupted = "Interrupted: there is no result."

/** The result of a call that is not in the conversation, as a text; providers refuse it as a result. */
const asText = ({ content, tool_call_id: id }: ChatMessage): ChatMessage => {
  const said: ReadonlyArray<ChatPart> = [{ type: "text", text: `The result of the missing call ${id}:` }]
  return { role: "user", content: said.concat(partsOf(content)) }
}

/**
 * An id that is none of those before, which are counted in `known`. The count saves a search from the beginning, where each
 * turn of a long conversation has the same id.
 */
export const distinctId = (given: string, known: Map<string, number>): string => {
  let times = known.get(given) ?? 0
  let id = given
  while (known.has(id)) id = `${given}_${++times + 1}`
  known.set(given, times)
  if (id !== given) known.set(id, 0)
  return id
}

/** Calls of one id, of which the first ones have their results. */
interface SameCalls {
  readonly calls: Array<OpenCall>
  answered: number
}

interface OpenCall {
  readonly id: string
  result: PlacedMessage | undefined
}

/** A turn whose calls have an id each; some models give parallel calls the same one. */
const withIds = (message: ChatMessage, own: ReadonlyArray<OpenCall>): ChatMessage => {
  const calls = message.tool_calls ?? []
  return calls.every(({ id }, index) => id === own[index]?.id)
    ? message
    : { ...message, tool_calls: calls.map((call, index) => Object.assign({}, call, { id: own[index]?.id ?? "" })) }
}

/**
 * Messages in which the calls of a turn have a result each, directly after it and in their order. Some formats allow for
 * less, and providers refuse it.
 */
export const withCallResults = (messages: ReadonlyArray<PlacedMessage>): ReadonlyArray<PlacedMessage> => {
  /** The calls that results answer: of calls with the same id, those of the latest turn. */
  const open = new Map<string, SameCalls>()
  const calls = new Map<PlacedMessage, ReadonlyArray<OpenCall>>()
  const answers = new Set<PlacedMessage>()
  let turn = new Map<string, SameCalls>()
  let ids = new Map<string, number>()
  for (const placed of messages) {
    const { role, tool_call_id: id, tool_calls: called } = placed.message
    if (role !== "assistant") {
      turn = new Map()
      ids = new Map()
    }
    if (role === "tool") {
      const same = open.get(id ?? "")
      const call = same?.calls[same.answered]
      if (same === undefined || call === undefined) continue
      same.answered++
      call.result = placed
      answers.add(placed)
    }
    if (role !== "assistant") continue
    const own = (called ?? []).map(({ id: given }): OpenCall => {
      const same = turn.get(given) ?? { calls: [], answered: 0 }
      const call = { id: distinctId(given, ids), result: undefined }
      same.calls.push(call)
      turn.set(given, same)
      open.set(given, same)
      return call
    })
    calls.set(placed, own)
  }
  const out: Array<PlacedMessage> = []
  let unanswered: Array<PlacedMessage> = []
  const answer = () => {
    for (const placed of unanswered) out.push(placed)
    unanswered = []
  }
  for (const placed of messages) {
    const { at, message } = placed
    if (message.role !== "assistant") answer()
    if (answers.has(placed)) continue
    const isOrphan = message.role === "tool" && typeof message.tool_call_id === "string"
    const own = calls.get(placed) ?? []
    out.push({ at, message: isOrphan ? asText(message) : withIds(message, own) })
    for (const { id, result } of own) {
      unanswered.push(
        result === undefined
          ? { at, message: { role: "tool", tool_call_id: id, content: interrupted } }
          : { at: result.at, message: { ...result.message, tool_call_id: id } }
      )
    }
  }
  answer()
  return out
}
