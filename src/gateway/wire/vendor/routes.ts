import { ByteSize, Cause, Clock, Context, Effect, Layer, type Scope } from "effect"
import { HttpIncomingMessage, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { CurrentPrincipal } from "../../../kernel/principal.ts"
import { type Dialect } from "../../translation/domain.ts"
import { errorBody, statusIn } from "../../translation/errors.ts"
import { type Quota, quotaHeaders } from "../../translation/quota-headers.ts"
import { type Capability } from "../../../kernel/capability.ts"
import { InternalError } from "../../../kernel/problems.ts"
import { problemOf } from "../../../platform/http/failures.ts"
import { CurrentRequest, headersOf, type RequestInfo } from "../../../platform/http/request.ts"
import { bytesOf, declaresMoreThan } from "../../../platform/http/request-body.ts"
import { Settings } from "../../../platform/settings/settings.ts"
import { GatewayAuthentication, type GatewayCaller } from "../../authentication/gateway-authentication.ts"
import { type CallAnswer } from "../../pipeline/call-answers.ts"
import { type Call, Calls } from "../../pipeline/call-pipeline.ts"
import { type Operation } from "../../providers/provider.ts"
import { type GatewayError, refused, retryAfter } from "../../errors/gateway-error.ts"
import { repeatedMember } from "../../json/repeated-members.ts"
import { MessageCounts } from "../../pipeline/message-counts.ts"
import { isJson, parsedJson } from "../../../kernel/parsed-json.ts"
import { isUtf8 } from "node:buffer"

/** An address of the compatibility endpoints. */
interface Route {
  readonly path: `/${string}`
  readonly dialect: Dialect
  readonly operation: Operation
  readonly capability: Capability
}

export const gatewayRoutes: readonly [Route, ...ReadonlyArray<Route>] = [
  { path: "/v1/chat/completions", dialect: "openai", operation: "chat", capability: "llm:complete" },
  { path: "/v1/embeddings", dialect: "openai", operation: "embed", capability: "llm:embed" },
  { path: "/v1/messages", dialect: "anthropic", operation: "chat", capability: "llm:complete" },
  { path: "/v1/messages/count_tokens", dialect: "anthropic", operation: "count-tokens", capability: "llm:complete" }
]

const tooLarge = refused(413, "request_too_large", "The body is larger than the gateway takes.")
const notJson = refused(400, "invalid_json", "The body is no JSON object.")

const decoder = new TextDecoder()

const readBody = (
  request: HttpServerRequest.HttpServerRequest,
  most: number
): Effect.Effect<Pick<Call, "body" | "bytes">, GatewayError> => {
  if (declaresMoreThan(headersOf(request), most)) return tooLarge
  return Effect.matchEffect(bytesOf(request), {
    onFailure: () => tooLarge,
    onSuccess: (bytes) => {
      const body = isUtf8(bytes) ? parsedJson(decoder.decode(bytes)) : undefined
      if (!isJson(body)) return notJson
      const repeated = repeatedMember(bytes)
      return repeated === undefined
        ? Effect.succeed({ body, bytes })
        : refused(400, "invalid_json", `${repeated}: The member is there twice`, {}, repeated)
    }
  })
}

/** Whether a caller wishes the response cache to answer, in a header, since bodies are the vendors'. */
const cacheAsked = (header: string | undefined): boolean | undefined =>
  header === "true" ? true : header === "false" ? false : undefined

const repeatableAt = (path: string, key: string | undefined) =>
  key === undefined ? undefined : { route: `POST ${path}`, key }

/** What a provider may see of the caller's headers; its credentials, cookies and own words are none of it. */
const forwardedRequestHeaders = (headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> => {
  const passed: Record<string, string> = {}
  for (const name in headers) {
    if (name === "user-agent" || name === "accept" || name.startsWith("anthropic-") || name.startsWith("openai-")) {
      passed[name] = headers[name]!
    }
  }
  return passed
}

const errorAnswer = (
  dialect: Dialect,
  { error, headers = {} }: GatewayError,
  requestId: string,
  limits: Readonly<Record<string, string>> = {}
) =>
  HttpServerResponse.text(JSON.stringify(errorBody(dialect, error, requestId)), {
    status: statusIn(dialect, error.status),
    contentType: "application/json",
    headers: { ...headers, ...limits, "request-id": requestId }
  })

/** The limit of requests without a valid credential, where it was asked for; no other is written down here. */
const addressQuota = (info: RequestInfo | undefined, now: number): Quota | undefined => {
  if (info?.rateLimit === undefined) return undefined
  const { limit, remaining, resetSeconds } = info.rateLimit
  return { unit: "requests", limit: BigInt(limit), remaining: BigInt(remaining), resetsAt: now + resetSeconds * 1000 }
}

const answerOf = ({ body, headers, status }: Omit<CallAnswer, "report">, requestId: string) => {
  const answer =
    body instanceof Uint8Array
      ? HttpServerResponse.uint8Array(body, { status, contentType: "application/json" })
      : HttpServerResponse.stream(body, { status, contentType: "text/event-stream" })
  // Handed over with the rest, they would be copied twice; these are nobody else's.
  Object.assign(answer.headers, headers, { "request-id": requestId })
  return answer
}

/** Serves a route, and every failure in the form that clients of its dialect read. */
export const serve = <E>(
  path: string,
  dialectOf: (request: HttpServerRequest.HttpServerRequest) => Dialect,
  work: (
    request: HttpServerRequest.HttpServerRequest,
    requestId: string
  ) => Effect.Effect<HttpServerResponse.HttpServerResponse, GatewayError, E>
) =>
  Effect.withFiber((fiber) => {
    const info = Context.get(fiber.context, CurrentRequest)
    const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
    const requestId = info?.requestId ?? ""
    if (info !== undefined) {
      info.route = path
      // Providers take their time, and have one of their own.
      info.untimed()
    }
    return Effect.catchDefect(work(request, requestId), broken).pipe(
      Effect.catch((refusal) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          const quota = refusal.error.status === 429 ? (refusal.quota ?? addressQuota(info, now)) : undefined
          return errorAnswer(
            dialectOf(request),
            refusal,
            requestId,
            quota && quotaHeaders(dialectOf(request), quota, now)
          )
        })
      )
    )
  })

/** What nobody foresaw, in the words of the SDK that asked. */
const broken = (defect: unknown) => {
  const known = problemOf(Cause.die(defect))
  if (known !== undefined) {
    const waits = known.status === 503 ? retryAfter(known.retryAfterSeconds ?? 1) : {}
    return Effect.fail(refused(known.status, "overloaded", known.detail ?? known.title, waits))
  }
  const { detail, status } = new InternalError({})
  return Effect.andThen(
    Effect.logError("A call of the gateway failed", defect),
    Effect.fail(refused(status, "internal_error", detail))
  )
}

const unknownPath = refused(404, "unknown_url", "The gateway serves nothing at this path.")

const allowedAt = (url: string): string | undefined => {
  const [path = ""] = url.split("?")
  if (gatewayRoutes.some((route) => route.path === path)) return "POST, OPTIONS"
  return path === "/v1/models" || path.startsWith("/v1/models/") ? "GET, HEAD, OPTIONS" : undefined
}

/** What is left: methods that a path does not have, and paths that are not there. */
const notServed = ({
  method,
  url
}: HttpServerRequest.HttpServerRequest): Effect.Effect<HttpServerResponse.HttpServerResponse, GatewayError> => {
  const allow = allowedAt(url)
  if (allow === undefined) return unknownPath
  return method === "OPTIONS"
    ? Effect.succeed(HttpServerResponse.empty({ status: 204, headers: { allow } }))
    : refused(405, "method_not_allowed", `The gateway does not serve ${method} at this path.`, { allow })
}

/** Other paths of the vendors: their SDKs read no problem, and would say that the answer had no body. */
const unknownPaths = HttpRouter.add(
  "*",
  "/v1/*",
  serve("/v1/*", ({ headers, url }) => (asksAnthropic(url, headers) ? "anthropic" : "openai"), notServed)
)

const asksAnthropic = (url: string, headers: Readonly<Record<string, string | undefined>>): boolean =>
  url.startsWith("/v1/messages") || headers["anthropic-version"] !== undefined

/** `/v1/*`: the gateway as the SDKs of OpenAI and Anthropic speak it, errors included. */
export const GatewayWireLayer = Layer.unwrap(
  Effect.gen(function* () {
    const authentication = yield* GatewayAuthentication
    const calls = yield* Calls
    const counts = yield* MessageCounts
    const { maxBodyBytes } = (yield* Settings).llm.gateway

    const post = ({ capability, dialect, operation, path }: Route) =>
      HttpRouter.add(
        "POST",
        path,
        serve(
          path,
          () => dialect,
          Effect.fnUntraced(function* (request, requestId) {
            const headers = headersOf(request)
            const caller: GatewayCaller = yield* authentication.identify(request, [capability])
            const { body, bytes } = yield* readBody(request, maxBodyBytes)
            const call: Call = {
              dialect,
              operation,
              body,
              bytes,
              headers: forwardedRequestHeaders(headers),
              agentId: caller.agentId,
              planId: caller.planId,
              taskType: caller.taskType,
              prepared: caller.prepared,
              perTurnNanoUsd: caller.perTurnNanoUsd,
              cache: cacheAsked(headers["x-cache"]),
              repeatable: repeatableAt(path, headers["idempotency-key"])
            }
            const made: Effect.Effect<Omit<CallAnswer, "report">, GatewayError, Scope.Scope> = operation ===
            "count-tokens"
              ? Effect.map(counts.count(call), ({ bytes, headers }) => ({ status: 200, headers, body: bytes }))
              : calls.call(call)
            return answerOf(yield* Effect.provideService(made, CurrentPrincipal, caller.principal), requestId)
          })
        ).pipe(Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(maxBodyBytes)))
      )

    const [first, ...rest] = gatewayRoutes
    return Layer.mergeAll(post(first), ...rest.map(post), unknownPaths)
  })
)
