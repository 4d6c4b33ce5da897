import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder, HttpApiSchema } from "effect/http-api"
import { Api } from "../api.ts"
import { linkedPage } from "../kernel/location.ts"
import { entityTag } from "../kernel/precondition.ts"
import { prefers } from "../platform/negotiation.ts"
import { type ConfigurationFile } from "./domain.ts"
import { ConfigurationArchives } from "./archives.ts"
import { ConfigurationFiles } from "./files.ts"
import { Configuration } from "./service.ts"
import { ConfigurationTrees } from "./trees.ts"
import { versionStream } from "./version-stream.ts"

const versionsLimitDefault = 100

export const ConfigurationHandlers = HttpApiBuilder.group(
  Api,
  "configuration",
  Effect.fn(function* (handlers) {
    const configuration = yield* Configuration
    const files = yield* ConfigurationFiles
    const archives = yield* ConfigurationArchives
    const trees = yield* ConfigurationTrees
    const watch = yield* versionStream
    return handlers.handleAll({
      tree: ({ query }) => Effect.map(configuration.tree(query.applicationId), HttpServerResponse.jsonUnsafe),
      getByPath: ({ query }) => Effect.map(configuration.getByPath(query.applicationId, query.path), tagged),
      deleted: ({ query }) => configuration.deleted(query.applicationId),
      export: ({ query, request }) => archives.exported(query.applicationId, query.format ?? formatOf(request)),
      import: ({ payload, query }) => {
        const { applicationId, dryRun = false, mode = "merge" } = query
        return "nodes" in payload
          ? trees.importAll(applicationId, payload.nodes, { dryRun, mode, nodesBy: "index" })
          : Effect.flatMap(archives.readZip(payload), (nodes) =>
              trees.importAll(applicationId, nodes, { dryRun, mode, nodesBy: "path" })
            )
      },
      rollbackTree: ({ payload }) => trees.rollback(payload),
      get: ({ params }) => Effect.map(configuration.get(params.id), tagged),
      create: ({ payload }) => Effect.map(configuration.create(payload), createdFile),
      save: ({ headers, params, payload }) =>
        Effect.map(files.save(params.id, payload.content, headers["if-match"]), tagged),
      move: ({ headers, params, payload }) =>
        Effect.map(configuration.move(params.id, payload, headers["if-match"]), tagged),
      delete: ({ headers, params }) => configuration.delete(params.id, headers["if-match"]),
      restore: ({ params }) => Effect.map(configuration.restore(params.id), tagged),
      versions: ({ params, query, request }) =>
        Effect.map(files.versions(params.id, query.cursor, query.limit ?? versionsLimitDefault), linkedPage(request)),
      version: ({ params }) => files.version(params.id, params.version),
      diff: ({ params, query, request }) =>
        Effect.map(files.diff(params.id, query.from, query.to), (diff) =>
          prefers(request, "application/json", "text/x-diff")
            ? diff
            : HttpServerResponse.text(diff.diff, { contentType: "text/x-diff; charset=utf-8" })
        ),
      rollback: ({ headers, params, payload }) =>
        Effect.map(files.rollback(params.id, payload.version, headers["if-match"]), tagged),
      watch: ({ params }) => watch(params.id)
    })
  })
)

const formatOf = (request: HttpServerRequest.HttpServerRequest) =>
  prefers(request, "application/zip", "application/json") ? "zip" : "json"

const headersOf = ({ version }: ConfigurationFile) => (version === null ? {} : { etag: entityTag(version) })

const tagged = (body: ConfigurationFile) => HttpApiSchema.withHeaders({ body, headers: headersOf(body) })

const createdFile = (body: ConfigurationFile) =>
  HttpApiSchema.withHeaders({
    body,
    headers: { location: `/api/configuration/${body.id}`, ...headersOf(body) }
  })
