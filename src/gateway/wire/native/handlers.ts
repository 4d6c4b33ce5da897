import { Effect } from "effect"
import { fastGroupHandlers } from "../../../platform/fast-path/group-handlers.ts"
import { groupHandlers } from "../../../platform/http/served-api.ts"
import { LlmApi, LlmCallsApi } from "./api.ts"
import { Completions } from "./completions.ts"
import { Gateway } from "./service.ts"

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
