import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { type Dispatcher } from "@effect/platform-node/Undici"
import { Context, Data, Effect, Layer } from "effect"
import { codesOf, isTlsError } from "./connection-errors.ts"
import { addressRefused, isPrivateHost, makeGuardedDispatcher, publicLookup, refusal } from "./guarded-dispatcher.ts"
import { makeResolve } from "./name-resolution.ts"

export interface OutboundRequest {
  readonly method: "GET" | "POST" | "PUT" | "OPTIONS"
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  /** From the connection to the last byte. */
  readonly timeoutSeconds: number
  /** The rest of a longer response is not read. */
  readonly maxBytes: number
  /** Whether the address may be of a private network. */
  readonly allowPrivate: boolean
}

export interface OutboundResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  /** Whether the response is longer than `maxBytes`. */
  readonly isCut: boolean
}

/** Why there is no response, in words for the administrator who entered the address. */
export class OutboundFailure extends Data.TaggedError("OutboundFailure")<{
  readonly reason: "address" | "certificate" | "timeout" | "connection"
  readonly detail: string
}> {
  override get message() {
    return this.detail
  }
}

const connectTimeoutMillis = 5000
const connections = 64

/** Requests with small answers to addresses that callers or operators name. Redirects are not followed. */
export class OutboundHttp extends Context.Service<
  OutboundHttp,
  { send(request: OutboundRequest): Effect.Effect<OutboundResponse, OutboundFailure> }
>()("app/platform/OutboundHttp") {
  static readonly layer = Layer.effect(
    OutboundHttp,
    Effect.gen(function* () {
      const guarded = yield* makeGuardedDispatcher({ connections, connectTimeoutMillis })
      const open = yield* NodeHttpClient.makeDispatcherOptions({
        connections,
        connect: { timeout: connectTimeoutMillis }
      })
      const send = Effect.fn("OutboundHttp.send")((request: OutboundRequest) =>
        Effect.tryPromise({
          try: (signal) => exchange(request.allowPrivate ? open : guarded, request, signal),
          catch: failureOf
        }).pipe(
          Effect.timeoutOrElse({
            duration: `${request.timeoutSeconds} seconds`,
            orElse: () => Effect.fail(tooLate(`The server did not answer within ${request.timeoutSeconds} seconds`))
          })
        )
      )
      return OutboundHttp.of({ send })
    })
  )
}

const resolvePublic = publicLookup(makeResolve())

/** Fails unless the host of a URL is public by all addresses that it has now; sends nothing. */
export const requirePublic = Effect.fn("OutboundHttp.requirePublic")((url: string) =>
  Effect.callback<void, OutboundFailure>((resume) => {
    const hostname = new URL(url).hostname.replace(/^\[|\]$/g, "")
    if (isPrivateHost(hostname)) return resume(Effect.fail(failureOf(refusal())))
    resolvePublic(hostname, { all: true }, (error) =>
      resume(error === null ? Effect.void : Effect.fail(failureOf(error)))
    )
  }).pipe(
    Effect.timeoutOrElse({
      duration: connectTimeoutMillis,
      orElse: () => Effect.fail(tooLate("The name of the server was not resolved in time"))
    })
  )
)

const tooLate = (detail: string) => new OutboundFailure({ reason: "timeout", detail })

const exchange = async (
  dispatcher: Dispatcher,
  { body, headers, maxBytes, method, url }: OutboundRequest,
  signal: AbortSignal
): Promise<OutboundResponse> => {
  const { origin, pathname, search } = new URL(url)
  const response = await dispatcher.request({
    origin,
    path: pathname + search,
    method,
    headers,
    body: body ?? null,
    signal
  })
  const chunks: Array<Buffer> = []
  let length = 0
  for await (const chunk of response.body as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    length += chunk.length
    if (length > maxBytes) break
  }
  return {
    status: response.statusCode,
    headers: Object.fromEntries(
      Object.entries(response.headers).map(([name, value]) => [
        name,
        Array.isArray(value) ? value.join(", ") : `${value}`
      ])
    ),
    text: Buffer.concat(chunks).subarray(0, maxBytes).toString("utf8"),
    isCut: length > maxBytes
  }
}

const failureOf = (cause: unknown): OutboundFailure => {
  const codes = codesOf(cause)
  if (codes.includes(addressRefused)) {
    return new OutboundFailure({ reason: "address", detail: "The address is not of the public internet" })
  }
  const certificate = codes.find(isTlsError)
  if (certificate !== undefined) {
    return new OutboundFailure({
      reason: "certificate",
      detail: `The server's certificate is not accepted (${certificate})`
    })
  }
  if (codes.includes("UND_ERR_CONNECT_TIMEOUT")) return tooLate("The server did not accept the connection in time")
  const [code] = codes
  return new OutboundFailure({
    reason: "connection",
    detail: `The server cannot be reached, or broke the connection off${code === undefined ? "" : ` (${code})`}`
  })
}
