import { DateTime, Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../api.ts"
import { HealthChecks } from "./service.ts"

export const HealthHandlers = HttpApiBuilder.group(
  Api,
  "health",
  Effect.fn(function* (handlers) {
    const checks = yield* HealthChecks
    return handlers.handleAll({
      // Every load balancer asks this all the time, so it is written without the detour over its schema.
      get: () =>
        Effect.map(checks.health, (health) =>
          HttpServerResponse.jsonUnsafe({ ...health, timestamp: DateTime.formatIso(health.timestamp) })
        ),
      ready: () => checks.ready
    })
  })
)
