import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { noUsage } from "../domain.ts"
import { readError } from "../errors.ts"
import { type StreamProgress, type StreamReader } from "../format.ts"
import { usageOfResponse } from "../openai-responses/usage.ts"
import { plausibleUsage } from "../usage.ts"

/** Bytes of audio in a second by its format: 24 kHz of 16 bits, or 8 kHz of G.711 (OpenAI, API reference, "Realtime"). */
export const bytesPerSecond = (format: unknown): number => (isJson(format) && isG711(format.type) ? 8000 : 48_000)
const isG711 = (type: unknown): boolean => type === "audio/pcmu" || type === "audio/pcma"

/** A model writes a token for each 50 ms of audio (OpenAI, "Managing costs", Realtime), here of the usual format. */
const bytesPerAudioToken = 2400

/** The audio in an event, in base64; undefined if it has none. */
const audioIn = ({ delta, type }: Json): string | undefined =>
  (type === "response.output_audio.delta" || type === "response.audio.delta") && typeof delta === "string"
    ? delta
    : undefined

/** The text in an event: words, what is spoken, or the arguments of a call. */
const textIn = (value: Json): string | undefined => {
  const { delta, type } = value
  return typeof delta === "string" && typeof type === "string" && type.startsWith("response.") && !audioIn(value)
    ? delta
    : undefined
}

/** Whether an event has something that the model wrote. */
export const saysSomething = (value: unknown): boolean =>
  isJson(value) && ((audioIn(value) ?? "") !== "" || (textIn(value) ?? "") !== "")

/** Whether an event is the last of a response. */
export const isDone = (value: unknown): boolean => isJson(value) && value.type === "response.done"

/** Reads the events of a response, which pass as they are; those of the conversation may stand between them. */
export class RealtimeReader implements StreamReader {
  readonly rewrites = false
  readonly isOpen = false
  readonly holdsTerminator = false
  readonly endsByTerminator = false
  private readonly progress: StreamProgress
  private audioBytes = 0

  constructor(progress: StreamProgress) {
    this.progress = progress
  }

  take(value: unknown): string {
    if (isJson(value)) this.read(value)
    return ""
  }

  terminator(): string {
    return ""
  }

  closing(): string {
    return ""
  }

  private read(value: Json): void {
    const { progress } = this
    const audio = audioIn(value)
    const text = textIn(value)
    if (audio !== undefined) this.hear(Buffer.byteLength(audio, "base64"))
    if (text !== undefined) progress.say([text])
    if (isDone(value) && isJson(value.response)) this.end(value.response)
  }

  /** Audio that was written so far, of which no event says how many tokens it has. */
  private hear(bytes: number): void {
    this.audioBytes += bytes
    const outputTokens = Math.ceil(this.audioBytes / bytesPerAudioToken)
    this.progress.report({ ...noUsage, outputTokens, media: { audioOutput: outputTokens } }, false)
  }

  private end(response: Json): void {
    const { progress } = this
    progress.describe(response)
    const usage = isJson(response.usage) ? plausibleUsage(usageOfResponse(response.usage)) : undefined
    // What cannot be one leaves the estimate of what was heard.
    if (usage !== undefined) progress.report(usage, true)
    const details = isJson(response.status_details) ? response.status_details : {}
    if (response.status === "failed") progress.failed(readError(502, { error: details.error }))
    progress.finish(String(details.reason ?? response.status), 0)
  }
}
