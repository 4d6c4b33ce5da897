import { Context, Effect, Option } from "effect"
import { type Headers, HttpRouter, type HttpServerRequest, HttpTraceContext } from "effect/http"
import { ParentSpan } from "effect/Tracer"
import { isUtf8 } from "node:buffer"
import { IncomingMessage } from "node:http"
import { isIPv6 } from "node:net"
import { randomBytes } from "../crypto/node-crypto.ts"
import { type Deadline } from "./time-limit.ts"

/**
 * The headers of a request as Node stores them, names in lower case; `request.headers` would copy them for each request.
 */
export const headersOf = (request: HttpServerRequest.HttpServerRequest): Headers.Headers =>
  request.source instanceof IncomingMessage ? (request.source.headers as Headers.Headers) : request.headers

/** What a person wrote in a header, in NFC: Node reads the bytes as Latin-1, and most clients send UTF-8 (RFC 9110 §5.5). */
export const textOfHeader = (value: string): string => {
  if (!/[\x80-\xff]/.test(value)) return value
  const bytes = Buffer.from(value, "latin1")
  return (isUtf8(bytes) ? bytes.toString() : value).normalize("NFC")
}

/** The media type of problems (RFC 9457 §3). */
export const problemJson = "application/problem+json"

const noTypes: ReadonlyArray<string> = []

/** What a request is answered with at its time limit, unless it says what did not end in time. */
export const tookTooLong = "The request took too long and was stopped."

/** What the edge knows of the current request, for audit entries, problems and headers. */
export class RequestInfo {
  readonly requestId: string
  /** Written by the rate limiter, sent by the edge as RateLimit headers. */
  rateLimit: { readonly limit: number; readonly remaining: number; readonly resetSeconds: number } | undefined
  /** Whether the request counts against a rate, or reserved budget, which caps limit. */
  isCounted: boolean
  /** The name of the principal once it is known. */
  principal: string | undefined
  /** The scopes that the operation needs, once the headers of the request are to authenticate its caller. */
  requiredScopes: ReadonlyArray<string> | undefined
  /** Why the caller may not do what it asks for, and what it lacks. */
  forbidden: { readonly detail: string; readonly missing: ReadonlyArray<string> } | undefined
  /** Whether a large answer may be compressed: it has no secret. */
  isCompressible: boolean
  /** Whether browsers visit the route, so that a problem is a page where one is asked for. */
  isForBrowsers: boolean
  /** The media types that the operation takes as a body, once the router has found it. */
  bodyTypes: ReadonlyArray<string>
  /** The time limit of the request, once the edge has set it. */
  deadline: Deadline | undefined
  private readonly request: HttpServerRequest.HttpServerRequest
  private readonly spanTraceId: string | undefined
  private generatedTraceId: string | undefined

  constructor(request: HttpServerRequest.HttpServerRequest, requestId: string, spanTraceId: string | undefined) {
    this.request = request
    this.requestId = requestId
    this.spanTraceId = spanTraceId
    this.rateLimit = undefined
    this.isCounted = false
    this.principal = undefined
    this.requiredScopes = undefined
    this.forbidden = undefined
    this.isCompressible = false
    this.isForBrowsers = false
    this.bodyTypes = noTypes
    this.deadline = undefined
    this.generatedTraceId = undefined
  }

  /** W3C trace id: the exported span's, else the caller's by `traceparent` or B3, else one generated at first use. */
  get traceId(): string {
    return (
      this.spanTraceId ??
      (this.generatedTraceId ??= HttpTraceContext.fromHeaders(headersOf(this.request)).pipe(
        // B3 may send the last 16 digits alone, and does not refuse zeros, which W3C does.
        Option.map(({ traceId }) => traceId.padStart(32, "0")),
        Option.filter((traceId) => /[^0]/.test(traceId)),
        Option.getOrElse(() => Buffer.from(randomBytes(16)).toString("hex"))
      ))
    )
  }

  /** What did not end in time, of a request at its time limit. */
  get late(): string {
    return this.deadline?.missed ?? tookTooLong
  }

  get ipAddress(): string | undefined {
    return Option.getOrUndefined(this.request.remoteAddress)
  }

  /** The address by which callers are counted: of IPv6 the /64 of one subscriber (RFC 6177). */
  get network(): string {
    return networkOf(this.ipAddress ?? "unknown")
  }

  /** Whether only the headers of the answer are sent, and no stream of it is ever read (RFC 9110 §9.3.2). */
  get isHead(): boolean {
    return this.request.method === "HEAD"
  }

  get userAgent(): string | undefined {
    return headersOf(this.request)["user-agent"]
  }

  static make(
    context: Context.Context<never>,
    request: HttpServerRequest.HttpServerRequest,
    requestId: string
  ): RequestInfo {
    const span = Context.getOrUndefined(context, ParentSpan)
    return new RequestInfo(request, requestId, span?.traceId)
  }
}

/** The route's pattern, such as `/api/trial-users/:id`, once the router has found it. */
export const routeOf = (context: Context.Context<never>): string | undefined =>
  Context.getOrUndefined(context, HttpRouter.RouteContext)?.route.path

/** The current request; undefined in background jobs. */
export const CurrentRequest = Context.Reference<RequestInfo | undefined>("app/platform/CurrentRequest", {
  defaultValue: () => undefined
})

/** Marks the current request as one that opened or closed a reservation, and so does not count against its caller's rate. */
export const limitedByCaps = Effect.map(CurrentRequest, (request) => {
  if (request !== undefined) request.isCounted = true
})

/** Marks the answer to the current request as one without secrets, which may be compressed. */
export const compressible = Effect.map(CurrentRequest, (request) => {
  if (request !== undefined) request.isCompressible = true
})

/** An IPv4 address unchanged, an IPv6 address as its first 64 bits. */
export const networkOf = (address: string): string => {
  if (!isIPv6(address)) return address
  const [front = "", back] = address.split("%")[0]?.split("::") ?? []
  const before = front === "" ? [] : front.split(":")
  const after = back === undefined || back === "" ? [] : back.split(":")
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => "0")
  const groups = back === undefined ? before : [...before, ...zeros, ...after]
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":")}::/64`
}
