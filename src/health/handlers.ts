import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../api.ts"
import { HealthChecks } from "./service.ts"

export const HealthHandlers = HttpApiBuilder.group(
  Api,
  "health",
  Effect.fn(function* (handlers) {
    const checks = yield* HealthChecks
    return handlers.handleAll({ get: () => checks.health, ready: () => checks.ready })
  })
)
