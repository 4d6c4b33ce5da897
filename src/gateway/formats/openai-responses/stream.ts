import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { type DialectError, readError } from "../errors.ts"
import { hasType, type ServerEvent } from "../event-reader.ts"
import { type Gathering, type StreamProgress, type StreamReader, type StreamTerms } from "../format.ts"
import { dataText } from "../streams/written-events.ts"
import { usageOfResponse } from "./usage.ts"
import { textsOfResponse } from "./whole-to-stream.ts"

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
  /** The length of what was written of each item, by its place and its id: events may have one of them alone. */
  private readonly written = new Map<unknown, number>()

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
    const { delta, item, item_id: id, output_index: place, response, sequence_number: sequence, type } = value
    if (typeof sequence === "number") this.sequence = sequence
    if (type === "error") progress.failed(readError(502, value))
    else if (typeof delta === "string") this.say([place, id], delta)
    else if (type === "response.output_item.added" && isJson(item) && typeof item.name === "string") {
      this.say([place, item.id], item.name)
    } else if (type === "response.output_item.done" && isJson(item)) this.rest(place, item)
    else if (isJson(response)) {
      this.response = response
      if (type === "response.failed") progress.failed(readError(502, response))
      progress.describe(response)
      if (isJson(response.usage)) progress.report(usageOfResponse(response.usage), true)
      if (endsResponse(value, event)) {
        for (const [index, last] of listIn(response.output).entries()) if (isJson(last)) this.rest(index, last)
        progress.finish(endOf(response), 0)
      }
    }
  }

  private said(keys: ReadonlyArray<unknown>): number {
    return Math.max(0, ...keys.map((key) => (key === undefined ? 0 : (this.written.get(key) ?? 0))))
  }

  private say(keys: ReadonlyArray<unknown>, text: string): void {
    const length = this.said(keys) + text.length
    for (const key of keys) this.written.set(key, length)
    this.progress.say([text])
  }

  /** What a whole item has that no event before it said. */
  private rest(place: unknown, item: Json): void {
    const text = textsOfResponse({ output: [item] }).join("")
    const keys = [place, item.id]
    const said = this.said(keys)
    if (text.length > said) this.say(keys, text.slice(said))
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
  private readonly items: Array<Json> = []

  get isFinished(): boolean {
    return this.done
  }

  take(value: Json, event: ServerEvent): void {
    if (value.type === "error") this.failure = readError(502, value)
    if (isJson(value.response)) {
      this.response = value.response
      this.done = endsResponse(value, event)
    } else if (value.type === "response.output_item.done" && isJson(value.item)) this.items.push(value.item)
    else if (typeof value.delta === "string") this.written += value.delta
  }

  whole(): Json {
    const content = [{ type: "output_text", text: this.written }]
    const { items } = this
    if (!this.done) return { ...this.response, output: [{ type: "message", content }] }
    return listIn(this.response.output).length === 0 && items.length > 0
      ? { ...this.response, output: items }
      : this.response
  }
}
