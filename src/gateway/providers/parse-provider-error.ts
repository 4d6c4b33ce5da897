import { EventReader } from "../translation/event-reader.ts"
import { type ProviderAnswer } from "./provider.ts"
import { isJson, parsedJson } from "../../kernel/parsed-json.ts"

/** Quotes in generated text are escaped, so an unescaped match is a member of the response itself. */
const looksLikeError = /"error"\s*:\s*[{"]|"(?:type|object)"\s*:\s*"error"/
/** The same for the first event of a stream; comments before it are skipped. */
const beginsWithError = /^(?:\s|:[^\n]*\n)*(?:event:\s*error\b|data:\s*\{\s*"(?:error"\s*:\s*[{"]|type"\s*:\s*"error"))/
const longestHead = 1024

/** Whether a response ended before its first byte. */
export const isEmptyAnswer = ({ body }: ProviderAnswer): boolean =>
  body instanceof Uint8Array ? body.length === 0 : body.first.length === 0

/**
 * The error that a provider sent with a successful status: alone, or as the first event of a stream. Undefined for every
 * other response.
 */
export const errorInAnswer = ({ body, headers }: ProviderAnswer): ProviderAnswer | undefined => {
  const data = body instanceof Uint8Array ? whole(body) : firstEvent(body.first)
  const error = errorIn(data)
  if (error === undefined) return undefined
  return { status: statusOf(error), headers, body: new TextEncoder().encode(JSON.stringify({ error })) }
}

/** Some providers do not nest the error's members under `error`. */
const errorIn = (data: unknown): unknown => {
  if (!isJson(data) || answers.some((name) => data[name])) return undefined
  return data.error || (data.object === "error" || data.type === "error" ? data : undefined)
}
/** Members that only a response without an error has. */
const answers = ["choices", "content", "data", "output"]

const headOf = (bytes: Uint8Array): string => Buffer.from(bytes.subarray(0, longestHead)).toString("utf8")

const whole = (bytes: Uint8Array): unknown =>
  looksLikeError.test(headOf(bytes)) ? parsedJson(Buffer.from(bytes).toString("utf8")) : undefined

const firstEvent = (chunks: ReadonlyArray<Uint8Array>): unknown => {
  const [first] = chunks
  if (first === undefined || !beginsWithError.test(headOf(first))) return undefined
  const [event] = new EventReader().push(Buffer.concat(chunks))
  return event === undefined ? undefined : parsedJson(event.data)
}

const statuses: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  insufficient_quota: 429,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  timeout_error: 504,
  overloaded_error: 529
}

/** The status that matches an error's code or type; 502 by default. */
const statusOf = (error: unknown): number => {
  if (!isJson(error)) return 502
  const told = [error.code, error.status].map(Number).find((code) => code >= 400 && code < 600)
  const named = [error.code, error.type].flatMap((name) => statuses[String(name)] ?? [])
  return told ?? named[0] ?? 502
}

/**
 * HTTP's current date format. The obsolete asctime format is excluded: JavaScript reads it as local time, and servers no
 * longer send it.
 */
const httpDate = /^[A-Z][a-z]{2,8}, \d{2}[ -][A-Z][a-z]{2}[ -]\d{2,4} \d{2}:\d{2}:\d{2} GMT$/

const numberIn = (header: string | undefined): number | undefined =>
  header !== undefined && /^\d{1,9}(?:\.\d{1,9})?$/.test(header) ? Number(header) : undefined

/**
 * How many seconds a provider asks to wait: by `retry-after-ms`, which is more exact, else by Retry-After in seconds or as
 * a date. A date in the past is ignored, because the two clocks disagree.
 */
export const retryAfterSeconds = (headers: Readonly<Record<string, string>>, now: number): number | undefined => {
  const { "retry-after": header, "retry-after-ms": exact } = headers
  const millis = numberIn(exact)
  if (millis !== undefined) return millis / 1000
  const seconds = numberIn(header)
  if (seconds !== undefined || header === undefined) return seconds
  const left = httpDate.test(header) ? Date.parse(header) - now : Number.NaN
  return left > 0 ? left / 1000 : undefined
}
