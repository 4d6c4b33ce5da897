import { Array as Arrays, Clock, Effect, Redacted, type Scope } from "effect"
import { isJson, type Json, parsedJson } from "../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../kernel/lookup-table.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { errorAlone, type ProviderError, readErrorIn } from "../formats/errors.ts"
import { type VendorDialect, type WireFormat } from "../formats/format.ts"
import { SentForm } from "../formats/forms/form.ts"
import { type ProviderClient } from "./clients.ts"
import { type Credential } from "./credential.ts"
import { type ExchangeRequest, isEventStream } from "./exchange.ts"
import { type Platform } from "./platform.ts"
import {
  type Provider,
  type ProviderAnswer,
  providerCredentials,
  type ProviderFailure,
  unsupportedApi
} from "./provider.ts"
import { answeredNothing, answerJson, untilItSays } from "./readable-answers.ts"
import { bad, failure } from "./transport-failures.ts"

/** The options of a vendor's HTTP client. */
export interface HttpProviderOptions {
  readonly id: string
  readonly baseUrl: string
  /** A key that stays as it is. */
  readonly apiKey: Redacted.Redacted<string> | undefined
  /** What else authorizes its requests. */
  readonly credential?: Credential | undefined
  /** Of a cloud that serves the vendor's formats in its own way. */
  readonly platform?: Platform | undefined
  readonly headers: Readonly<Record<string, string>>
  /** Maximum seconds until the first byte of a response, and between two of them. */
  readonly timeoutSeconds: number
}

/** The headers of a body; the length of a form is not known to its stream. */
const bodyHeaders = (form: SentForm | undefined): Readonly<Record<string, string>> =>
  form === undefined
    ? { "content-type": "application/json" }
    : { "content-type": form.contentType, "content-length": String(form.length) }

const maxModelsBytes = 4_194_304
/** Shorter header values, such as a version or a region, are not secret and may occur in any text. */
const shortestSecret = 8

/** The body of a request as far as it is signed: none that is read as it is sent. */
const signedBody = ({ body }: Pick<ExchangeRequest, "body">): string | Uint8Array =>
  typeof body === "string" || body instanceof Uint8Array ? body : ""

/** Whether a request can be sent again: not where its body is made as it is sent. */
const isRepeatable = ({ body = "" }: Pick<ExchangeRequest, "body">): boolean =>
  typeof body === "string" || body instanceof Uint8Array || body instanceof SentForm

/** A vendor's service, called over HTTP. Redirects are not followed. */
export const makeHttpProvider = (
  client: ProviderClient,
  dialect: VendorDialect,
  { apiKey, baseUrl, credential, headers, id, platform, timeoutSeconds }: HttpProviderOptions
): Provider => {
  const url = URL.parse(baseUrl)
  const origin = url?.origin ?? ""
  const base = url?.pathname.replace(/\/+$/, "") ?? ""
  // In small letters, as those of callers are, so that none is sent twice.
  const configured = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
  const authorize = platform?.authorize ?? dialect.authorize
  const usual = platform?.headers ?? dialect.headers
  const fixed = { ...configured, ...(apiKey === undefined ? {} : authorize(Redacted.value(apiKey))) }
  const secrets = [...(apiKey === undefined ? [] : [Redacted.value(apiKey)]), ...Object.values(headers)].filter(
    ({ length }) => length >= shortestSecret
  )
  /** Some providers repeat credentials of the request in their errors. */
  const withoutSecrets = (text: string) =>
    [...secrets, ...(credential?.secrets() ?? [])].reduce((rest, secret) => rest.replaceAll(secret, "***"), text)

  const messageWithoutSecrets = (message: string | Uint8Array) =>
    withoutSecrets(typeof message === "string" ? message : utf8Text(message))

  type Leaving = Omit<ExchangeRequest, "origin" | "timeoutSeconds">

  /** One more attempt with another credential follows a refusal of the first, before a byte of an answer was passed on. */
  const authorizing = <A extends ProviderAnswer>(
    sent: (request: Leaving) => Effect.Effect<A, ProviderFailure, Scope.Scope>
  ): ((request: Leaving, isRepeated?: boolean) => Effect.Effect<A, ProviderFailure, Scope.Scope>) => {
    if (credential === undefined) return sent
    const authorized = (request: Leaving, isRepeated = false): Effect.Effect<A, ProviderFailure, Scope.Scope> =>
      Effect.flatMap(
        credential.authorize({
          method: request.method,
          url: new URL(origin + request.path),
          headers: request.headers,
          body: signedBody(request)
        }),
        (added) =>
          Effect.flatMap(sent({ ...request, headers: { ...request.headers, ...added } }), (answer) =>
            isRepeated || !isRepeatable(request) || answer.status < 400
              ? Effect.succeed(answer)
              : Effect.flatMap(credential.refused(answer, added), (again) =>
                  again ? authorized(request, true) : Effect.succeed(answer)
                )
          )
      )
    return authorized
  }

  const authorized = authorizing((request) => client.send({ ...request, origin, timeoutSeconds }))

  const answered = (request: Leaving, format?: WireFormat) =>
    Effect.flatMap(authorized(request), (given) => {
      const answer = format === undefined ? given : (platform?.answer?.(given, format) ?? given)
      const isSuccess = answer.status >= 200 && answer.status < 300
      if (isSuccess && isEmptyAnswer(answer)) return Effect.fail(answeredNothing())
      if (!isSuccess) return refused(answer, format)
      const error = errorOfSuccess(answer)
      return error === undefined ? Effect.succeed(answer) : refused(asRefusal(answer, error), format)
    })

  const refused = (answer: ProviderAnswer, format: WireFormat | undefined): Effect.Effect<never, ProviderFailure> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.fail(parseProviderError(dialect, format, answer, withoutSecrets, now))
    )

  const requestOf: Platform["request"] =
    platform?.request ?? ((format, model, streams, request) => ({ path: format.pathOf(model, streams), ...request }))

  const send: Provider["send"] = ({ body, deadline, form, format, headers: passed, model, streams }) => {
    const request = requestOf(format, model, streams, { headers: passed, body })
    if (request === undefined) return Effect.fail(unservedThere)
    const headers = { ...usual, ...request.headers, ...fixed, ...bodyHeaders(form) }
    const path = (format.baseOf?.(base) ?? base) + request.path
    const passing = format.answersBytes === true ? ("bytes" as const) : false
    const made = answered(
      { method: "POST", path, headers, body: form ?? request.body, deadline, streams: passing },
      format
    )
    return format.isCount ? made : Effect.flatMap(made, (answer) => holding(answer, format))
  }

  /** An answer that holds something; of a stream, once it says something. */
  const holding = (answer: ProviderAnswer, format: WireFormat): Effect.Effect<ProviderAnswer, ProviderFailure> => {
    const { body } = answer
    if (!(body instanceof Uint8Array)) {
      if (!isEventStream(answer.headers)) return Effect.succeed(answer)
      return untilItSays(answer, body, format, (error) => refused(asRefusal(answer, error), format))
    }
    const value = answerJson(body, format)
    // What cannot be parsed may hold anything, but for white space.
    const mayHold = format.answersBytes !== true && !isBlank(body)
    if (value === undefined ? mayHold : format.holdsAnything(value)) {
      return Effect.succeed({ ...answer, value })
    }
    if (!isJson(value) || !value.error) return Effect.fail(answeredNothing(format.usageIn(value)))
    return refused({ ...answer, status: statusOf(value.error) }, format)
  }

  const modelsPath = platform?.modelsPath === undefined ? dialect.modelsPath : platform.modelsPath
  const modelsIn = platform?.modelsIn ?? dialect.modelsIn

  const listModels = Effect.gen(function* () {
    if (modelsPath === null) return yield* unlisted
    const { body } = yield* answered({
      method: "GET",
      path: base + modelsPath,
      headers: { ...usual, ...fixed },
      maxBytes: maxModelsBytes
    })
    const listed = body instanceof Uint8Array ? modelsIn(parsedJson(utf8Text(body))) : undefined
    return (
      listed ??
      (yield* failure("status", bad(502, "The provider's list of models cannot be read.", "provider-error"), false))
    )
  }).pipe(Effect.scoped)

  const { storedPath } = dialect
  const stored: Provider["stored"] =
    storedPath === undefined
      ? undefined
      : ({ method, path }) => answered({ method, path: base + storedPath + path, headers: { ...usual, ...fixed } })

  const kept: Provider["kept"] = ({ body, headers: own, method, path, streams = false }) =>
    answered({
      method,
      path: base + path,
      headers: { ...usual, ...own, ...fixed },
      ...(body === undefined ? {} : { body }),
      streams
    })

  const { open: openSocket } = client
  const opened = openSocket === undefined ? undefined : authorizing((request) => openSocket({ ...request, origin }))
  const open: Provider["open"] =
    opened === undefined
      ? undefined
      : Effect.fnUntraced(function* (format, model) {
          const request = requestOf(format, model, true, { headers: {}, body: "" })
          if (request === undefined) return yield* unservedThere
          const headers = { ...usual, ...request.headers, ...fixed }
          const path = (format.baseOf?.(base) ?? base) + request.path
          const answer = yield* opened({ method: "GET", path, headers })
          const { socket } = answer
          if (socket === undefined) return yield* refused(answer, format)
          return { ...socket, pull: Effect.map(socket.pull, Arrays.map(messageWithoutSecrets)) }
        })

  // A file is sent on as it comes, which no signature covers.
  const keeps = platform?.keeps !== false && credential?.signs !== true
  return {
    id,
    send,
    ...(stored === undefined ? {} : { stored }),
    ...(keeps ? { kept } : {}),
    ...(open === undefined ? {} : { open }),
    listModels
  }
}

const unservedThere = failure(
  "status",
  bad(404, "The provider's platform does not serve this API.", unsupportedApi),
  false,
  { received: 404 }
)
const unlisted = failure("status", bad(502, "The provider's platform lists no models.", unsupportedApi), false)

/** Parses an unsuccessful response. */
const parseProviderError = (
  { dialect, readError }: VendorDialect,
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
  const text = body instanceof Uint8Array ? utf8Text(body) : ""
  const said = parsedJson(withoutSecrets(text))
  const error: ProviderError = readError?.(received, said) ?? readErrorIn(dialect, received, said)
  const refused = refusalOfAccount(error, received)
  if (refused !== undefined) return failure("status", refused, false, { headers, received })
  return failure("status", error, false, {
    headers,
    received,
    retryAfterSeconds: retryAfterSeconds(headers, now) ?? error.retryAfterSeconds,
    usage: format?.usageIn(said)
  })
}

/** What a caller gets where the provider refuses the gateway's key, or its account; undefined for any other error. */
export const refusalOfAccount = ({ code, status }: ProviderError, received: number): ProviderError | undefined => {
  if (status === 401 || status === 403) return bad(502, "The provider refuses the gateway's key.", providerCredentials)
  // A caller that receives 402 or a quota error would look for a cap of its own.
  return received === 402 || (received === 429 && unpaidCodes.has(code))
    ? bad(502, "The provider refuses the gateway's account: it is not paid for.", providerCredentials)
    : undefined
}

/** Codes of an empty or closed account; OpenAI sends 429 both for these and for rate limits. */
const unpaidCodes = new Set<string | null>(["insufficient_quota", "billing_not_active"])

/** Quotes in generated text are escaped, so an unescaped match is a member of the response itself. */
const looksLikeError = /"error"\s*:\s*[{"]|"(?:type|object)"\s*:\s*"error"/
const longestHead = 1024

const isBlank = (bytes: Uint8Array): boolean => bytes.length < longestHead && utf8Text(bytes).trim() === ""

/** Whether a response ended before its first byte. */
export const isEmptyAnswer = ({ body }: ProviderAnswer): boolean =>
  body instanceof Uint8Array ? body.length === 0 : body.first.length === 0

/** The error that a provider sent as a complete response with a successful status; undefined for every other response. */
const errorOfSuccess = ({ body }: ProviderAnswer): Json | undefined =>
  body instanceof Uint8Array && looksLikeError.test(utf8Text(body.subarray(0, longestHead)))
    ? errorAlone(parsedJson(utf8Text(body)))
    : undefined

/** An error that came with a successful status, as a response with its own. */
const asRefusal = (answer: ProviderAnswer, error: Json): ProviderAnswer => ({
  ...answer,
  status: statusOf(error.error),
  body: new TextEncoder().encode(JSON.stringify(error))
})

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
export const statusOf = (error: unknown): number => {
  if (!isJson(error)) return 502
  const given = [error.code, error.status].map(statusIn).find((code) => code >= 400 && code < 600)
  const named = [error.code, error.type].flatMap((name) => (typeof name === "string" ? (statuses[name] ?? []) : []))
  return given ?? named[0] ?? 502
}

/** A status as a provider's error tells it, in digits or as a number; NaN for anything else. */
const statusIn = (given: unknown): number =>
  (typeof given === "number" || typeof given === "string") && /^\d{3}$/.test(`${given}`) ? Number(given) : NaN

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
