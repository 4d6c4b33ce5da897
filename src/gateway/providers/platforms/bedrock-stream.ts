import { EventStreamCodec } from "@smithy/eventstream-codec"
import { Cause, Effect } from "effect"
import { crc32 } from "node:zlib"
import { isJson, type Json, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../../kernel/utf8.ts"
import { anthropicErrors } from "../../formats/anthropic-messages/errors.ts"
import { namedEvents } from "../../formats/streams/written-events.ts"
import { type Bytes, type ProviderAnswer } from "../provider.ts"
import { bad, failure } from "../transport-failures.ts"
import { statusOfAwsError } from "./bedrock-errors.ts"

/** The lengths and their checksum, which come before the rest of a frame. */
const preludeBytes = 12
/** A frame without headers and payload. */
const smallestFrame = 16
const largestFrame = 16_777_216

const utf8 = new TextEncoder()
const codec = new EventStreamCodec(
  (bytes) => (typeof bytes === "string" ? bytes : utf8Text(bytes)),
  (text) => utf8.encode(text)
)

const damaged = failure("broken-off", bad(502, "The provider's stream is damaged.", "provider-error"), true)
const cut = failure("broken-off", bad(502, "The provider broke the connection off.", "provider-unavailable"), true)

const isEventName = (name: unknown): name is string => typeof name === "string" && /^[a-z_]{1,64}$/.test(name)

const hasUsage = ({ message, usage }: Json): boolean => isJson(usage) || (isJson(message) && isJson(message.usage))

/** Bedrock's own count in the last event of a message, as Anthropic's events have it. */
const usageOfMetrics = ({ "amazon-bedrock-invocationMetrics": metrics }: Json): string =>
  isJson(metrics)
    ? namedEvents([
        {
          type: "message_delta",
          delta: {},
          usage: {
            input_tokens: metrics.inputTokenCount,
            output_tokens: metrics.outputTokenCount,
            cache_read_input_tokens: metrics.cacheReadInputTokenCount,
            cache_creation_input_tokens: metrics.cacheWriteInputTokenCount
          }
        }
      ])
    : ""

/**
 * Reads the frames of an event stream of AWS, cut anywhere (Amazon Transcribe Developer Guide, "Event stream encoding"), and
 * writes the events of Anthropic's messages that they hold as Server-Sent Events.
 */
export class BedrockStream {
  /** Set where the rest cannot be read. */
  isDamaged = false
  private held: Array<Uint8Array> = []
  private length = 0
  private needed = preludeBytes
  private hasUsage = false
  private readonly requestId: string

  constructor(requestId: string) {
    this.requestId = requestId
  }

  /** Whether what was read ends with a frame. */
  get isWhole(): boolean {
    return this.length === 0
  }

  /** The events of the frames that end in these bytes. */
  push(bytes: Uint8Array): string {
    this.held.push(bytes)
    this.length += bytes.length
    let events = ""
    while (!this.isDamaged && this.length >= this.needed) {
      const all = this.held.length === 1 ? this.held[0]! : Buffer.concat(this.held)
      this.held = [all]
      if (this.needed === preludeBytes) this.needed = this.frameLength(all)
      if (this.isDamaged || this.length < this.needed) break
      events += this.read(all.subarray(0, this.needed))
      const rest = all.subarray(this.needed)
      this.held = rest.length === 0 ? [] : [rest]
      this.length = rest.length
      this.needed = preludeBytes
    }
    return events
  }

  private frameLength(bytes: Uint8Array): number {
    const view = new DataView(bytes.buffer, bytes.byteOffset)
    const length = view.getUint32(0)
    // Before its checksum is known to fit, a length may be any: the rest of the stream would be waited for.
    this.isDamaged =
      view.getUint32(8) !== crc32(bytes.subarray(0, 8)) || length < smallestFrame || length > largestFrame
    return length
  }

  private read(frame: Uint8Array): string {
    try {
      const { body, headers } = codec.decode(frame)
      const header = (name: string) => `${headers[name]?.value ?? ""}`
      const payload = parsedJson(utf8Text(body))
      switch (header(":message-type")) {
        case "exception":
          return this.error(
            header(":exception-type"),
            isJson(payload) ? (payload.message ?? payload.Message) : undefined
          )
        case "error":
          return this.error(header(":error-code"), header(":error-message"))
        case "event":
          return header(":event-type") === "chunk" ? this.chunk(payload) : ""
        default:
          return ""
      }
    } catch {
      this.isDamaged = true
      return ""
    }
  }

  private error(code: string, given: unknown): string {
    const message = typeof given === "string" && given !== "" ? given : `The provider failed: ${code}`
    return anthropicErrors.event({ status: statusOfAwsError(code) ?? 500, message, code: null }, this.requestId)
  }

  private chunk(payload: unknown): string {
    const bytes = isJson(payload) ? payload.bytes : undefined
    const text = typeof bytes === "string" ? Buffer.from(bytes, "base64").toString("utf8") : ""
    const value = parsedJson(text)
    if (!isJson(value)) {
      this.isDamaged = true
      return ""
    }
    // One without a type is a sign of life.
    if (!isEventName(value.type)) return ""
    const counted = value.type === "message_stop" && !this.hasUsage ? usageOfMetrics(value) : ""
    this.hasUsage ||= hasUsage(value)
    return `${counted}event: ${value.type}\ndata: ${/[\r\n]/.test(text) ? JSON.stringify(value) : text}\n\n`
  }
}

/** An answer whose event stream is read as Server-Sent Events; any other one as it is. */
export const asServerEvents = (answer: ProviderAnswer): ProviderAnswer => {
  const { body, headers } = answer
  if (body instanceof Uint8Array || !/^application\/vnd\.amazon\.eventstream\b/i.test(headers["content-type"] ?? "")) {
    return answer
  }
  const stream = new BedrockStream(headers["x-amzn-requestid"] ?? "")
  const read = (chunks: ReadonlyArray<Uint8Array>) => utf8.encode(chunks.map((chunk) => stream.push(chunk)).join(""))
  const next: Bytes = Effect.suspend(() =>
    stream.isDamaged
      ? Effect.fail(damaged)
      : Effect.matchEffect(body.rest, {
          onSuccess: (chunks) => {
            const events = read(chunks)
            return events.length === 0 ? next : Effect.succeed([events] as const)
          },
          onFailure: (end) => Effect.fail(Cause.isDone(end) && !stream.isWhole ? cut : end)
        })
  )
  const first = body.first.length === 0 ? [] : [read(body.first)]
  return { ...answer, headers: { ...headers, "content-type": "text/event-stream" }, body: { first, rest: next } }
}
