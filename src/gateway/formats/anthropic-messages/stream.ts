import { Predicate } from "effect"
import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { readError } from "../errors.ts"
import { hasType, type ServerEvent, typeOf } from "../event-reader.ts"
import { type StreamProgress, type StreamReader } from "../format.ts"
import { namedEvents } from "../streams/written-events.ts"
import { isCount, laterUsage } from "../usage.ts"
import { usageOfMessage } from "./usage.ts"

const lastTypes = new Set(["message_stop"])

/** Whether an event ends a message. */
export const endsMessage = (value: unknown, event: ServerEvent): boolean => hasType(lastTypes, value, event)

/** Reads the events of a message, which are passed on as bytes. */
export class MessageReader implements StreamReader {
  readonly endsByTerminator = true
  readonly rewrites = false
  readonly isOpen = false
  /** Servers of other vendors send one: the last event of a message has to come before. */
  readonly holdsTerminator = true
  private readonly progress: StreamProgress
  /** The usage reported so far, in Anthropic's form. */
  private reported: Json | undefined

  constructor(progress: StreamProgress) {
    this.progress = progress
  }

  isKeepAlive(value: unknown, event: ServerEvent): boolean {
    return typeOf(event, value) === "ping"
  }

  take(value: unknown, event: ServerEvent): string {
    const { progress } = this
    if (!isJson(value)) return ""
    if (this.isKeepAlive(value, event)) return ""
    if (typeOf(event, value) === "error" || event.event === "error") {
      progress.failed(readError(502, value))
      return ""
    }
    const message = isJson(value.message) ? value.message : {}
    const reported = isJson(message.usage) ? message.usage : value.usage
    progress.describe(message)
    const delta = isJson(value.delta) ? value.delta : {}
    if (typeof delta.stop_reason === "string") progress.finish(delta.stop_reason, 0)
    const block = isJson(value.content_block) ? value.content_block : {}
    progress.say([block.text, block.name, delta.text, delta.thinking, delta.partial_json].filter(Predicate.isString))
    if (isJson(reported)) {
      this.reported = laterUsage(this.reported ?? {}, reported)
      progress.report(usageOfMessage(this.reported), isCount(reported.output_tokens))
    }
    return ""
  }

  terminator(): string {
    return ""
  }

  closing(_: unknown, isDone: boolean, isHeldBack: boolean): string {
    return isDone && !isHeldBack ? "" : namedEvents([{ type: "message_stop" }])
  }
}
