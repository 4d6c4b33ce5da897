import { Cause, Duration, Effect, Option, Predicate, Pull, Redacted, Schema, Stream } from "effect"
import { HttpBody, HttpClient, type HttpClientError, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { type Dialect } from "../../compat/domain.ts"
import { type DialectError, readError } from "../../compat/errors.ts"
import { type Bytes, type Operation, type Provider, ProviderFailure, type ProviderModel } from "./provider.ts"

/** What a client of a vendor's service is made of. */
export interface HttpProviderOptions {
  readonly id: string
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted<string> | undefined
  readonly headers: Readonly<Record<string, string>>
  /** Seconds until the first byte of an answer, and between any two. */
  readonly timeoutSeconds: number
}

/** In which a vendor's service differs from others. */
export interface Vendor {
  readonly dialect: Dialect
  readonly paths: Readonly<Partial<Record<Operation, string>>>
  readonly modelsPath: string
  authorize(apiKey: string): Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>
}

/** No error page is read beyond this. */
const mostErrorBytes = 65_536
const mostModelsBytes = 4_194_304

/** Failures of a connection that was never there, so that nothing was sent. */
const unsent = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
  "UND_ERR_CONNECT_TIMEOUT",
  "ERR_ADDRESS_REFUSED"
])

const failure = (
  reason: ProviderFailure["reason"],
  error: DialectError,
  sent: boolean,
  answer: { readonly received?: number; readonly retryAfterSeconds?: number | undefined } = {}
) => new ProviderFailure({ reason, error, sent, ...answer })

const bad = (status: number, message: string, code: string): DialectError => ({ status, message, code })

const codesOf = (cause: unknown): ReadonlyArray<unknown> => {
  if (!Predicate.isObject(cause)) return []
  const nested = Predicate.hasProperty(cause, "errors") && Array.isArray(cause.errors) ? cause.errors : []
  const own = Predicate.hasProperty(cause, "code") ? [cause.code] : []
  const below = Predicate.hasProperty(cause, "cause") ? codesOf(cause.cause) : []
  return [...own, ...nested.flatMap(codesOf), ...below]
}

const fromTransport = (error: HttpClientError.HttpClientError): ProviderFailure => {
  const codes = codesOf(error.reason)
  const isTls = codes.some((code) => typeof code === "string" && /CERT|ERR_TLS|ERR_SSL/.test(code))
  if (codes.includes("ERR_ADDRESS_REFUSED")) {
    return failure("connection", bad(502, "The address is none of the public internet.", "address-refused"), false)
  }
  return isTls || codes.some((code) => typeof code === "string" && unsent.has(code))
    ? failure("connection", bad(502, "The provider cannot be reached.", "provider-unavailable"), false)
    : failure("broken-off", bad(502, "The provider broke the connection off.", "provider-unavailable"), true)
}

const timedOut = failure("timeout", bad(504, "The provider did not answer in time.", "provider-timeout"), true)

const ModelList = Schema.Struct({
  data: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      owned_by: Schema.optionalKey(Schema.NullOr(Schema.String)),
      created: Schema.optionalKey(Schema.NullOr(Schema.Finite)),
      created_at: Schema.optionalKey(Schema.NullOr(Schema.String))
    })
  )
})
const decodeModels = Schema.decodeUnknownOption(Schema.fromJsonString(ModelList))

/** A vendor's service, spoken to over HTTP. No redirect is followed. */
export const makeHttpProvider = (
  client: HttpClient.HttpClient,
  vendor: Vendor,
  { apiKey, baseUrl, headers, id, timeoutSeconds }: HttpProviderOptions
): Provider => {
  const base = baseUrl.replace(/\/+$/, "")
  const scoped = HttpClient.withScope(client)
  const fixed = { ...headers, ...(apiKey === undefined ? {} : vendor.authorize(Redacted.value(apiKey))) }
  const patience = Duration.seconds(timeoutSeconds)
  const inTime = Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.fail(timedOut) })

  const execute = (request: HttpClientRequest.HttpClientRequest) =>
    scoped.execute(request).pipe(
      // Vendors are told nothing of the trace, and the attempt has a span of its own.
      Effect.provideService(HttpClient.TracerDisabledWhen, () => true),
      Effect.mapError(fromTransport),
      inTime
    )

  const opened = (response: HttpClientResponse.HttpClientResponse) =>
    Effect.map(Stream.toPull(Stream.mapError(response.stream, fromTransport)), (pull): Bytes => inTime(pull))

  /** The whole body, or as much of it as `most` bytes. */
  const readAll = Effect.fnUntraced(function* (response: HttpClientResponse.HttpClientResponse, most: number) {
    const rest = yield* opened(response)
    const chunks: Array<Uint8Array> = []
    let length = 0
    while (length < most) {
      const read = yield* Pull.catchDone(rest, () => Effect.succeed(undefined))
      if (read === undefined) break
      for (const chunk of read) {
        chunks.push(chunk)
        length += chunk.length
      }
    }
    return Buffer.concat(chunks)
  })

  const refusal = Effect.fnUntraced(function* (response: HttpClientResponse.HttpClientResponse) {
    const bytes = yield* Effect.orElseSucceed(readAll(response, mostErrorBytes), () => Buffer.alloc(0))
    const { status: received } = response
    // A redirect would lead where nobody checked; an error of the credentials is the gateway's, not the caller's.
    if (received < 400) {
      return failure("status", bad(502, "The provider answered with a redirect.", "provider-error"), false, {
        received
      })
    }
    if (received === 401 || received === 403) {
      const refused = bad(502, "The provider refuses the gateway's key.", "provider-credentials")
      return failure("status", refused, false, { received })
    }
    const error = readError(received, jsonOf(bytes.toString("utf8")))
    const waitSeconds = retryAfterSeconds(response.headers["retry-after"])
    return failure("status", error, false, { received, retryAfterSeconds: waitSeconds })
  })

  const answered = (request: HttpClientRequest.HttpClientRequest) =>
    Effect.flatMap(execute(request), (response) =>
      response.status >= 200 && response.status < 300
        ? Effect.succeed(response)
        : Effect.flatMap(refusal(response), (refused) => Effect.fail(refused))
    )

  const send: Provider["send"] = Effect.fnUntraced(function* ({ body: sent, headers: passed, operation }) {
    const path = vendor.paths[operation]
    if (path === undefined) {
      return yield* failure("status", bad(400, `The provider ${id} has no such operation.`, "unsupported"), false)
    }
    const request = HttpClientRequest.post(`${base}${path}`, {
      headers: { ...vendor.headers, ...passed, ...fixed },
      body:
        typeof sent === "string"
          ? HttpBody.text(sent, "application/json")
          : HttpBody.uint8Array(sent, "application/json")
    })
    const response = yield* answered(request)
    const { headers: received, status } = response
    if (!/^text\/event-stream\b/i.test(received["content-type"] ?? "")) {
      return { status, headers: received, body: new Uint8Array(yield* Effect.timeoutOrElse(whole(response), slow)) }
    }
    const rest = yield* opened(response)
    const first = yield* Pull.catchDone(rest, () => Effect.succeed(undefined))
    const body = first === undefined ? { first: [], rest: Cause.done() } : { first, rest }
    return { status, headers: received, body }
  })

  const slow = { duration: patience, orElse: () => Effect.fail(timedOut) }

  const listModels = Effect.gen(function* () {
    const response = yield* answered(
      HttpClientRequest.get(`${base}${vendor.modelsPath}`, { headers: { ...vendor.headers, ...fixed } })
    )
    const bytes = yield* readAll(response, mostModelsBytes)
    const listed = decodeModels(bytes.toString("utf8"))
    if (Option.isNone(listed)) {
      return yield* failure(
        "status",
        bad(502, "The provider's list of models cannot be read.", "provider-error"),
        false
      )
    }
    return listed.value.data.map((model): ProviderModel => ({
      id: model.id,
      ownedBy: model.owned_by ?? null,
      createdAt: dateOf(model.created ?? model.created_at ?? null)
    }))
  }).pipe(Effect.scoped)

  return { id, dialect: vendor.dialect, send, listModels }
}

const whole = (response: HttpClientResponse.HttpClientResponse) => Effect.mapError(response.arrayBuffer, fromTransport)

const jsonOf = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Whole seconds; a date, which vendors do not send, is read over. */
const retryAfterSeconds = (header: string | undefined): number | undefined =>
  header !== undefined && /^\d{1,6}(?:\.\d+)?$/.test(header) ? Math.ceil(Number(header)) : undefined

const dateOf = (value: number | string | null): Date | null => {
  if (value === null) return null
  const date = new Date(typeof value === "number" ? value * 1000 : value)
  return Number.isNaN(date.getTime()) ? null : date
}
