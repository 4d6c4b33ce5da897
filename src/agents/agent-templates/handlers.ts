import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { AgentTemplatesApi } from "./api.ts"
import { AgentTemplates } from "./service.ts"

export const AgentTemplatesHandlers = groupHandlers(
  AgentTemplatesApi,
  Effect.fn(function* (handlers) {
    const templates = yield* AgentTemplates
    return handlers.handleAll({
      list: ({ query: { tenantId, ...page } }) => templates.list(tenantId, page),
      get: ({ params }) => templates.get(params.id),
      create: ({ payload }) => Effect.map(templates.create(payload), created("/api/agents/templates")),
      update: ({ params, payload }) => templates.update(params.id, payload),
      delete: ({ params }) => templates.delete(params.id)
    })
  })
)
