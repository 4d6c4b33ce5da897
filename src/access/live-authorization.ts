import { Deferred, Effect, Layer } from "effect"
import { type HttpServerRequest } from "effect/http"
import { Admissions } from "../platform/http/live-authorization.ts"
import { Shutdown } from "../platform/http/shutdown.ts"
import { Authentication } from "./authentication.ts"
import { AuthorityChanges } from "./auth-cache-invalidation.ts"
import { CurrentPrincipal, type Principal } from "../kernel/principal.ts"

const checkEvery = "15 seconds"

export const AdmissionsLayer = Layer.effect(
  Admissions,
  Effect.gen(function* () {
    const changes = yield* AuthorityChanges
    const { identify } = yield* Authentication
    const shutdown = yield* Shutdown
    let change = Deferred.makeUnsafe<void>()
    yield* changes.onChange(
      Effect.suspend(() => {
        const told = change
        change = Deferred.makeUnsafe()
        return Deferred.succeed(told, undefined)
      })
    )

    // Waiting is no use of a session: it ends idle beneath an answer that lasts.
    const stands = (request: HttpServerRequest.HttpServerRequest, principal: Principal) =>
      Effect.match(
        identify(request, () => Effect.fail("rejected"), false),
        {
          onSuccess: (current) => hasSameRights(current, principal),
          onFailure: () => false
        }
      ).pipe(
        // A database that is away says nothing of a credential.
        Effect.catchCause(() => Effect.succeed(true))
      )

    const lapse = (request: HttpServerRequest.HttpServerRequest) =>
      Effect.map(CurrentPrincipal, (principal) =>
        Effect.gen(function* () {
          for (;;) {
            const next = Deferred.await(change)
            if (!(yield* stands(request, principal))) return
            yield* Effect.raceFirst(next, Effect.sleep(checkEvery))
          }
        }).pipe(Effect.raceFirst(shutdown.begun))
      )

    return Admissions.of({ lapse })
  })
)

const hasSameRights = (a: Principal, b: Principal): boolean =>
  a.name === b.name && a.tenantId === b.tenantId && a.capabilities.join() === b.capabilities.join()
