import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { Downloads } from "../../../platform/http/downloads.ts"
import { prefers } from "../../../platform/http/negotiation.ts"
import { groupHandlers } from "../../../platform/http/served-api.ts"
import { Configuration } from "../files/service.ts"
import { ConfigurationTreesApi } from "./api.ts"
import { ConfigurationArchives } from "./archives.ts"
import { ConfigurationTrees } from "./service.ts"

export const ConfigurationTreesHandlers = groupHandlers(
  ConfigurationTreesApi,
  Effect.fn(function* (handlers) {
    const archives = yield* ConfigurationArchives
    const configuration = yield* Configuration
    const downloads = yield* Downloads
    const trees = yield* ConfigurationTrees
    return handlers.handleAll({
      get: ({ query }) => Effect.map(configuration.tree(query.applicationId), HttpServerResponse.jsonUnsafe),
      export: ({ query, request }) =>
        downloads.respond(archives.exported(query.applicationId, query.format ?? exportFormatFor(request))),
      import: ({ payload, query }) => {
        const { applicationId, dryRun = false, mode = "merge" } = query
        return "nodes" in payload
          ? trees.importAll(applicationId, payload.nodes, { dryRun, mode, nodesBy: "index" })
          : Effect.flatMap(archives.readZip(payload), (nodes) =>
              trees.importAll(applicationId, nodes, { dryRun, mode, nodesBy: "path" })
            )
      },
      rollback: ({ payload }) => trees.rollback(payload)
    })
  })
)

/** The export format that the Accept header requests. */
const exportFormatFor = (request: HttpServerRequest.HttpServerRequest) =>
  prefers(request, "application/zip", "application/json") ? "zip" : "json"
