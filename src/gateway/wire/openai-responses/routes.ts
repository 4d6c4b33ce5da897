import { Effect, Layer, Option, type Scope } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { Attribution } from "../../../budgets/attribution/service.ts"
import { ledgerLate } from "../../../budgets/ledger/problems.ts"
import { type TenantId } from "../../../kernel/identifier.ts"
import { databaseDeadline } from "../../../platform/http/deadline.ts"
import { GatewayAuthentication, type VendorPath } from "../../authentication/gateway-authentication.ts"
import { Conversations } from "../../conversations/service.ts"
import { type GatewayError, type GatewayProblem, invalidMember } from "../../errors/gateway-error.ts"
import { openAiErrors } from "../../formats/openai-chat/errors.ts"
import { openAiResponses } from "../../formats/openai-responses/format.ts"
import { type StoredRequest } from "../../providers/provider.ts"
import { makeCallReader, vendorRoute } from "../http/serve.ts"
import { NativeResponses } from "./native.ts"
import { type IncomingResponse, Responses } from "./service.ts"
import { makeSocketRoute } from "./socket.ts"

const capabilities = ["llm:complete"] as const

/** The paths of the Responses API, each with its methods. */
export const responsesPaths: ReadonlyArray<readonly [path: RegExp, methods: string]> = [
  [/^\/v1\/responses(?:\/input_tokens|\/compact)?$/, "POST"],
  [/^\/v1\/responses\/[^/]+$/, "GET, HEAD, DELETE"],
  [/^\/v1\/responses\/[^/]+\/input_items$/, "GET, HEAD"],
  [/^\/v1\/responses\/[^/]+\/cancel$/, "POST"]
]

/** A page of a list as OpenAI's API has them: the newest first unless asked otherwise, 20 unless asked for up to 100. */
const pageOf = (items: ReadonlyArray<{ readonly id: string }>, asked: URLSearchParams) => {
  const ordered = asked.get("order") === "asc" ? items : items.toReversed()
  const from = ordered.findIndex(({ id }) => id === asked.get("after")) + 1
  const limit = Math.min(100, Math.max(1, Math.trunc(Number(asked.get("limit") ?? 20)) || 20))
  const data = ordered.slice(from, from + limit)
  const [first, last] = [data[0]?.id ?? null, data.at(-1)?.id ?? null]
  return { object: "list", data, first_id: first, last_id: last, has_more: from + limit < ordered.length }
}

const notInBackground = invalidMember(
  "response_id",
  "Only responses that are made in the background can be cancelled; close the connection to stop one that is streamed."
)

const notStreamed = Effect.fail(
  invalidMember("stream", "stream: Only responses that are made in the background can be streamed again")
)

/** The Responses API, as OpenAI's SDKs and Codex call it. */
export const OpenAiResponsesLayer = Layer.unwrap(
  Effect.gen(function* () {
    const attribution = yield* Attribution
    const inTime = yield* databaseDeadline(ledgerLate)
    const { authenticated } = yield* GatewayAuthentication
    const conversations = yield* Conversations
    const readCall = yield* makeCallReader
    const natives = yield* NativeResponses
    const responses = yield* Responses

    /** A path that makes a call. */
    const called = (
      path: `/${string}`,
      limitedBy: VendorPath["limitedBy"],
      work: (
        call: IncomingResponse,
        requestId: string
      ) => Effect.Effect<HttpServerResponse.HttpServerResponse, GatewayError<GatewayProblem>, Scope.Scope>
    ) =>
      vendorRoute(
        "POST",
        path,
        () => openAiErrors,
        (request, requestId) =>
          authenticated(
            request,
            { capabilities, limitedBy },
            Effect.flatMap(readCall(openAiResponses, { path }, request, requestId, openAiErrors), (call) =>
              work(call, requestId)
            )
          )
      )

    /** A path of a stored response: `work` answers for one that the gateway stores, others are their provider's. */
    const stored = (
      method: StoredRequest["method"],
      path: `/${string}`,
      work: (
        tenantId: TenantId,
        id: string,
        asked: URLSearchParams
      ) => Effect.Effect<object, GatewayError<GatewayProblem>>
    ) =>
      vendorRoute(
        method,
        path,
        () => openAiErrors,
        (request, requestId) =>
          authenticated(
            request,
            { capabilities, limitedBy: "rate" },
            Effect.gen(function* () {
              const { id = "" } = yield* HttpRouter.params
              const tenantId = yield* tenantOf()
              const asked = new URL(request.url, "http://localhost").searchParams
              if (asked.get("stream") === "true") return yield* notStreamed
              const action = path.slice("/v1/responses/:id".length)
              const held = yield* natives.stored(tenantId, id, method, action, asked)
              const headers = { "request-id": requestId }
              return Option.isSome(held)
                ? HttpServerResponse.uint8Array(held.value, { contentType: "application/json", headers })
                : HttpServerResponse.jsonUnsafe(yield* work(tenantId, id, asked), { headers })
            })
          )
      )
    const tenantOf = () => inTime(Effect.map(Effect.orDie(attribution.resolve({})), ({ tenantId }) => tenantId))

    return Layer.mergeAll(
      called("/v1/responses", "caps", responses.create),
      yield* makeSocketRoute,
      called("/v1/responses/input_tokens", "rate", responses.count),
      called("/v1/responses/compact", "caps", responses.compact),
      stored("GET", "/v1/responses/:id", conversations.response),
      stored("DELETE", "/v1/responses/:id", (tenantId, id) =>
        Effect.as(conversations.remove(tenantId, id), { id, object: "response", deleted: true })
      ),
      stored("GET", "/v1/responses/:id/input_items", (tenantId, id, asked) =>
        Effect.map(conversations.input(tenantId, id), (input) => {
          const hex = id.slice("resp_".length)
          const items = input.map((item, index) => ({ ...item, id: item.id ?? `in_${hex}_${index}` }))
          return pageOf(items, asked)
        })
      ),
      stored("POST", "/v1/responses/:id/cancel", (tenantId, id) =>
        Effect.andThen(conversations.response(tenantId, id), Effect.fail(notInBackground))
      )
    )
  })
)
