import { isJson, type Json, listIn, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { toCompletionUsage } from "../common-form/usage.ts"
import { type TokenUsage } from "../domain.ts"
import { dataEvents, terminator } from "../streams/written-events.ts"

/**
 * The stream of a completion that its provider sent as a whole. `asked` is the usage where the caller asked for it, and the
 * provider reported none. Undefined if it cannot be read.
 */
export const streamedCompletion = (text: string, asked: TokenUsage | undefined): string | undefined => {
  const answer = parsedJson(text)
  if (!isJson(answer)) return undefined
  const { choices, usage, ...head } = answer
  const given = listIn(choices).filter(isJson)
  // Not every provider has the usual name of the object.
  const isText = given.some(({ message, text }) => typeof text === "string" && message === undefined)
  const chunk = (members: Json) => ({
    ...head,
    object: isText ? "text_completion" : "chat.completion.chunk",
    ...members
  })
  const said = given.map(({ index = 0, message, text }) =>
    isText ? { index, text, finish_reason: null } : { index, delta: deltaOf(message), finish_reason: null }
  )
  const ended = given.map(({ finish_reason, index = 0, message }) => {
    const reason = finish_reason ?? (isJson(message) && listIn(message.tool_calls).length > 0 ? "tool_calls" : "stop")
    return isText ? { index, text: "", finish_reason: reason } : { index, delta: {}, finish_reason: reason }
  })
  const reported = isJson(usage) ? usage : asked && toCompletionUsage(asked)
  return (
    dataEvents([
      chunk({ choices: said }),
      chunk({ choices: ended }),
      ...(asked === undefined ? [] : [chunk({ choices: [], usage: reported })])
    ]) + terminator
  )
}

const deltaOf = (message: unknown): Json => {
  if (!isJson(message)) return typeof message === "string" ? { content: message } : {}
  const { tool_calls: calls, ...rest } = message
  if (!Array.isArray(calls)) return rest
  return { ...rest, tool_calls: calls.filter(isJson).map((call, index) => Object.assign({ index }, call)) }
}
