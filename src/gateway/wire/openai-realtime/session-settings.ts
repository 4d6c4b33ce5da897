import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { type GatewayError, invalidMember } from "../../errors/gateway-error.ts"
import { foreignIdIn, unknownMember } from "./client-events.ts"

/** The members of a session that a client may set (OpenAI, API reference, "session.update"). */
const sessionMembers: ReadonlySet<string> = new Set(
  ["type", "model", "audio", "include", "instructions", "max_output_tokens", "output_modalities"].concat([
    "parallel_tool_calls",
    "prompt",
    "reasoning",
    "tool_choice",
    "tools",
    "tracing",
    "truncation"
  ])
)

/** Others transcribe or translate what is said, and answer nothing. */
const sessionType = "realtime"

/** A change of a session as its provider gets it. */
export interface SessionChange {
  readonly session: Json
  /** Whether responses are to be made where the provider finds that a turn has ended; undefined if that stays as it is. */
  readonly responds: boolean | undefined
}

const objectIn = (value: unknown): Json => (isJson(value) ? value : {})

const inputOf = (session: Json): Json => objectIn(objectIn(session.audio).input)

/** A session with another detection of turns. */
const withTurns = (session: Json, detection: Json): Json => ({
  ...session,
  audio: { ...objectIn(session.audio), input: { ...inputOf(session), turn_detection: detection } }
})

/** How a provider finds that a turn has ended; undefined if it does not. */
const detectionOf = (session: Json): Json | undefined => {
  const { turn_detection: detection } = inputOf(session)
  return isJson(detection) ? detection : undefined
}

/** Whether the provider of a session would make responses itself. */
export const respondsByItself = (session: Json): boolean => {
  const detection = detectionOf(session)
  return detection !== undefined && detection.create_response !== false
}

/** The change after which the provider makes no responses itself: the gateway holds the cost of each before it asks for it. */
export const withoutResponses = (session: Json): Json =>
  withTurns({ type: sessionType }, { ...detectionOf(session), create_response: false })

/** A change that a client asks for, or why it cannot be made. */
export const changeOf = (asked: Json, model: string): SessionChange | GatewayError => {
  const unknown = unknownMember(asked, sessionMembers, "session") ?? foreignIdIn(asked, "session")
  if (unknown !== undefined) return unknown
  const { model: given, ...session } = asked
  if (given !== undefined && given !== model) {
    return invalidMember("session.model", `session.model: The session has the model ${model}; open another session`)
  }
  if (session.type !== undefined && session.type !== sessionType) {
    return invalidMember("session.type", `session.type: The gateway has sessions of the type ${sessionType} alone`)
  }
  const { transcription, turn_detection: detection } = inputOf(session)
  if ((transcription ?? null) !== null) {
    return invalidMember(
      "session.audio.input.transcription",
      "session.audio.input.transcription: The gateway does not transcribe what is said; send it to /v1/audio/transcriptions"
    )
  }
  if (detection === undefined) return { session, responds: undefined }
  if (!isJson(detection)) return { session, responds: false }
  if ((detection.idle_timeout_ms ?? null) !== null) {
    return invalidMember(
      "session.audio.input.turn_detection.idle_timeout_ms",
      "session.audio.input.turn_detection.idle_timeout_ms: The gateway makes no responses to silence; send response.create"
    )
  }
  return {
    session: withTurns(session, { ...detection, create_response: false }),
    responds: detection.create_response !== false
  }
}

/** What responses of a session are made with. */
export const madeWith = (session: Json): Json =>
  Object.fromEntries(Object.entries(session).filter(([name]) => sessionMembers.has(name)))

/** A session as its client sees it: with the model and the responses that it asked for, and without a secret. */
export const shownSession = (session: Json, model: string, responds: boolean): Json => {
  const { client_secret: _, ...own } = session
  const shown = { ...own, model }
  const detection = detectionOf(session)
  return detection === undefined ? shown : withTurns(shown, { ...detection, create_response: responds })
}
