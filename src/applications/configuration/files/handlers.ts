import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiSchema } from "effect/http-api"
import { linkedPage } from "../../../kernel/http/location.ts"
import { prefers } from "../../../platform/http/negotiation.ts"
import { groupHandlers } from "../../../platform/http/served-api.ts"
import { type ConfigurationDiff, tagOf, type TaggedFile } from "../model/domain.ts"
import { ConfigurationApi } from "./api.ts"
import { ConfigurationFiles } from "./files.ts"
import { Configuration } from "./service.ts"
import { versionStream } from "./watch.ts"

const versionsLimitDefault = 100

export const ConfigurationHandlers = groupHandlers(
  ConfigurationApi,
  Effect.fn(function* (handlers) {
    const configuration = yield* Configuration
    const files = yield* ConfigurationFiles
    const watch = yield* versionStream
    return handlers.handleAll({
      getByPath: ({ query }) => Effect.map(configuration.getByPath(query.applicationId, query.path), tagged),
      deleted: ({ query }) => configuration.deleted(query.applicationId),
      get: ({ params }) => Effect.map(configuration.get(params.id), tagged),
      create: ({ payload }) => Effect.map(configuration.create(payload), createdFile),
      save: ({ params, payload }) => Effect.map(files.save(params.id, payload.content), tagged),
      move: ({ params, payload }) => Effect.map(configuration.move(params.id, payload), tagged),
      delete: ({ params }) => configuration.delete(params.id),
      restore: ({ params }) => Effect.map(configuration.restore(params.id), tagged),
      versions: ({ params, query, request }) =>
        Effect.map(files.versions(params.id, query.cursor, query.limit ?? versionsLimitDefault), linkedPage(request)),
      version: ({ params }) => files.version(params.id, params.version),
      diff: ({ params, query, request }) => Effect.map(files.diff(params.id, query.from, query.to), diffFor(request)),
      rollback: ({ params, payload }) => Effect.map(files.rollback(params.id, payload.version), tagged),
      watch: ({ params, request }) => watch(request, params.id)
    })
  })
)

/** Answers a node with its tag. */
export const tagged = (body: TaggedFile) => HttpApiSchema.withHeaders({ body, headers: { etag: tagOf(body) } })

/** Answers a new node with its address and its tag. */
export const createdFile = (body: TaggedFile) =>
  HttpApiSchema.withHeaders({ body, headers: { location: `/api/configuration/${body.id}`, etag: tagOf(body) } })

/** Answers a diff as text, or as JSON where the caller prefers it. */
export const diffFor = (request: HttpServerRequest.HttpServerRequest) => (diff: ConfigurationDiff) =>
  prefers(request, "application/json", "text/x-diff")
    ? diff
    : HttpServerResponse.text(diff.diff, { contentType: "text/x-diff; charset=utf-8" })
