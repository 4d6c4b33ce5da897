import { isJson } from "../../../kernel/json/parsed-json.ts"
import { type TokenUsage } from "../domain.ts"
import { errorInEvent } from "../errors.ts"
import { type StreamProgress, type StreamReader } from "../format.ts"

/** The audio in an event, in base64; undefined if it has none. */
const encodedIn = (value: unknown): string | undefined =>
  isJson(value) && value.type === "speech.audio.delta" && typeof value.audio === "string" ? value.audio : undefined

export const hasAudio = (value: unknown): boolean => encodedIn(value) !== undefined

/** The audio in an event; undefined if it has none. */
export const audioIn = (value: unknown): Uint8Array | undefined => {
  const encoded = encodedIn(value)
  return encoded === undefined ? undefined : Buffer.from(encoded, "base64")
}

/** Reads the events of speech, which pass as they are. */
export class SpeechReader implements StreamReader {
  readonly rewrites = false
  readonly isOpen = false
  readonly holdsTerminator = false
  readonly endsByTerminator = false
  private readonly progress: StreamProgress
  private readonly usageIn: (value: unknown) => TokenUsage | undefined

  constructor(progress: StreamProgress, usageIn: (value: unknown) => TokenUsage | undefined) {
    this.progress = progress
    this.usageIn = usageIn
  }

  take(value: unknown): string {
    const { progress } = this
    const failure = errorInEvent(value)
    const audio = encodedIn(value)
    const usage = this.usageIn(value)
    if (audio !== undefined) progress.hear(Buffer.byteLength(audio, "base64"))
    if (usage !== undefined) progress.report(usage, true)
    if (failure !== undefined) progress.failed(failure)
    return ""
  }

  terminator(): string {
    return ""
  }

  closing(): string {
    return ""
  }
}
