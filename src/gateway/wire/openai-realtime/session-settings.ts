import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { GatewayError, invalidMember } from "../../errors/gateway-error.ts"
import { bytesPerSecond } from "../../formats/openai-realtime/stream.ts"
import { longestPrompt } from "../../formats/openai-transcriptions/live.ts"
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
  /** The model that is to transcribe what is said, as its client calls it; null for none, undefined if that stays as it is. */
  readonly transcriber: string | null | undefined
}

const objectIn = (value: unknown): Json => (isJson(value) ? value : {})

const inputOf = (session: Json): Json => objectIn(objectIn(session.audio).input)

/** A session with other settings of what is said. */
const withInput = (session: Json, changes: Json): Json => ({
  ...session,
  audio: { ...objectIn(session.audio), input: { ...inputOf(session), ...changes } }
})

/** A session with another detection of turns. */
const withTurns = (session: Json, detection: Json): Json => withInput(session, { turn_detection: detection })

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

/** The model that is to transcribe what is said; null for none, undefined where a client does not say it. */
const transcriberIn = (transcription: unknown): string | null | undefined | GatewayError => {
  if (transcription === undefined || transcription === null) return transcription
  const { model, prompt = null } = objectIn(transcription)
  if (prompt !== null && (typeof prompt !== "string" || Buffer.byteLength(prompt) > longestPrompt)) {
    const where = "session.audio.input.transcription.prompt"
    return invalidMember(where, `${where}: Expected a text of at most ${longestPrompt} bytes`)
  }
  const at = "session.audio.input.transcription.model"
  return typeof model === "string" ? model : invalidMember(at, `${at}: Expected the name of a model for transcriptions`)
}

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
  const transcriber = transcriberIn(transcription)
  if (transcriber instanceof GatewayError) return transcriber
  if (!isJson(detection)) return { session, responds: detection === null ? false : undefined, transcriber }
  if ((detection.idle_timeout_ms ?? null) !== null) {
    const at = "session.audio.input.turn_detection.idle_timeout_ms"
    return invalidMember(at, `${at}: The gateway makes no responses to silence; send response.create`)
  }
  return {
    session: withTurns(session, { ...detection, create_response: false }),
    responds: detection.create_response !== false,
    transcriber
  }
}

/** A session whose transcriptions are made by a model, where it has any. */
export const withTranscriber = (session: Json, model: string | undefined): Json => {
  const { transcription } = inputOf(session)
  return model === undefined || !isJson(transcription)
    ? session
    : withInput(session, { transcription: { ...transcription, model } })
}

/** Bytes of a second of what is said, by the format of a session's input. */
export const spokenBytes = (session: Json): number => bytesPerSecond(inputOf(session).format)

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
