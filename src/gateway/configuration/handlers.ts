import { Effect } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { linkedPage } from "../../kernel/http/location.ts"
import { entityTag, unwrittenTag } from "../../kernel/http/precondition.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { LlmAdminApi } from "./api.ts"
import { GatewayConfiguration } from "./service.ts"

const versionsLimitDefault = 100

const tagged = <A>({ document, version }: { readonly document: A; readonly version: number | null }) =>
  HttpApiSchema.withHeaders({ body: document, headers: { etag: version === null ? unwrittenTag : entityTag(version) } })

export const LlmAdminHandlers = groupHandlers(
  LlmAdminApi,
  Effect.fn(function* (handlers) {
    const configuration = yield* GatewayConfiguration
    return handlers.handleAll({
      getConfiguration: () => Effect.map(configuration.get, tagged),
      putConfiguration: ({ payload }) => Effect.map(configuration.put(payload), tagged),
      versions: ({ query, request }) =>
        Effect.map(configuration.versions(query.cursor, query.limit ?? versionsLimitDefault), linkedPage(request)),
      rollback: ({ payload }) => Effect.map(configuration.rollback(payload.version), tagged),
      getCatalogue: () => Effect.map(configuration.catalogue, tagged),
      putCatalogue: ({ payload }) => Effect.map(configuration.putCatalogue(payload), tagged),
      catalogueVersions: ({ query, request }) =>
        Effect.map(
          configuration.catalogueVersions(query.cursor, query.limit ?? versionsLimitDefault),
          linkedPage(request)
        ),
      reload: () => configuration.reload
    })
  })
)
