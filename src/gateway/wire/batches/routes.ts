import { Effect, Layer } from "effect"
import { withoutDeadline } from "../../../platform/http/deadline.ts"
import { OpenAiFileBatches } from "../../batches/file-batches.ts"
import { MessageBatches } from "../../batches/message-batches.ts"
import { Batches } from "../../batches/service.ts"
import { type GatewayError, type GatewayProblem } from "../../errors/gateway-error.ts"
import { anthropicBatches } from "../../formats/batches/anthropic-batches.ts"
import { type BatchApi } from "../../formats/batches/batches.ts"
import { openAiBatches } from "../../formats/batches/openai-batches.ts"
import { FilesLayer } from "./file-routes.ts"
import { asBytes, type Asked, asJson, eitherWay, listed, makeKeptRoutes, pageIn } from "./kept-routes.ts"

type Failure = GatewayError<GatewayProblem>

/** The paths of files and batches, each with its methods. */
export const batchPaths: ReadonlyArray<readonly [path: RegExp, methods: string]> = [
  [/^\/v1\/(?:files|batches|messages\/batches)$/, "GET, HEAD, POST"],
  [/^\/v1\/(?:files|messages\/batches)\/[^/]+$/, "GET, HEAD, DELETE"],
  [/^\/v1\/files\/[^/]+\/content$/, "GET, HEAD"],
  [/^\/v1\/batches\/[^/]+$/, "GET, HEAD"],
  [/^\/v1\/(?:batches|messages\/batches)\/[^/]+\/cancel$/, "POST"],
  [/^\/v1\/messages\/batches\/[^/]+\/results$/, "GET, HEAD"]
]

/** `/v1/files`, `/v1/batches` and `/v1/messages/batches`, as the SDKs of OpenAI and Anthropic call them. */
export const BatchesLayer = Layer.unwrap(
  Effect.gen(function* () {
    const { about, making } = yield* makeKeptRoutes
    const batches = yield* Batches
    const fileBatches = yield* OpenAiFileBatches
    const messageBatches = yield* MessageBatches

    const aboutBatches = (api: BatchApi, path: `/${string}`, list: (asked: Asked) => Effect.Effect<object, Failure>) =>
      Layer.mergeAll(
        about("GET", path, list, asJson),
        about(
          "GET",
          `${path}/:id`,
          ({ headers, id, tenantId }) => batches.retrieve(tenantId, api, id, headers),
          asJson
        ),
        about(
          "POST",
          `${path}/:id/cancel`,
          ({ headers, id, tenantId }) => batches.cancel(tenantId, api, id, headers),
          asJson
        )
      )

    return Layer.mergeAll(
      FilesLayer,
      making("/v1/batches", "caps", (request, by) =>
        withoutDeadline(fileBatches.create(request, { ...by, api: openAiBatches }))
      ),
      aboutBatches(openAiBatches, "/v1/batches", ({ query, tenantId }) =>
        Effect.map(batches.list(tenantId, openAiBatches, pageIn(query, "after", 100)), (page) => ({
          object: "list",
          ...listed(page)
        }))
      ),
      making("/v1/messages/batches", "caps", (request, by) =>
        withoutDeadline(messageBatches.create(request, { ...by, api: anthropicBatches }))
      ),
      aboutBatches(anthropicBatches, "/v1/messages/batches", ({ query, tenantId }) => {
        const page = eitherWay(query, 1000)
        return Effect.map(batches.list(tenantId, anthropicBatches, page), ({ hasMore, items }) =>
          listed({ hasMore, items: page.isUp ? items.toReversed() : items })
        )
      }),
      about(
        "DELETE",
        "/v1/messages/batches/:id",
        ({ headers, id, tenantId }) => batches.remove(tenantId, anthropicBatches, id, headers),
        asJson
      ),
      about(
        "GET",
        "/v1/messages/batches/:id/results",
        ({ headers, id, tenantId }) => batches.results(tenantId, anthropicBatches, id, headers),
        asBytes
      )
    )
  })
)
