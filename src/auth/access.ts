import { Context, Effect, Layer, type Types } from "effect"
import { HttpServerRequest, type HttpServerResponse } from "effect/http"
import { ApiKeyCredentials, type RefusalReason } from "../api-keys/credentials.ts"
import { apiKeyActions } from "../api-keys/domain.ts"
import { Audit } from "../audit/service.ts"
import { auditActions } from "../kernel/audit-action.ts"
import { covers } from "../kernel/capability.ts"
import { CurrentRequest } from "../platform/request.ts"
import { Access, RequiredCapability, type Requirement } from "./api.ts"
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

    const anonymousLimit = Effect.flatMap(CurrentRequest, (request) =>
      limits.anonymous(request?.ipAddress ?? "unknown")
    )

    const refuseKey = Effect.fnUntraced(function* (key: string, reason: RefusalReason) {
      yield* anonymousLimit
      yield* audit.refused({ action: apiKeyActions.ApiKeyRefused, target: publicPart(key), reason })
      return yield* new Unauthenticated({})
    })
    const noKey = Effect.andThen(
      anonymousLimit,
      Effect.fail(new Unauthenticated({ detail: "Send an API key in the header X-Api-Key." }))
    )

    const authenticate = (key: string | undefined) =>
      key === undefined || key === ""
        ? noKey
        : Effect.flatMap(account.owns(key), (owned) =>
            owned
              ? Effect.succeed(serviceAccount)
              : Effect.catch(credentials.check(key), (reason) => refuseKey(key, reason))
          )

    const recordForbidden = (operation: string) => (error: unknown) => {
      return error instanceof Forbidden
        ? audit.refused({ action: accessActions.AccessForbidden, target: operation, reason: error.detail })
        : Effect.void
    }

    return Access.of((httpEffect, { endpoint, group }) => {
      const requirement = Context.getOrUndefined(endpoint.annotations, RequiredCapability)
      const record = recordForbidden(`${group.identifier}.${endpoint.identifier}`)
      return Effect.withFiber((fiber) => {
        const { headers } = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
        return Effect.flatMap(authenticate(headers["x-api-key"]), (principal) =>
          Effect.flatMap(limits.principal(principal.name), () => {
            const refusal = refusalOf(principal, requirement)
            // Services refuse too: whoever would give what it lacks, or act for another tenant.
            const admitted: Admitted = refusal === undefined ? httpEffect : Effect.fail(new Forbidden(refusal))
            return Effect.provideService(Effect.tapError(admitted, record), CurrentPrincipal, principal)
          })
        )
      })
    })
  })
)

type Admitted = Effect.Effect<HttpServerResponse.HttpServerResponse, Types.unhandled | Forbidden>

interface Refusal {
  readonly detail: string
  readonly missing: ReadonlyArray<string>
}

/** Why a principal may not do what an endpoint does; undefined when it may. */
const refusalOf = (principal: Principal, requirement: Requirement | undefined): Refusal | undefined => {
  if (requirement === undefined) return { detail: "The operation lets nobody in.", missing: [] }
  if (requirement.systemOnly && principal.tenantId !== undefined) {
    return { detail: "Only system principals reach this; the caller belongs to a tenant.", missing: [] }
  }
  return principal.capabilities.some((held) => covers(held, requirement.capability))
    ? undefined
    : { detail: `The caller lacks ${requirement.capability}.`, missing: [requirement.capability] }
}

/** The part of a presented key that may be written down. */
const publicPart = (key: string): string => (/^amk_[0-9A-Za-z]{12}/.test(key) ? key.slice(0, 16) : "no key of ours")
