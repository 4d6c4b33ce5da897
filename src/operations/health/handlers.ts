import { DateTime, Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { fastGroupHandlers } from "../../platform/fast-path/group-handlers.ts"
import { HealthApi } from "./api.ts"
import { type Health } from "./domain.ts"
import { HealthChecks } from "./service.ts"

export const HealthHandlers = fastGroupHandlers(
  HealthApi,
  Effect.fn(function* (handlers) {
    const checks = yield* HealthChecks
    // Every load balancer asks this all the time, so it is written without its schema, and once for each new state.
    let answer: { readonly health: Health; readonly response: HttpServerResponse.HttpServerResponse } | undefined
    const answerOf = (health: Health) => {
      if (answer?.health === health) return answer.response
      const shown = { ...health, timestamp: DateTime.formatIso(health.timestamp) }
      answer = { health, response: HttpServerResponse.jsonUnsafe(shown) }
      return answer.response
    }
    return handlers.handleAll({
      get: () => Effect.map(checks.health, answerOf),
      ready: () => checks.ready
    })
  })
)
