import { ByteSize, Effect, Layer } from "effect"
import { HttpIncomingMessage, HttpRouter, HttpServerResponse } from "effect/http"
import { Settings } from "../../../platform/settings/settings.ts"
import { Attribution } from "../../../budgets/attribution/service.ts"
import { Conversations } from "../../conversations/service.ts"
import { type GatewayError, type GatewayProblem, invalidMember } from "../../errors/gateway-error.ts"
import { asServed, makeAuthenticated, makeCallReader, serve } from "../http/serve.ts"
import { openAiErrors } from "../openai-chat/errors.ts"
import { Responses } from "./service.ts"

const capability = "llm:complete"

/** The paths of the Responses API, each with its methods. */
export const responsesPaths: ReadonlyArray<readonly [path: RegExp, methods: string]> = [
  [/^\/v1\/responses$/, "POST"],
  [/^\/v1\/responses\/[^/]+$/, "GET, HEAD, DELETE"],
  [/^\/v1\/responses\/[^/]+\/input_items$/, "GET, HEAD"],
  [/^\/v1\/responses\/[^/]+\/cancel$/, "POST"]
]

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
    const { maxBodyBytes } = (yield* Settings).llm.gateway

    const create = HttpRouter.add(
      "POST",
      "/v1/responses",
      Effect.provideService(
        serve(
          "/v1/responses",
          () => openAiErrors,
          (request, requestId) =>
            authenticated(
              request,
              capability,
              Effect.flatMap(readCall("/v1/responses", request, requestId, openAiErrors), (call) =>
                responses.create(call, requestId)
              )
            )
        ),
        HttpIncomingMessage.MaxBodySize,
        ByteSize.bytes(maxBodyBytes)
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
      ) => Effect.Effect<object, GatewayError<GatewayProblem>>
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
        Effect.map(conversations.find(tenantId, id), ({ input }) => {
          const hex = id.slice("resp_".length)
          // The newest first, as OpenAI lists them unless asked otherwise.
          const data = input.map((item, index) => ({ ...item, id: item.id ?? `in_${hex}_${index}` })).toReversed()
          return {
            object: "list",
            data,
            first_id: data[0]?.id ?? null,
            last_id: data.at(-1)?.id ?? null,
            has_more: false
          }
        })
      ),
      stored("POST", "/v1/responses/:id/cancel", (tenantId, id) =>
        Effect.andThen(conversations.find(tenantId, id), Effect.fail(notInBackground))
      )
    )
  })
)
