import { Context, Effect, Layer, type Types } from "effect"
import { HttpServerRequest } from "effect/http"
import { type HttpApiEndpoint, type HttpApiGroup } from "effect/http-api"
import { ApiKeyCredentials } from "../api-keys/credentials.ts"
import { apiKeyActions } from "../api-keys/domain.ts"
import { Audit } from "../audit/service.ts"
import { auditActions } from "../kernel/audit-action.ts"
import { covers } from "../kernel/capability.ts"
import { CurrentRequest } from "../platform/request.ts"
import { Access, RequiredCapability } from "./api.ts"
import { CurrentPrincipal, Forbidden, type Principal, serviceAccount, Unauthenticated } from "./domain.ts"
import { RateLimits } from "./rate-limits.ts"
import { ServiceAccount } from "./service-account.ts"

export const accessActions = auditActions("Operation", ["AccessForbidden"])

export const AccessLayer = Layer.effect(
  Access,
  Effect.gen(function* () {
    const account = yield* ServiceAccount
    const audit = yield* Audit
    const credentials = yield* ApiKeyCredentials
    const limits = yield* RateLimits

    const anonymousLimit = Effect.flatMap(CurrentRequest, (request) => limits.anonymous(request?.ipAddress ?? "unknown"))

    const authenticate = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
      const key = request.headers["x-api-key"]
      if (key === undefined || key === "") {
        yield* anonymousLimit
        return yield* new Unauthenticated({ detail: "Send an API key in the header X-Api-Key." })
      }
      if (yield* account.owns(key)) return serviceAccount
      return yield* Effect.catch(credentials.check(key), (reason) =>
        Effect.gen(function* () {
          yield* anonymousLimit
          yield* audit.refused({ action: apiKeyActions.ApiKeyRefused, target: publicPart(key), reason })
          return yield* new Unauthenticated({})
        })
      )
    })

    const authorize = Effect.fnUntraced(function* (
      principal: Principal,
      endpoint: HttpApiEndpoint.Top,
      group: HttpApiGroup.Top
    ) {
      const requirement = Context.getOrUndefined(endpoint.annotations, RequiredCapability)
      const refuse = (detail: string, missing: ReadonlyArray<string>) =>
        Effect.provideService(
          Effect.andThen(
            audit.refused({
              action: accessActions.AccessForbidden,
              target: `${group.identifier}.${endpoint.identifier}`,
              reason: detail
            }),
            Effect.fail(new Forbidden({ detail, missing }))
          ),
          CurrentPrincipal,
          principal
        )
      if (requirement === undefined) return yield* refuse("The operation lets nobody in.", [])
      if (requirement.systemOnly && principal.tenantId !== undefined) {
        return yield* refuse("Only system principals reach this; the caller belongs to a tenant.", [])
      }
      if (!principal.capabilities.some((held) => covers(held, requirement.capability))) {
        return yield* refuse(`The caller lacks ${requirement.capability}.`, [requirement.capability])
      }
    })

    return Access.of({
      apiKey: (httpEffect, { endpoint, group }) =>
        Effect.gen(function* () {
          const request = yield* HttpServerRequest.HttpServerRequest
          const principal = yield* authenticate(request)
          yield* limits.principal(principal.name)
          yield* authorize(principal, endpoint, group)
          return yield* Effect.provideService(
            Effect.mapError(httpEffect, (error): Types.unhandled => error),
            CurrentPrincipal,
            principal
          )
        })
    })
  })
)

/** The part of a presented key that may be written down. */
const publicPart = (key: string): string => (/^amk_[0-9A-Za-z]{12}/.test(key) ? key.slice(0, 16) : "no key of ours")
