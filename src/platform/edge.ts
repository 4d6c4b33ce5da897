import { ByteSize, type Cause, Clock, Context, Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpIncomingMessage, HttpRouter, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { SqlError } from "effect/sql"
import { problemType, statusPhrase } from "../kernel/problem.ts"
import {
  BadRequest,
  InternalError,
  Overloaded,
  PayloadTooLarge,
  RouteNotFound,
  UnsupportedMediaType
} from "../kernel/problems.ts"
import { InFlight } from "./in-flight.ts"
import { CurrentRequest, RequestInfo } from "./request.ts"

type Response = HttpServerResponse.HttpServerResponse

const problemJson = "application/problem+json"

/** A problem as any layer may answer it, in the form that the edge completes: `traceId` and its headers. */
interface ProblemBody {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail?: string
  readonly retryAfterSeconds?: number
}

const bodyOfStatus = (status: number, detail: string): ProblemBody => ({
  type: status === 415 ? new UnsupportedMediaType({}).type : problemType("http-error"),
  title: statusPhrase(status),
  status,
  detail
})

const complete = (response: Response, body: ProblemBody, info: RequestInfo): Response => {
  const headers: Record<string, string> = {}
  if (response.status === 401) headers["www-authenticate"] = `ApiKey realm="application-manager", Bearer`
  if (response.status === 429 || response.status === 503) headers["retry-after"] = String(body.retryAfterSeconds ?? 2)
  const { detail, status, title, type, ...extensions } = body
  return HttpServerResponse.text(JSON.stringify({ type, title, status, detail, ...extensions, traceId: info.traceId }), {
    status: response.status,
    contentType: problemJson,
    headers: { ...response.headers, ...headers, "content-type": problemJson }
  })
}

/** Gives every answer of 400 and above its final form; the dialects that must speak another one set their own type. */
const toProblem = (response: Response, info: RequestInfo): Response => {
  const body = response.body
  if (body._tag === "Empty" || (body._tag === "Uint8Array" && body.contentType.startsWith("text/plain"))) {
    return complete(response, bodyOfStatus(response.status, statusPhrase(response.status)), info)
  }
  if (body._tag !== "Uint8Array" || body.contentType !== problemJson || body.text === undefined) return response
  return complete(response, JSON.parse(body.text) as ProblemBody, info)
}

type Problem = { readonly status: number; readonly detail?: string }

/** What a failure that no handler declared means to the caller; undefined when nothing is wrong on our side. */
const declaredCause = (cause: Cause.Cause<unknown>): Problem | undefined => {
  for (const reason of cause.reasons) {
    const error = reason._tag === "Fail" ? reason.error : reason._tag === "Die" ? reason.defect : undefined
    if (HttpServerError.isHttpServerError(error)) {
      switch (error.reason._tag) {
        case "RouteNotFound":
          return new RouteNotFound({})
        case "RequestParseError":
          return error.reason.reason === "BodyTooLarge" ? new PayloadTooLarge({}) : new BadRequest({})
        case "InternalError":
        case "ResponseError":
          return undefined
      }
    }
    if (SqlError.isSqlError(error) && (error.isRetryable || error.reason._tag === "ConnectionError")) {
      return new Overloaded({ detail: "The database cannot be reached now, or is busy; nothing was changed." })
    }
    if (reason._tag === "Interrupt") return new Overloaded({ detail: "The request took too long and was stopped." })
  }
  return undefined
}

const isClientAbort = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some(
    (reason) => reason._tag === "Interrupt" && reason.annotations.has(HttpServerError.ClientAbort.key)
  )

const safeHeaders = {
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-store"
} as const

const withHeaders = (response: Response, info: RequestInfo): Response => {
  const headers: Record<string, string> = { ...safeHeaders, "x-request-id": info.requestId }
  const limit = info.rateLimit
  if (limit !== undefined) {
    headers["ratelimit-policy"] = `"principal";q=${limit.limit};w=60`
    headers.ratelimit = `"principal";r=${limit.remaining};t=${limit.resetSeconds}`
  }
  return HttpServerResponse.setHeaders(response, { ...headers, ...response.headers })
}

const wellFormedRequestId = /^[A-Za-z0-9._-]{1,128}$/

export interface EdgeOptions {
  readonly maxBodyBytes: number
  /** Told of every answer: method, route pattern, status, seconds. */
  readonly onResponse: (method: string, route: string | undefined, status: number, durationSeconds: number) => void
}

/** The outermost shell of every request: its id, its limits, safe headers, and a problem for whatever goes wrong. */
export const edgeLayer = (options: EdgeOptions) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const random = yield* SecureRandom.SecureRandom
      const inFlight = yield* InFlight
      const instance = Buffer.from(yield* random.randomBytes(9)).toString("base64url")
      const maxBodySize = ByteSize.bytes(options.maxBodyBytes)
      let served = 0

      const onFailure = (cause: Cause.Cause<unknown>, info: RequestInfo) => {
        if (isClientAbort(cause)) return Effect.failCause(cause)
        const problem = declaredCause(cause)
        if (problem !== undefined) return Effect.succeed(respond(problem, info))
        return Effect.as(
          Effect.annotateLogs(Effect.logError("The request failed", cause), {
            requestId: info.requestId,
            traceId: info.traceId,
            route: info.route
          }),
          respond(new InternalError({}), info)
        )
      }
      const respond = (problem: Problem, info: RequestInfo) =>
        complete(HttpServerResponse.empty({ status: problem.status }), { ...problem } as ProblemBody, info)

      return HttpRouter.middleware(
        (httpEffect) =>
          Effect.withFiber((fiber) => {
            const request = Context.getUnsafe(
              fiber.context as Context.Context<HttpServerRequest.HttpServerRequest>,
              HttpServerRequest.HttpServerRequest
            )
            const given = request.headers["x-request-id"]
            const requestId =
              given !== undefined && wellFormedRequestId.test(given) ? given : `${instance}-${(served++).toString(36)}`
            const startedAt = clock.currentTimeMillisUnsafe()
            const info = RequestInfo.make(fiber.context, request, requestId, startedAt)
            const release = inFlight.enter(fiber, startedAt)
            const finish = (response: Response): Response => {
              release()
              const finished = withHeaders(response.status >= 400 ? toProblem(response, info) : response, info)
              options.onResponse(
                request.method,
                info.route,
                response.status,
                (clock.currentTimeMillisUnsafe() - startedAt) / 1000
              )
              return finished
            }
            return Effect.provideContext(
              httpEffect,
              Context.make(CurrentRequest, info).pipe(Context.add(HttpIncomingMessage.MaxBodySize, maxBodySize))
            ).pipe(
              Effect.matchCauseEffect({
                onSuccess: (response) => Effect.succeed(finish(response)),
                onFailure: (cause) =>
                  Effect.map(onFailure(cause, info), finish).pipe(Effect.tapCause(() => Effect.sync(release)))
              })
            )
          }),
        { global: true }
      )
    })
  )
