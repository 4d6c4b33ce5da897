import { Effect } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { fastGroupHandlers } from "../../../platform/fast-path/group-handlers.ts"
import { groupHandlers } from "../../../platform/http/served-api.ts"
import { linkedPage } from "../../../kernel/location.ts"
import { entityTag } from "../../../kernel/precondition.ts"
import { Completions } from "./completions.ts"
import { GatewayConfiguration, type VersionedDocument } from "../../configuration/configuration.ts"
import { Gateway } from "./service.ts"
import { LlmAdminApi, LlmApi, LlmCallsApi } from "./api.ts"

const versionsLimitDefault = 100

const tagged = ({ document, version }: VersionedDocument) =>
  HttpApiSchema.withHeaders({ body: document, headers: version === null ? {} : { etag: entityTag(version) } })

export const LlmHandlers = groupHandlers(
  LlmApi,
  Effect.fn(function* (handlers) {
    const gateway = yield* Gateway
    return handlers.handleAll({
      models: () => gateway.models,
      health: () => gateway.health,
      testProvider: ({ payload }) => gateway.test(payload),
      listModels: ({ payload }) => gateway.listModels(payload)
    })
  })
)

export const LlmCallsHandlers = fastGroupHandlers(
  LlmCallsApi,
  Effect.fn(function* (handlers) {
    const completions = yield* Completions
    return handlers.handleAll({
      complete: ({ payload }) => completions.complete(payload),
      embed: ({ payload }) => completions.embed(payload)
    })
  })
)

export const LlmAdminHandlers = groupHandlers(
  LlmAdminApi,
  Effect.fn(function* (handlers) {
    const configuration = yield* GatewayConfiguration
    return handlers.handleAll({
      getConfiguration: () => Effect.map(configuration.get, tagged),
      putConfiguration: ({ headers, payload }) => Effect.map(configuration.put(payload, headers["if-match"]), tagged),
      versions: ({ query, request }) =>
        Effect.map(configuration.versions(query.cursor, query.limit ?? versionsLimitDefault), linkedPage(request)),
      rollback: ({ headers, payload }) =>
        Effect.map(configuration.rollback(payload.version, headers["if-match"]), tagged),
      reload: () => configuration.reload
    })
  })
)
