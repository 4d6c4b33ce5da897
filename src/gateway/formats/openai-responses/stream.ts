import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { type DialectError, readError } from "../errors.ts"
import { hasType, type ServerEvent } from "../event-reader.ts"
import { type Gathering, type StreamProgress, type StreamReader, type StreamTerms } from "../format.ts"
import { dataText } from "../streams/written-events.ts"
import { usageOfResponse } from "./usage.ts"

const lastTypes = new Set(["response.completed", "response.incomplete", "response.failed"])

/** Whether an event ends a response. */
export const endsResponse = (value: unknown, event: ServerEvent): boolean => hasType(lastTypes, value, event)

/** The error in which a response ended. Its events come after others, so that it is known by its status alone. */
export const failureIn = (value: unknown): Json | undefined => {
  const response = isJson(value) && isJson(value.response) ? value.response : value
  if (!isJson(response) || response.status !== "failed") return undefined
  return { error: response.error ?? { message: "The response failed." }, usage: response.usage }
}

/** How a response ended: why it is incomplete, or else its status. */
const endOf = ({ incomplete_details: details, status }: Json): string =>
  String((isJson(details) ? details.reason : undefined) ?? status)

/** Reads the events of a response. They pass unchanged but for the ids, which become the gateway's. */
export class ResponseReader implements StreamReader {
  /** The API has an event of its own for its end. */
  readonly endsByTerminator = false
  readonly rewrites = true
  readonly isOpen = false
  readonly holdsTerminator = false
  private readonly progress: StreamProgress
  private readonly terms: StreamTerms
  /** The response as its provider reported it last. */
  private response: Json = { object: "response", output: [] }
  private sequence = -1

  constructor(progress: StreamProgress, terms: StreamTerms) {
    this.progress = progress
    this.terms = terms
  }

  take(value: unknown, event: ServerEvent): string {
    if (isJson(value)) this.read(value, event)
    const name = event.event === "message" ? "" : `event: ${event.event}\n`
    return `${name}${dataText(this.terms.rename?.(event.data, value) ?? event.data)}`
  }

  terminator(): string {
    return ""
  }

  closing(): string {
    return ""
  }

  failure({ code, message }: DialectError): string {
    const failed = { ...this.response, status: "failed", error: { code: code ?? "server_error", message } }
    const event = { type: "response.failed", sequence_number: this.sequence + 1, response: failed }
    const json = JSON.stringify(event)
    return `event: response.failed\ndata: ${this.terms.rename?.(json, event) ?? json}\n\n`
  }

  private read(value: Json, event: ServerEvent): void {
    const { progress } = this
    const { delta, item, response, sequence_number: sequence, type } = value
    if (typeof sequence === "number") this.sequence = sequence
    if (type === "error") progress.failed(readError(502, value))
    else if (typeof delta === "string") progress.say([delta])
    else if (type === "response.output_item.added" && isJson(item) && typeof item.name === "string") {
      progress.say([item.name])
    } else if (isJson(response)) {
      this.response = response
      if (type === "response.failed") progress.failed(readError(502, response))
      progress.describe(response)
      if (isJson(response.usage)) progress.report(usageOfResponse(response.usage), true)
      if (endsResponse(value, event)) progress.finish(endOf(response), 0)
    }
  }
}

/** Assembles the events of a response. */
export class ResponseGathering implements Gathering {
  readonly endsByTerminator = false
  done = false
  failure: DialectError | undefined
  /** The response as it was reported last, and what was written of it. */
  private response: Json = {}
  private written = ""

  get isFinished(): boolean {
    return this.done
  }

  take(value: Json, event: ServerEvent): void {
    if (value.type === "error") this.failure = readError(502, value)
    if (isJson(value.response)) {
      this.response = value.response
      this.done = endsResponse(value, event)
    } else if (typeof value.delta === "string") this.written += value.delta
  }

  whole(): Json {
    const content = [{ type: "output_text", text: this.written }]
    return this.done ? this.response : { ...this.response, output: [{ type: "message", content }] }
  }
}
