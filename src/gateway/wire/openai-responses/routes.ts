import { Effect, Layer } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { Attribution } from "../../../budgets/attribution/service.ts"
import { Conversations } from "../../conversations/service.ts"
import { type GatewayError, type GatewayProblem, invalidMember } from "../../errors/gateway-error.ts"
import { asServed, makeAuthenticated, makeCallReader, serve } from "../http/serve.ts"
import { openAiErrors } from "../openai-chat/errors.ts"
import { Responses } from "./service.ts"

const capability = "llm:complete"
const made = { path: "/v1/responses", dialect: "openai", operation: "chat" } as const

/** The paths of the Responses API, each with its methods. */
export const responsesPaths: ReadonlyArray<readonly [path: RegExp, methods: string]> = [
  [/^\/v1\/responses$/, "POST"],
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

/** The Responses API, as OpenAI's SDKs and Codex call it. */
export const OpenAiResponsesLayer = Layer.unwrap(
  Effect.gen(function* () {
    const attribution = yield* Attribution
    const authenticated = yield* makeAuthenticated
    const conversations = yield* Conversations
    const readCall = yield* makeCallReader
    const responses = yield* Responses

    const create = HttpRouter.add(
      "POST",
      "/v1/responses",
      serve(
        "/v1/responses",
        () => openAiErrors,
        (request, requestId) =>
          authenticated(
            request,
            capability,
            Effect.flatMap(readCall(made, request, requestId, openAiErrors), (call) =>
              responses.create(call, requestId)
            )
          )
      ),
      asServed
    )

    /** A path of a stored response. */
    const stored = (
      method: "GET" | "POST" | "DELETE",
      path: `/${string}`,
      work: (
        tenantId: Effect.Success<ReturnType<typeof tenantOf>>,
        id: string
      ) => Effect.Effect<object, GatewayError<GatewayProblem>, HttpServerRequest.HttpServerRequest>
    ) =>
      HttpRouter.add(
        method,
        path,
        serve(
          path,
          () => openAiErrors,
          (request, requestId) =>
            authenticated(
              request,
              capability,
              Effect.gen(function* () {
                const { id = "" } = yield* HttpRouter.params
                const shown = yield* work(yield* tenantOf(), id)
                return HttpServerResponse.jsonUnsafe(shown, { headers: { "request-id": requestId } })
              })
            )
        ),
        asServed
      )
    const tenantOf = () => Effect.map(Effect.orDie(attribution.resolve({})), ({ tenantId }) => tenantId)

    return Layer.mergeAll(
      create,
      stored("GET", "/v1/responses/:id", (tenantId, id) =>
        Effect.map(conversations.find(tenantId, id), ({ response }) => response)
      ),
      stored("DELETE", "/v1/responses/:id", (tenantId, id) =>
        Effect.as(conversations.remove(tenantId, id), { id, object: "response", deleted: true })
      ),
      stored("GET", "/v1/responses/:id/input_items", (tenantId, id) =>
        Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ url }) =>
          Effect.map(conversations.find(tenantId, id), ({ input }) => {
            const hex = id.slice("resp_".length)
            const items = input.map((item, index) => ({ ...item, id: item.id ?? `in_${hex}_${index}` }))
            return pageOf(items, new URL(url, "http://localhost").searchParams)
          })
        )
      ),
      stored("POST", "/v1/responses/:id/cancel", (tenantId, id) =>
        Effect.andThen(conversations.find(tenantId, id), Effect.fail(notInBackground))
      )
    )
  })
)
