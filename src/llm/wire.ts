import { ByteSize, Effect, Layer, type Scope } from "effect"
import { HttpIncomingMessage, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { CurrentPrincipal } from "../auth/domain.ts"
import { type Dialect } from "../compat/domain.ts"
import { errorBody, statusIn } from "../compat/errors.ts"
import { type Capability } from "../kernel/capability.ts"
import { CurrentRequest } from "../platform/request.ts"
import { declaresMoreThan } from "../platform/request-body.ts"
import { Settings } from "../platform/settings.ts"
import { Callers, type GatewayCaller } from "./callers.ts"
import { type CallAnswer } from "./call-answers.ts"
import { type Call, Calls } from "./calls.ts"
import { type Operation } from "./providers/provider.ts"
import { type CallRefused, refused } from "./refusal.ts"
import { MessageCounts } from "./message-counts.ts"

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

const isJson = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const decoder = new TextDecoder("utf-8", { fatal: true })

const readBody = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, most: number) {
  if (declaresMoreThan(request.headers, most)) return yield* tooLarge
  const bytes = new Uint8Array(yield* Effect.mapError(request.arrayBuffer, () => tooLarge))
  const body = yield* Effect.try({ try: (): unknown => JSON.parse(decoder.decode(bytes)), catch: () => notJson })
  return isJson(body) ? { body, bytes } : yield* notJson
})

/** Whether a caller wishes the response cache to answer, in a header, since bodies are the vendors'. */
const cacheAsked = (header: string | undefined): boolean | undefined =>
  header === "true" ? true : header === "false" ? false : undefined

const repeatableAt = (path: string, key: string | undefined) =>
  key === undefined ? undefined : { route: `POST ${path}`, key }

/** What a provider may see of the caller's headers; its credentials, cookies and own words are none of it. */
const passedOn = (headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> => {
  const passed: Record<string, string> = {}
  for (const name in headers) {
    if (name === "user-agent" || name === "accept" || name.startsWith("anthropic-") || name.startsWith("openai-")) {
      passed[name] = headers[name]!
    }
  }
  return passed
}

const errorAnswer = (dialect: Dialect, { error, headers = {} }: CallRefused, requestId: string) =>
  HttpServerResponse.text(JSON.stringify(errorBody(dialect, error, requestId)), {
    status: statusIn(dialect, error.status),
    contentType: "application/json",
    headers: { ...headers, "request-id": requestId }
  })

const answerOf = ({ body, headers, status }: Omit<CallAnswer, "report">, requestId: string) => {
  const all = { ...headers, "request-id": requestId }
  return body instanceof Uint8Array
    ? HttpServerResponse.uint8Array(body, { status, contentType: "application/json", headers: all })
    : HttpServerResponse.stream(body, { status, contentType: "text/event-stream", headers: all })
}

/** Serves a route, and every failure in the form that clients of its dialect read. */
export const serve = <E>(
  path: string,
  dialectOf: (request: HttpServerRequest.HttpServerRequest) => Dialect,
  work: (
    request: HttpServerRequest.HttpServerRequest,
    requestId: string
  ) => Effect.Effect<HttpServerResponse.HttpServerResponse, CallRefused, E>
) =>
  Effect.gen(function* () {
    const info = yield* CurrentRequest
    const request = yield* HttpServerRequest.HttpServerRequest
    const requestId = info?.requestId ?? ""
    if (info !== undefined) {
      info.route = path
      // Providers take their time, and have one of their own.
      info.untimed()
    }
    return yield* Effect.catch(work(request, requestId), (refusal) =>
      Effect.succeed(errorAnswer(dialectOf(request), refusal, requestId))
    )
  })

/** `/v1/*`: the gateway as the SDKs of OpenAI and Anthropic speak it, errors included. */
export const GatewayWireLayer = Layer.unwrap(
  Effect.gen(function* () {
    const callers = yield* Callers
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
            const caller: GatewayCaller = yield* callers.identify(request, [capability])
            const { body, bytes } = yield* readBody(request, maxBodyBytes)
            const call: Call = {
              dialect,
              operation,
              body,
              bytes,
              headers: passedOn(request.headers),
              agentId: caller.agentId,
              planId: caller.planId,
              taskType: caller.taskType,
              prepared: caller.prepared,
              perTurnNanoUsd: caller.perTurnNanoUsd,
              cache: cacheAsked(request.headers["x-cache"]),
              repeatable: repeatableAt(path, request.headers["idempotency-key"])
            }
            const made: Effect.Effect<Omit<CallAnswer, "report">, CallRefused, Scope.Scope> = operation ===
            "count-tokens"
              ? Effect.map(counts.count(call), ({ bytes, headers }) => ({ status: 200, headers, body: bytes }))
              : calls.call(call)
            return answerOf(yield* Effect.provideService(made, CurrentPrincipal, caller.principal), requestId)
          })
        ).pipe(Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(maxBodyBytes)))
      )

    const [first, ...rest] = gatewayRoutes
    return Layer.mergeAll(post(first), ...rest.map(post))
  })
)
