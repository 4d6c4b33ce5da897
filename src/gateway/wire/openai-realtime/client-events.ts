import { isJson, type Json, listIn, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { type GatewayError, type GatewayProblem, invalidMember } from "../../errors/gateway-error.ts"
import { answerScope, keptIds } from "../../json/kept-ids.ts"

/** What a client asks for, with the id that it gave its event. */
export type ClientEvent = { readonly eventId: string | undefined } & (
  | { readonly kind: "passed"; readonly text: string }
  | { readonly kind: "commit"; readonly text: string }
  | { readonly kind: "audio"; readonly text: string; readonly bytes: number }
  | { readonly kind: "session"; readonly session: Json }
  | { readonly kind: "response"; readonly response: Json }
  | { readonly kind: "fault"; readonly fault: GatewayError<GatewayProblem> }
)

/**
 * The events that pass as they are, with their members (OpenAI, API reference, "Realtime client events"). An event is written
 * again from these, so that its provider reads no other than was read here.
 */
const passed: ReadonlyMap<unknown, ReadonlyArray<string>> = new Map([
  ["input_audio_buffer.append", ["audio"]],
  ["input_audio_buffer.commit", []],
  ["input_audio_buffer.clear", []],
  ["conversation.item.create", ["previous_item_id", "item"]],
  ["conversation.item.retrieve", ["item_id"]],
  ["conversation.item.truncate", ["item_id", "content_index", "audio_end_ms"]],
  ["conversation.item.delete", ["item_id"]],
  ["response.cancel", ["response_id"]]
])

const responseMembers: ReadonlySet<string> = new Set(
  [
    "audio",
    "conversation",
    "input",
    "instructions",
    "max_output_tokens",
    "metadata",
    "output_modalities",
    "parallel_tool_calls"
  ].concat(["prompt", "reasoning", "tool_choice", "tools"])
)

/** Ids that name nothing outside of the session. */
const ofSession = new Set(["approval_request_id"])

/** What a provider keeps for its account belongs to no caller of a session: files, voices, vector stores. */
const foreignId = (value: unknown, at: string): GatewayError | undefined => {
  const found = keptIds(value, answerScope).find(({ path }) => !ofSession.has(String(path.at(-1))))
  if (found === undefined) return undefined
  const where = [at, ...found.path].join(".")
  return invalidMember(where, `${where}: A session takes no ids of what its provider keeps`, "not_found")
}

/** A session or a response that names nothing which its provider keeps, but for a prompt of the operator's. */
export const foreignIdIn = (value: Json, at: string): GatewayError | undefined => {
  // Of conversations there are two, and items of the session may be named.
  const { conversation: _, input, ...members } = value
  return (
    foreignId(members, at) ??
    listIn(input)
      .map((item, index) => foreignId(item, `${at}.input.${index}`))
      .find((fault) => fault !== undefined)
  )
}

const served = [...passed.keys(), "session.update", "response.create"].join(", ")
const longestId = 512

/** A member of an object that is none of these. */
export const unknownMember = (value: Json, known: ReadonlySet<string>, at: string): GatewayError | undefined => {
  const name = Object.keys(value).find((one) => !known.has(one))
  return name === undefined
    ? undefined
    : invalidMember(`${at}.${name}`, `${at}.${name}: The gateway knows no such member`, "unknown_parameter")
}

/** An event of a client of the Realtime API. */
export const readClientEvent = (message: string): ClientEvent => {
  const value = parsedJson(message)
  if (!isJson(value))
    return fault(undefined, invalidMember(undefined, "The message is no JSON object.", "invalid_json"))
  const { event_id: given, type, ...members } = value
  const eventId = typeof given === "string" && given.length <= longestId ? given : undefined
  if (given !== undefined && eventId === undefined) {
    return fault(eventId, invalidMember("event_id", `event_id: Expected at most ${longestId} characters`))
  }
  if (type === "session.update") {
    const { session } = members
    return isJson(session)
      ? { kind: "session", eventId, session }
      : fault(eventId, invalidMember("session", "session: Expected an object"))
  }
  if (type === "response.create") {
    const response = members.response ?? {}
    if (!isJson(response)) return fault(eventId, invalidMember("response", "response: Expected an object"))
    const unknown = unknownMember(response, responseMembers, "response") ?? foreignIdIn(response, "response")
    return unknown === undefined ? { kind: "response", eventId, response } : fault(eventId, unknown)
  }
  const names = passed.get(type)
  if (names === undefined) {
    return fault(eventId, invalidMember("type", `type: The gateway takes ${served}`, "unknown_event_type"))
  }
  const foreign = foreignId(members.item, "item")
  if (foreign !== undefined) return fault(eventId, foreign)
  const event: Record<string, unknown> = { type, ...(eventId === undefined ? {} : { event_id: eventId }) }
  for (const name of names) if (members[name] !== undefined) event[name] = members[name]
  const text = JSON.stringify(event)
  return typeof event.audio === "string"
    ? { kind: "audio", eventId, text, bytes: Buffer.byteLength(event.audio, "base64") }
    : { kind: type === "input_audio_buffer.commit" ? "commit" : "passed", eventId, text }
}

const fault = (eventId: string | undefined, problem: GatewayError<GatewayProblem>): ClientEvent => ({
  kind: "fault",
  eventId,
  fault: problem
})
