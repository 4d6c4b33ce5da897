import { isJson, type Json, textIn } from "../../../kernel/json/parsed-json.ts"
import { type DialectError, errorInEvent, readError } from "../errors.ts"
import { type ServerEvent, typeOf } from "../event-reader.ts"
import { type Gathering, type StreamProgress, type StreamReader } from "../format.ts"
import { transcriptionUsage } from "./usage.ts"

const delta = "transcript.text.delta"
const done = "transcript.text.done"

/** Whether an event has some of the text, a usage, or an error. */
export const tellsOfTranscript = (value: unknown): boolean =>
  isJson(value) && (Boolean(value.error) || textIn(value.type).startsWith("transcript.") || value.type === "error")

export const isLastOfTranscript = (value: unknown, event: ServerEvent): boolean => typeOf(event, value) === done

/** Reads the events of a transcription, the last of which has the usage. */
export class TranscriptReader implements StreamReader {
  readonly rewrites = false
  readonly holdsTerminator = false
  readonly endsByTerminator = true
  isOpen = false
  private readonly progress: StreamProgress

  constructor(progress: StreamProgress) {
    this.progress = progress
  }

  take(value: unknown, event: ServerEvent): string {
    const failure = errorInEvent(value)
    if (failure !== undefined) this.progress.failed(failure)
    const type = typeOf(event, value)
    if (type === delta) {
      this.isOpen = true
      this.progress.say([isJson(value) ? textIn(value.delta) : ""])
    } else if (type === done) {
      this.isOpen = false
      this.progress.report(transcriptionUsage(value), true)
      this.progress.finish("completed", 0)
    }
    return ""
  }

  terminator(): string {
    return ""
  }

  closing(): string {
    return ""
  }
}

/** Assembles the events of a transcription into a whole answer. */
export class TranscriptGathering implements Gathering {
  readonly endsByTerminator = true
  done = false
  failure: DialectError | undefined
  private last: Json | undefined
  private text = ""

  get isFinished(): boolean {
    return this.last !== undefined
  }

  take(value: Json, event: ServerEvent): void {
    const type = typeOf(event, value)
    if (type === "error") this.failure = readError(502, value)
    if (value.error) this.failure = readError(502, { error: value.error })
    if (type === delta) this.text += textIn(value.delta)
    if (type !== done) return
    this.last = value
    this.done = true
  }

  whole(): Json {
    const { type: _, ...members } = this.last ?? { text: this.text }
    return members
  }
}
