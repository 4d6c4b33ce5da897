import { isJson, type Json, parsedJson } from "../../kernel/json/parsed-json.ts"
import { type DialectError } from "../formats/errors.ts"
import { EventReader, isTerminator, type ServerEvent } from "../formats/event-reader.ts"
import { type Gathering, type WireFormat } from "../formats/format.ts"

/** Assembles a streamed response into the complete one that the caller requested: some providers always stream. */
export class GatheredStream {
  private readonly gathering: Gathering
  private readonly reader = new EventReader()
  private isTerminated = false

  constructor(format: WireFormat) {
    this.gathering = format.gathering()
  }

  /** Whether the last event has arrived. */
  get done(): boolean {
    return this.isTerminated || this.gathering.done
  }

  /** The error that the provider sent in its stream. */
  get failure(): DialectError | undefined {
    return this.gathering.failure
  }

  /** Whether the model reported its end, so that the response is complete. */
  get isComplete(): boolean {
    if (this.reader.failure !== undefined || this.failure !== undefined) return false
    return this.done || this.gathering.isFinished
  }

  push(bytes: Uint8Array): void {
    for (const event of this.reader.push(bytes)) this.take(event)
  }

  /** What there is of the response, in its provider's format. */
  end(): Json {
    for (const event of this.reader.end()) this.take(event)
    return this.gathering.whole()
  }

  private take(event: ServerEvent): void {
    if (this.done) return
    if (isTerminator(event)) {
      this.isTerminated = this.gathering.endsByTerminator
      return
    }
    const value = parsedJson(event.data)
    if (isJson(value)) this.gathering.take(value, event)
  }
}
