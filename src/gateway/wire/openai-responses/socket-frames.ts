import { isJson, type Json, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { type ServerEvent } from "../../formats/event-reader.ts"

/** A message to the client of a WebSocket: an event of a response, or an error. */
export interface SocketFrame {
  /** The type of the event. */
  readonly type: string
  readonly text: string
}

/** The events after which a response has no other. */
const lastEvents: ReadonlySet<string> = new Set([
  "response.completed",
  "response.incomplete",
  "response.failed",
  "error"
])

/** Whether a client may ask for another response after a frame. */
export const isLast = ({ type }: SocketFrame): boolean => lastEvents.has(type)

/** Headers of an answer by HTTP that say when to ask again, and which request it was. */
const shownHeaders = /^(?:request-id|retry-after|x-ratelimit-.*)$/

/** An error as clients of WebSockets read it: `status` is that of the same answer by HTTP. */
export const errorFrame = (
  status: number,
  error: unknown,
  headers: Readonly<Record<string, string>> = {}
): SocketFrame => {
  const shown = Object.entries(headers).filter(([name]) => shownHeaders.test(name))
  return {
    type: "error",
    text: JSON.stringify({
      type: "error",
      status,
      error,
      ...(shown.length === 0 ? {} : { headers: Object.fromEntries(shown) })
    })
  }
}

/** A client that reads this sends all items again; OpenAI's sockets have it with another status than HTTP here. */
const lostTurn = "previous_response_not_found"

/** An answer by HTTP that refuses a request. */
export const refusedFrame = (status: number, body: unknown, headers: Readonly<Record<string, string>>): SocketFrame => {
  const { detail, error } = isJson(body) ? body : {}
  return errorFrame(
    isJson(error) && error.code === lostTurn ? 400 : status,
    isJson(error) ? error : { message: detail ?? "The request failed.", type: "server_error", param: null, code: null },
    headers
  )
}

/** The error of a response that has no last event. */
export const brokenOff: SocketFrame = errorFrame(502, {
  message: "The response ended before its last event.",
  type: "server_error",
  param: null,
  code: "server_error"
})

/** The status of an error in a stream, which had another one before it. */
const statusOf = ({ code, type }: Json): number => {
  if (code === "rate_limit_exceeded" || type === "rate_limit_error") return 429
  return type === "invalid_request_error" ? 400 : 502
}

/** An event of a response; an error in a stream has one of several shapes there. */
export const eventFrame = ({ data, event }: ServerEvent): SocketFrame => {
  if (event.startsWith("response.")) return { type: event, text: data }
  const value = parsedJson(data)
  if (!isJson(value)) return { type: event, text: data }
  const type = typeof value.type === "string" ? value.type : ""
  const isError = type === "error" || (type === "" && isJson(value.error))
  if (!isError) return { type, text: data }
  const { sequence_number: _, type: __, ...own } = value
  const error = isJson(value.error) ? value.error : own
  return errorFrame(statusOf(error), error)
}
