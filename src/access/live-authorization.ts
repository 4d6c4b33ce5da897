import { DateTime, Deferred, Duration, Effect, Layer } from "effect"
import { type HttpServerRequest } from "effect/http"
import { CurrentPrincipal, type Principal } from "../kernel/authority/principal.ts"
import { LiveAuthorization } from "../platform/http/event-stream.ts"
import { Shutdown } from "../platform/http/in-flight.ts"
import { AuthCacheInvalidation } from "./auth-cache-invalidation.ts"
import { Authentication } from "./authentication.ts"

const checkEvery = "15 seconds"

export const LiveAuthorizationLayer = Layer.effect(
  LiveAuthorization,
  Effect.gen(function* () {
    const authCaches = yield* AuthCacheInvalidation
    const { identify } = yield* Authentication
    const shutdown = yield* Shutdown
    let change = Deferred.makeUnsafe<void>()
    yield* authCaches.onChange(
      Effect.suspend(() => {
        const previous = change
        change = Deferred.makeUnsafe()
        return Deferred.succeed(previous, undefined)
      })
    )

    // An open stream is no activity: its session may expire as idle meanwhile.
    const isStillAuthorized = (request: HttpServerRequest.HttpServerRequest, principal: Principal) =>
      Effect.match(
        identify(request, () => Effect.fail("rejected"), false),
        {
          onSuccess: (current) => hasSameRights(current, principal),
          onFailure: () => false
        }
      ).pipe(
        // A database failure says nothing about the credential.
        Effect.catchCause(() => Effect.succeed(true))
      )

    const revoked = (request: HttpServerRequest.HttpServerRequest) =>
      Effect.map(
        CurrentPrincipal,
        Effect.fnUntraced(
          function* (principal) {
            for (;;) {
              const next = Deferred.await(change)
              if (!(yield* isStillAuthorized(request, principal))) return
              yield* Effect.raceFirst(next, Effect.sleep(checkEvery))
            }
          },
          Effect.raceFirst(shutdown.drained),
          (revoked, principal) => Effect.raceFirst(revoked, expiry(principal))
        )
      )

    return LiveAuthorization.of({ revoked })
  })
)

/** Waits for the end of the principal's credential; indefinitely where it has no end. */
const expiry = ({ expiresAt }: Principal): Effect.Effect<void> =>
  expiresAt === undefined
    ? Effect.never
    : Effect.flatMap(DateTime.now, (now) =>
        Effect.sleep(Duration.max(DateTime.distance(now, expiresAt), Duration.zero))
      )

const hasSameRights = (a: Principal, b: Principal): boolean =>
  a.name === b.name && a.tenantId === b.tenantId && a.capabilities.join() === b.capabilities.join()
