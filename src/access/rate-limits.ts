import { Context, Duration, Effect, Layer } from "effect"
import { RateLimiter } from "effect/persistence"
import { CurrentRequest } from "../platform/http/request.ts"
import { Settings } from "../platform/settings/settings.ts"
import { RateLimited } from "../kernel/authority/principal.ts"

/** How many requests a minute a principal, or a network without one, is granted. */
export class RateLimits extends Context.Service<
  RateLimits,
  {
    principal(name: string): Effect.Effect<void, RateLimited>
    /** Counts the current request against its network: an IPv4 address, or an IPv6 /64. */
    readonly anonymous: Effect.Effect<void, RateLimited>
  }
>()("app/access/RateLimits") {
  static readonly layer = Layer.effect(
    RateLimits,
    Effect.gen(function* () {
      const limiter = yield* RateLimiter.RateLimiter
      const { rateLimit } = (yield* Settings).api
      if (!rateLimit.enabled) return RateLimits.of({ principal: () => Effect.void, anonymous: Effect.void })

      const consume = (key: string, limit: number) =>
        limiter.consume({ key, limit, window: Duration.minutes(1) }).pipe(
          Effect.flatMap(({ remaining, resetAfter }) =>
            Effect.map(CurrentRequest, (request) => {
              if (request !== undefined) {
                request.rateLimit = { limit, remaining, resetSeconds: Math.ceil(Duration.toSeconds(resetAfter)) }
              }
            })
          ),
          Effect.catchReason(
            "RateLimiterError",
            "RateLimitExceeded",
            ({ retryAfter }) =>
              Effect.flatMap(CurrentRequest, (request) => {
                const retryAfterSeconds = Math.max(1, Math.ceil(Duration.toSeconds(retryAfter)))
                if (request !== undefined) request.rateLimit = { limit, remaining: 0, resetSeconds: retryAfterSeconds }
                return Effect.fail(new RateLimited({ retryAfterSeconds }))
              }),
            // A shared store that is away must not stop the service: requests are let through until it is back.
            () => Effect.void
          )
        )

      // What consumes for a principal is the same for each of its requests, so it is made once for many.
      const ofPrincipals = new Map<string, Effect.Effect<void, RateLimited>>()
      const ofPrincipal = (name: string) => {
        let consumed = ofPrincipals.get(name)
        if (consumed === undefined) {
          if (ofPrincipals.size === 10_000) ofPrincipals.clear()
          ofPrincipals.set(name, (consumed = consume(`principal:${name}`, rateLimit.perMinute)))
        }
        return consumed
      }

      return RateLimits.of({
        principal: ofPrincipal,
        anonymous: Effect.flatMap(CurrentRequest, (request) =>
          consume(`network:${request?.network ?? "unknown"}`, rateLimit.anonymousPerMinute)
        )
      })
    })
  )
}
