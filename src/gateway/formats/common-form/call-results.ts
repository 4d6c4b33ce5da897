import { type ChatMessage, type ChatPart } from "./domain.ts"
import { partsOf, type PlacedMessage } from "./turn-order.ts"

/** The result of a call that has none: the client was interrupted, or left it out. */
const interrupted = "Interrupted: there is no result."

/** The result of a call that is not in the conversation, as a text; providers refuse it as a result. */
const asText = ({ content, tool_call_id: id }: ChatMessage): ChatMessage => {
  const said: ReadonlyArray<ChatPart> = [{ type: "text", text: `The result of the missing call ${id}:` }]
  return { role: "user", content: said.concat(partsOf(content)) }
}

interface OpenCall {
  readonly id: string
  result: PlacedMessage | undefined
}

/** A turn whose calls have an id each; some models give parallel calls the same one. */
const withIds = (message: ChatMessage, own: ReadonlyArray<OpenCall>): ChatMessage =>
  own.length < 2
    ? message
    : {
        ...message,
        tool_calls: (message.tool_calls ?? []).map((call, index) =>
          Object.assign({}, call, { id: own[index]?.id ?? "" })
        )
      }

/**
 * Messages in which the calls of a turn have a result each, directly after it and in their order. Some formats allow for
 * less, and providers refuse it.
 */
export const withCallResults = (messages: ReadonlyArray<PlacedMessage>): ReadonlyArray<PlacedMessage> => {
  /** The calls that results answer: of calls with the same id, those of the latest turn. */
  const open = new Map<string, Array<OpenCall>>()
  const calls = new Map<PlacedMessage, ReadonlyArray<OpenCall>>()
  const answers = new Set<PlacedMessage>()
  let turn = new Map<string, Array<OpenCall>>()
  for (const placed of messages) {
    const { role, tool_call_id: id, tool_calls: called } = placed.message
    if (role !== "assistant") turn = new Map()
    if (role === "tool") {
      const call = open.get(id ?? "")?.shift()
      if (call === undefined) continue
      call.result = placed
      answers.add(placed)
    }
    if (role !== "assistant") continue
    const own = (called ?? []).map(({ id: given }): OpenCall => {
      const same = turn.get(given) ?? []
      const call = { id: same.length === 0 ? given : `${given}_${same.length + 1}`, result: undefined }
      same.push(call)
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
