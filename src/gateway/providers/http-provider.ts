import { Clock, Effect, Redacted } from "effect"
import { EventReader } from "../formats/event-reader.ts"
import { type VendorDialect, type WireFormat } from "../formats/format.ts"
import { readErrorIn } from "../formats/errors.ts"
import { type ProviderClient } from "./clients.ts"
import { answeredNothing, answerJson, untilItSays } from "./answer-content.ts"
import { type ExchangeRequest } from "./exchange.ts"
import { type Provider, type ProviderAnswer, providerCredentials, type ProviderFailure } from "./provider.ts"
import { bad, failure } from "./transport-failures.ts"
import { isJson, type Json, parsedJson } from "../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { lookupTable } from "../../kernel/lookup-table.ts"

/** The options of a vendor's HTTP client. */
export interface HttpProviderOptions {
  readonly id: string
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted<string> | undefined
  readonly headers: Readonly<Record<string, string>>
  /** Maximum seconds until the first byte of a response, and between two of them. */
  readonly timeoutSeconds: number
}

const maxModelsBytes = 4_194_304
/** Shorter header values, such as a version or a region, are not secret and may occur in any text. */
const shortestSecret = 8

/** A vendor's service, called over HTTP. Redirects are not followed. */
export const makeHttpProvider = (
  client: ProviderClient,
  dialect: VendorDialect,
  { apiKey, baseUrl, headers, id, timeoutSeconds }: HttpProviderOptions
): Provider => {
  const url = URL.parse(baseUrl)
  const origin = url?.origin ?? ""
  const base = url?.pathname.replace(/\/+$/, "") ?? ""
  // In small letters, as those of callers are, so that none is sent twice.
  const configured = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
  const fixed = { ...configured, ...(apiKey === undefined ? {} : dialect.authorize(Redacted.value(apiKey))) }
  const secrets = [...(apiKey === undefined ? [] : [Redacted.value(apiKey)]), ...Object.values(headers)].filter(
    ({ length }) => length >= shortestSecret
  )
  /** Some providers repeat credentials of the request in their errors. */
  const withoutSecrets = (text: string) => secrets.reduce((rest, secret) => rest.replaceAll(secret, "***"), text)

  const answered = (request: Omit<ExchangeRequest, "origin" | "timeoutSeconds">, format?: WireFormat) =>
    Effect.flatMap(client.send({ ...request, origin, timeoutSeconds }), (answer) => {
      const isSuccess = answer.status >= 200 && answer.status < 300
      if (isSuccess && isEmptyAnswer(answer)) return Effect.fail(answeredNothing())
      const refused = isSuccess ? errorInAnswer(answer) : answer
      return refused === undefined
        ? Effect.succeed(answer)
        : Effect.flatMap(Clock.currentTimeMillis, (now) =>
            Effect.fail(parseProviderError(dialect, format, refused, withoutSecrets, now))
          )
    })

  const send: Provider["send"] = ({ body, deadline, format, headers: passed, model, streams }) => {
    const headers = { ...dialect.headers, ...passed, ...fixed, "content-type": "application/json" }
    const made = answered(
      { method: "POST", path: base + format.pathOf(model, streams), headers, body, deadline },
      format
    )
    return format.isCount ? made : Effect.flatMap(made, (answer) => holding(answer, format))
  }

  /** An answer that holds something; of a stream, once it says something. */
  const holding = (answer: ProviderAnswer, format: WireFormat): Effect.Effect<ProviderAnswer, ProviderFailure> => {
    const { body, headers } = answer
    if (!(body instanceof Uint8Array)) return untilItSays(answer, body, format)
    const value = answerJson(body, format)
    // What cannot be parsed may hold anything, but for white space.
    if (value === undefined ? !isBlank(body) : format.holdsAnything(value)) {
      return Effect.succeed({ ...answer, value })
    }
    if (!isJson(value) || !value.error) return Effect.fail(answeredNothing(format.usageIn(value)))
    const refused = { status: statusOf(value.error), headers, body }
    return Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.fail(parseProviderError(dialect, format, refused, withoutSecrets, now))
    )
  }

  const listModels = Effect.gen(function* () {
    const { body } = yield* answered({
      method: "GET",
      path: base + dialect.modelsPath,
      headers: { ...dialect.headers, ...fixed },
      maxBytes: maxModelsBytes
    })
    const listed = body instanceof Uint8Array ? dialect.modelsIn(parsedJson(utf8Text(body))) : undefined
    return (
      listed ??
      (yield* failure("status", bad(502, "The provider's list of models cannot be read.", "provider-error"), false))
    )
  }).pipe(Effect.scoped)

  const { storedPath } = dialect
  const stored: Provider["stored"] =
    storedPath === undefined
      ? undefined
      : ({ method, path }) =>
          answered({ method, path: base + storedPath + path, headers: { ...dialect.headers, ...fixed } })

  return { id, send, ...(stored === undefined ? {} : { stored }), listModels }
}

/** Parses an unsuccessful response. */
const parseProviderError = (
  { dialect }: VendorDialect,
  format: WireFormat | undefined,
  { body, headers, status: received }: ProviderAnswer,
  withoutSecrets: (text: string) => string,
  now: number
): ProviderFailure => {
  // A redirect would lead to an unchecked address; a credential error concerns the gateway's key, not the caller's.
  if (received < 400) {
    return failure("status", bad(502, "The provider answered with a redirect.", "provider-error"), false, {
      headers,
      received
    })
  }
  if (received === 401 || received === 403) {
    const refused = bad(502, "The provider refuses the gateway's key.", providerCredentials)
    return failure("status", refused, false, { headers, received })
  }
  const text = body instanceof Uint8Array ? utf8Text(body) : ""
  const said = parsedJson(withoutSecrets(text))
  const error = readErrorIn(dialect, received, said)
  // A caller that receives 402 or a quota error would look for a cap of its own.
  if (received === 402 || (received === 429 && unpaidCodes.has(error.code))) {
    const unpaid = bad(502, "The provider refuses the gateway's account: it is not paid for.", providerCredentials)
    return failure("status", unpaid, false, { headers, received })
  }
  return failure("status", error, false, {
    headers,
    received,
    retryAfterSeconds: retryAfterSeconds(headers, now),
    usage: format?.usageIn(said)
  })
}

/** Codes of an empty or closed account; OpenAI sends 429 both for these and for rate limits. */
const unpaidCodes = new Set<string | null>(["insufficient_quota", "billing_not_active"])

/** Quotes in generated text are escaped, so an unescaped match is a member of the response itself. */
const looksLikeError = /"error"\s*:\s*[{"]|"(?:type|object)"\s*:\s*"error"/
/** The same for the first event of a stream; comments before it are skipped. */
const beginsWithError = /^(?:\s|:[^\n]*\n)*(?:event:\s*error\b|data:\s*\{\s*"(?:error"\s*:\s*[{"]|type"\s*:\s*"error"))/
const longestHead = 1024

const isBlank = (bytes: Uint8Array): boolean => bytes.length < longestHead && utf8Text(bytes).trim() === ""

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
  const { usage } = data as Json
  return { status: statusOf(error), headers, body: new TextEncoder().encode(JSON.stringify({ error, usage })) }
}

/** Some providers do not nest the error's members under `error`. */
const errorIn = (data: unknown): unknown => {
  if (!isJson(data) || answers.some((name) => data[name])) return undefined
  return data.error || (data.object === "error" || data.type === "error" ? data : undefined)
}
/** Members that only a response without an error has. */
const answers = ["choices", "content", "data", "output"]

const headOf = (bytes: Uint8Array): string => utf8Text(bytes.subarray(0, longestHead))

const whole = (bytes: Uint8Array): unknown =>
  looksLikeError.test(headOf(bytes)) ? parsedJson(utf8Text(bytes)) : undefined

const firstEvent = (chunks: ReadonlyArray<Uint8Array>): unknown => {
  const [first] = chunks
  if (first === undefined || !beginsWithError.test(headOf(first))) return undefined
  const [event] = new EventReader().push(Buffer.concat(chunks))
  return event === undefined ? undefined : parsedJson(event.data)
}

const statuses = lookupTable<number>({
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
})

/** The status that matches an error's code or type; 502 by default. */
const statusOf = (error: unknown): number => {
  if (!isJson(error)) return 502
  const told = [error.code, error.status].map(statusIn).find((code) => code >= 400 && code < 600)
  const named = [error.code, error.type].flatMap((name) => (typeof name === "string" ? (statuses[name] ?? []) : []))
  return told ?? named[0] ?? 502
}

/** A status as a provider's error tells it, in digits or as a number; NaN for anything else. */
const statusIn = (told: unknown): number =>
  (typeof told === "number" || typeof told === "string") && /^\d{3}$/.test(`${told}`) ? Number(told) : NaN

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
