import { type CloudEvent } from "../cloud-events/domain.ts"
import { isJsonType, isUtf8Type } from "../cloud-events/media-type.ts"
import { type Target } from "./domain.ts"
import { signatureHeaders } from "./signing.ts"

/** An event as it is sent to a target. */
export interface DeliveryRequest {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

/**
 * The request that delivers an event in the form of its target. Receivers drop a second message with the same `messageId`,
 * so it is not the id of the event, which is unique with its source only.
 */
export const deliveryRequest = (
  { config, kind }: Pick<Target, "config" | "kind">,
  secrets: ReadonlyArray<string>,
  messageId: string,
  event: CloudEvent,
  epochMillis: number
): DeliveryRequest => {
  const { body, headers } = contentOf(kind, config.contentMode === "binary", event)
  return {
    body,
    headers: {
      "user-agent": "application-manager",
      ...headers,
      ...signatureHeaders(secrets, messageId, epochMillis, body)
    }
  }
}

const contentOf = (kind: Target["kind"], isBinary: boolean, event: CloudEvent): DeliveryRequest => {
  switch (kind) {
    case "webhook":
      return json({ type: event.type, timestamp: event.time, data: event })
    case "slack":
      return json(slackMessage(event))
    default:
      return isBinary ? binary(event) : json(event, "application/cloudevents+json; charset=utf-8")
  }
}

const json = (value: unknown, contentType = "application/json"): DeliveryRequest => ({
  headers: { "content-type": contentType },
  body: JSON.stringify(value)
})

/** Servers refuse more, and so an event whose attributes take more could not be delivered. */
const maxHeaderBytes = 6144

/** The data as the bytes of its type; undefined where they would be no data of that type. */
const bodyIn = (
  { data, data_base64: base64 }: CloudEvent,
  contentType: string | undefined
): DeliveryRequest["body"] | undefined => {
  const isJson = contentType === undefined || isJsonType(contentType)
  if (base64 !== undefined) {
    const bytes = Buffer.from(String(base64), "base64")
    // Without a type, or without bytes, a receiver would take them for JSON.
    return contentType === undefined || (isJson && bytes.length === 0) ? undefined : bytes
  }
  // Text is sent in UTF-8.
  if (contentType !== undefined && !isUtf8Type(contentType)) return undefined
  if (data === undefined) return contentType === undefined ? "" : undefined
  if (isJson) return JSON.stringify(data)
  return typeof data === "string" ? data : undefined
}

/**
 * The binary mode of the HTTP binding: attributes in headers. What is not for headers stays in the structured mode: attributes
 * that are too long, the type of data that an event does not have, and data that are not of their type.
 */
const binary = (event: CloudEvent): DeliveryRequest => {
  const { data: _, data_base64: __, datacontenttype, ...attributes } = event
  const contentType = datacontenttype ?? "application/json"
  const headers = Object.entries(attributes).map(([name, value]) => [`ce-${name}`, headerValue(String(value))] as const)
  const length = headers.reduce((sum, [name, value]) => sum + name.length + value.length, contentType.length)
  const fits = length <= maxHeaderBytes && !/[^\x20-\x7e]/.test(contentType)
  const body = bodyIn(event, datacontenttype)
  if (body === undefined || !fits) return contentOf("cloudevents", false, event)
  const isNothing = event.data === undefined && event.data_base64 === undefined
  return {
    headers: { ...(isNothing ? {} : { "content-type": contentType }), ...Object.fromEntries(headers) },
    body
  }
}

/** A value in a header: what is no printable ASCII, and quotation marks and percent signs, are percent-encoded. */
const headerValue = (value: string): string =>
  value.replace(/[^\x21\x23\x24\x26-\x7e]/gu, (character) =>
    encodeURIComponent(character.isWellFormed() ? character : "\ufffd")
  )

const escaped: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" }

/** Text with Slack's three control characters escaped, of so many characters at most. */
const slackText = (text: string, maximum: number): string => {
  let shown = ""
  for (const character of text) {
    const next = shown + (escaped[character] ?? character)
    if (next.length > maximum) return `${shown}…`
    shown = next
  }
  return shown
}

/** A message for people: a line for notifications, and the same in blocks. Text is plain, so that none of it is markup. */
const slackMessage = ({ authid, source, subject, time, type }: CloudEvent) => {
  const about = subject ?? source
  const by = authid === undefined ? "" : ` by ${authid}`
  const plain = (text: string, maximum: number) => ({
    type: "plain_text",
    text: slackText(text, maximum),
    emoji: false
  })
  return {
    text: slackText(`${type}: ${about}${by}`, 3000),
    blocks: [
      { type: "header", text: plain(type, 140) },
      { type: "section", text: plain(about, 2900) },
      { type: "context", elements: [plain(`${time ?? ""}${by} from ${source}`.trim(), 1900)] }
    ]
  }
}
