import { type Cause, Clock, Context, Effect, type Fiber, Layer, LogLevel, Tracer } from "effect"
import { SecureRandom } from "effect/crypto"
import { Headers, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { IncomingMessage } from "node:http"
import { anonymous } from "../../kernel/authority/principal.ts"
import { challengeOf } from "../../kernel/http/challenge.ts"
import { readExact } from "../../kernel/json/exact-number.ts"
import { problemType, statusPhrase } from "../../kernel/problems/problem.ts"
import { BadRequest, InternalError, PayloadTooLarge, UnsupportedMediaType } from "../../kernel/problems/problems.ts"
import * as Metrics from "../observability/metrics.ts"
import { Settings, type SettingsValues } from "../settings/settings.ts"
import { makeAllowedMethods } from "./allowed-methods.ts"
import { makeCompression } from "./compression.ts"
import { isClientAbort, isRouteNotFound, type ProblemBody, problemOf } from "./failures.ts"
import { asPage } from "./html-page.ts"
import { InFlight, Shutdown } from "./in-flight.ts"
import { securityHeaders } from "./negotiation.ts"
import { isEncoded } from "./request-body.ts"
import { CurrentRequest, headersOf, problemJson, RequestInfo, routeOf } from "./request.ts"

type Response = HttpServerResponse.HttpServerResponse

const nanosPerSecond = 1e9

/** Whether a request presents a bearer token as its credential; a key counts before it. */
const presentsToken = (request: HttpServerRequest.HttpServerRequest): boolean => {
  const { authorization = "", "x-api-key": key = "" } = headersOf(request)
  return key === "" && /^bearer +\S/i.test(authorization)
}

/**
 * Adds the schemes by which a caller is authenticated, and what is wrong with the token that it presented, to what refuses
 * it; neither scheme makes a browser prompt for a password. The error is the same for each token that is not valid.
 */
const challenged = (
  response: Response,
  request: HttpServerRequest.HttpServerRequest,
  { forbidden, requiredScopes }: RequestInfo,
  publicUrl: string
): Response => {
  const isForbidden = response.status === 403 && forbidden !== undefined
  if ((response.status !== 401 && !isForbidden) || response.headers["www-authenticate"] !== undefined) return response
  const missing = isForbidden ? forbidden.missing : undefined
  const needed = missing?.length === 0 ? [] : [...(requiredScopes ?? []), ...(missing ?? [])]
  const isAtFault = requiredScopes !== undefined && presentsToken(request)
  const bearer = challengeOf("Bearer", {
    resourceMetadata: `${publicUrl}/.well-known/oauth-protected-resource/${/^\/v1(?:[/?]|$)/.test(request.url) ? "v1" : "api"}`,
    error: isAtFault ? (isForbidden ? "insufficient_scope" : "invalid_token") : undefined,
    description: isForbidden ? forbidden.detail : "The token is not accepted.",
    scopes: [...new Set(needed)]
  })
  return HttpServerResponse.setHeader(response, "www-authenticate", `${bearer}, ${challengeOf("ApiKey")}`)
}

/** Adds to a refusal of a body what is taken in its place (RFC 9110 §15.5.16, RFC 5789 §2.2). */
const withTaken = (
  response: Response,
  request: HttpServerRequest.HttpServerRequest,
  { bodyTypes }: RequestInfo
): Response => {
  if (response.status !== 415) return response
  if (isEncoded(headersOf(request))) return HttpServerResponse.setHeader(response, "accept-encoding", "identity")
  if (bodyTypes.length === 0) return response
  const types = bodyTypes.join(", ")
  return HttpServerResponse.setHeaders(response, {
    accept: types,
    ...(request.method === "PATCH" ? { "accept-patch": types } : {})
  })
}

const rendered = (problem: ProblemBody, info: RequestInfo, headers: Record<string, string> = {}): Response => {
  const { detail, status, title, type, ...extensions } = problem
  return HttpServerResponse.text(
    JSON.stringify({ type, title, status, detail, ...extensions, traceId: info.traceId }),
    {
      status,
      contentType: problemJson,
      headers: {
        ...headers,
        ...(status === 429 || status === 503 ? { "retry-after": String(problem.retryAfterSeconds ?? 2) } : {}),
        "content-type": problemJson
      }
    }
  )
}

const problemOfStatus = (status: number, { bodyTypes }: RequestInfo): ProblemBody => {
  if (status === 413) return { ...new PayloadTooLarge({}) }
  if (status === 415) {
    const detail = `The operation does not accept this Content-Type; send Content-Type: ${bodyTypes.join(" or ")}.`
    return { ...new UnsupportedMediaType(bodyTypes.length === 0 ? {} : { detail }) }
  }
  const title = statusPhrase(status)
  return { type: problemType("http-error"), title, status, detail: title }
}

/** Turns every response of 400 and above into a problem; dialects with their own errors set their own media type. */
const toProblem = (response: Response, info: RequestInfo): Response => {
  const body = response.body
  if (body._tag === "Empty" || (body._tag === "Uint8Array" && body.contentType.startsWith("text/plain"))) {
    return rendered(problemOfStatus(response.status, info), info, { ...response.headers })
  }
  if (body._tag !== "Uint8Array" || body.contentType !== problemJson || body.text === undefined) return response
  const problem = readExact(body.text) as ProblemBody
  if (isForbidden(problem)) info.forbidden = problem
  return rendered(problem, info, { ...response.headers })
}

const forbiddenType: string = problemType("forbidden")

const isForbidden = (problem: ProblemBody): problem is ProblemBody & NonNullable<RequestInfo["forbidden"]> =>
  problem.type === forbiddenType

const headersPrototype: object = Object.getPrototypeOf(Headers.empty)

type Writable<A> = { -readonly [K in keyof A]: A[K] }

// `HttpServerResponse.setHeaders` copies all headers four times, which took a fortieth of the time of a small response.
const withHeaders = (response: Response, info: RequestInfo, always: Readonly<Record<string, string>>): Response => {
  const headers: Writable<Headers.Headers> = Object.create(headersPrototype)
  for (const name in always) headers[name] = always[name]!
  for (const name in response.headers) headers[name] = response.headers[name]!
  headers["x-request-id"] = info.requestId
  const limit = info.rateLimit
  if (limit !== undefined) {
    headers["ratelimit-policy"] = `"principal";q=${limit.limit};w=60`
    headers.ratelimit = `"principal";r=${limit.remaining};t=${limit.resetSeconds}`
  }
  const answer: Writable<Response> = Object.create(Object.getPrototypeOf(response))
  answer.status = response.status
  answer.statusText = response.statusText
  answer.cookies = response.cookies
  answer.body = response.body
  answer.headers = headers
  return answer
}

const wellFormedRequestId = /^[A-Za-z0-9._-]{1,128}$/

/** Whether a stream answers a GET that came with a body: unread, that would stand in the way of the next request. */
const leavesBody = (request: HttpServerRequest.HttpServerRequest, { body }: Response): boolean =>
  body._tag === "Stream" && request.method === "GET" && Number(headersOf(request)["content-length"] ?? 0) > 0

/** What a request says that no part of the service could read; undefined when it can be. */
const malformed = (request: HttpServerRequest.HttpServerRequest): ProblemBody | undefined => {
  if (!isDecodable(request.url)) {
    return { ...new BadRequest({ detail: "The URL has a percent-encoding that is not UTF-8." }) }
  }
  if (hasSemicolon(request.url)) {
    return { ...new BadRequest({ detail: "The path has a semicolon; as a part of a name it is written as %3B." }) }
  }
  const hosts = hostCount(request.source)
  if (hosts > 1) return { ...new BadRequest({ detail: "The request has more than one Host header." }) }
  return hosts === 0 && isHttp11(request.source)
    ? { ...new BadRequest({ detail: "The request has no Host header." }) }
    : undefined
}

/** Whether a path has a semicolon (RFC 3986 §3.3), behind which the router would look for the query. */
const hasSemicolon = (url: string): boolean => {
  const at = url.indexOf(";")
  return at >= 0 && !url.slice(0, at).includes("?")
}

/** The number of Host header lines: a second one may smuggle a request past a proxy (RFC 9112 §3.2). */
const hostCount = (source: object): number => {
  if (!(source instanceof IncomingMessage)) return 1
  const lines = source.rawHeaders
  let count = 0
  for (let index = 0; index < lines.length; index += 2) {
    const name = lines[index]!
    if (name.length === 4 && name.toLowerCase() === "host") count += 1
  }
  return count
}

/** Whether every percent-encoding of a URL is UTF-8 (RFC 3986 §2.5); the router would replace any other. */
const isDecodable = (url: string): boolean => {
  if (!url.includes("%")) return true
  try {
    decodeURIComponent(url)
    return true
  } catch {
    return false
  }
}

const isHttp11 = (source: object): boolean => "httpVersion" in source && source.httpVersion === "1.1"

const onFailure = (cause: Cause.Cause<unknown>, info: RequestInfo, route: string | undefined) => {
  const problem = problemOf(cause, info.late)
  if (problem !== undefined) return Effect.succeed(rendered(problem, info))
  return Effect.logError("The request failed", cause).pipe(
    Effect.annotateLogs({ requestId: info.requestId, traceId: info.traceId, route }),
    Effect.as(rendered({ ...new InternalError({}) }, info))
  )
}

/** Notes the route as the router does with those that it finds. */
const enterRoute = (fiber: Fiber.Fiber<unknown, unknown>, context: HttpRouter.RouteContext["Service"]): void => {
  const span = Context.getOrUndefined(fiber.context, Tracer.ParentSpan)
  if (span?._tag === "Span" && span.sampled) span.attribute("http.route", context.route.path)
  fiber.setContext(Context.add(fiber.context, HttpRouter.RouteContext, context))
}

/** Logs an answered request; of a stream, when its head is sent. Undefined where no line of it would be written. */
const makeRequestLog = ({ level, requests }: SettingsValues["logging"]) => {
  const severity = requests ? "Info" : "Debug"
  if (!LogLevel.isLessThanOrEqualTo(level, severity)) return undefined
  return (
    context: Context.Context<never>,
    method: string,
    info: RequestInfo,
    status: number,
    seconds: number
  ): void => {
    const route = routeOf(context)
    Effect.logWithLevel(severity)(`${method} ${route ?? "(no route)"} ${status}`).pipe(
      Effect.annotateLogs({
        method,
        route,
        status,
        durationMs: Math.round(seconds * 1e6) / 1e3,
        principal: info.principal ?? anonymous.name,
        requestId: info.requestId,
        traceId: info.traceId
      }),
      Effect.runSyncWith(context)
    )
  }
}

/** The outermost middleware of every request: its id, its limits, security headers, and a problem for every failure. */
export const edgeLayer = Layer.unwrap(
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const inFlight = yield* InFlight
    const shutdown = yield* Shutdown
    const random = yield* SecureRandom.SecureRandom
    const allowedMethods = yield* makeAllowedMethods
    const compress = yield* makeCompression
    const { api, logging } = yield* Settings
    const logRequest = makeRequestLog(logging)
    const instance = Buffer.from(yield* random.randomBytes(9)).toString("base64url")
    const always = securityHeaders(api.publicUrl)
    let served = 0

    const refusal = (response: Response, request: HttpServerRequest.HttpServerRequest, info: RequestInfo) => {
      const { publicUrl } = api
      const problem = challenged(toProblem(response, info), request, info, publicUrl)
      return asPage(withTaken(problem, request, info), request, info, publicUrl)
    }

    const requestIdOf = (given: string | undefined) =>
      given !== undefined && wellFormedRequestId.test(given) ? given : `${instance}-${(served++).toString(36)}`

    return HttpRouter.middleware(
      (httpEffect) =>
        Effect.withFiber((fiber) => {
          const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
          const startedAt = clock.currentTimeNanosUnsafe()
          const info = RequestInfo.make(fiber.context, request, requestIdOf(headersOf(request)["x-request-id"]))
          const active = inFlight.enter(fiber)
          info.deadline = active
          Metrics.requestStarted()
          const recordEnd = (status: number) => {
            active.leave()
            Metrics.requestEnded()
            const seconds = Number(clock.currentTimeNanosUnsafe() - startedAt) / nanosPerSecond
            Metrics.recordRequest(request.method, routeOf(fiber.context), status, seconds)
            if (logRequest !== undefined) logRequest(fiber.context, request.method, info, status, seconds)
          }
          const finish = (response: Response): Response => {
            recordEnd(response.status)
            const final = withHeaders(
              response.status >= 400 ? refusal(response, request, info) : response,
              info,
              always
            )
            // The server stops with its last connection, and a client would keep its own for the next request.
            const isLast = shutdown.isDrainingUnsafe() || leavesBody(request, final)
            return isLast ? HttpServerResponse.setHeader(final, "connection", "close") : final
          }
          const fault = malformed(request)
          if (fault !== undefined) return Effect.succeed(finish(rendered(fault, info)))
          return httpEffect.pipe(
            Effect.matchCauseEffect({
              onSuccess: (response) => {
                const compressed = info.isCompressible ? compress(response, request) : undefined
                return compressed === undefined ? Effect.succeed(finish(response)) : Effect.map(compressed, finish)
              },
              onFailure: (cause) => {
                const other = isRouteNotFound(cause) ? allowedMethods(request) : undefined
                if (other !== undefined) {
                  enterRoute(fiber, other.context)
                  return Effect.succeed(finish(other.answer))
                }
                if (!isClientAbort(cause)) return Effect.map(onFailure(cause, info, routeOf(fiber.context)), finish)
                recordEnd(499)
                return Effect.failCause(cause)
              }
            }),
            // Outside of what ends the request: within, the fiber's context still has the route that the router found.
            Effect.provideService(CurrentRequest, info)
          )
        }),
      { global: true }
    )
  })
)
