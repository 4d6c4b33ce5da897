import { Context, Effect, Layer, type Types } from "effect"
import { HttpServerRequest, type HttpServerResponse } from "effect/http"
import { Audit } from "../audit/log/service.ts"
import { Access, LimitedByCaps, RequiredCapability, type Requirement } from "../kernel/authority/access.ts"
import { auditActions } from "../kernel/authority/audit-action.ts"
import { type Capability, covers, missing } from "../kernel/authority/capability.ts"
import { CurrentPrincipal, Forbidden, type Principal } from "../kernel/authority/principal.ts"
import { databaseDeadline } from "../platform/http/deadline.ts"
import { CurrentRequest } from "../platform/http/request.ts"
import { Authentication, type Rejection } from "./authentication.ts"
import { CapabilityUses } from "./capability-uses.ts"
import { GatewayCredentialCheck } from "./credential-checks.ts"
import { RateLimits } from "./rate-limits.ts"
import { Rejections } from "./rejections.ts"

export const accessActions = auditActions("Operation", ["AccessForbidden"])

/** What a request is answered with at the time limit of the check of its credential. */
export const credentialLate = "The credential was not checked in time."

export const AccessLayer = Layer.effect(
  Access,
  Effect.gen(function* () {
    const audit = yield* Audit
    const { identify } = yield* Authentication
    const gateway = yield* GatewayCredentialCheck
    const limits = yield* RateLimits
    const rejections = yield* Rejections
    const uses = yield* CapabilityUses
    const inTime = yield* databaseDeadline(credentialLate)

    const reject = ({ problem, refusal }: Rejection) => Effect.andThen(rejections.reject(refusal), Effect.fail(problem))

    const recordForbidden = (operation: string) => (error: unknown) => {
      return error instanceof Forbidden
        ? audit.refused({ action: accessActions.AccessForbidden, target: operation, reason: error.detail })
        : Effect.void
    }

    return Access.of((httpEffect, { endpoint, group }) => {
      const requirement = Context.getOrUndefined(endpoint.annotations, RequiredCapability)
      const record = recordForbidden(`${group.identifier}.${endpoint.identifier}`)
      const { and = [], capability = null } = requirement ?? {}
      const scopes = capability === null ? and : [capability, ...and]
      const serve = (principal: Principal) => {
        const refusal = refusalOf(principal, requirement)
        const used = refusal === undefined ? usedOf(principal, requirement) : undefined
        if (used !== undefined) for (const one of [used, ...(requirement?.and ?? [])]) uses.record(principal, one)
        // Services also fail with Forbidden: for a caller that grants what it lacks, or acts for another tenant.
        const admitted: Admitted = refusal === undefined ? httpEffect : Effect.fail(new Forbidden(refusal))
        return Effect.provideService(Effect.tapError(admitted, record), CurrentPrincipal, principal)
      }
      const serveLimited = Context.get(endpoint.annotations, LimitedByCaps)
        ? (principal: Principal) => limits.unlessReserved(principal.name, serve(principal))
        : (principal: Principal) => Effect.flatMap(limits.principal(principal.name), () => serve(principal))
      return Effect.withFiber((fiber) => {
        const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
        const signedIn = identify(request, reject, true)
        const identified =
          requirement?.byGatewayPolicy === true
            ? Effect.flatMap(gateway.identify(request), (caller) =>
                caller === undefined ? signedIn : Effect.succeed(caller)
              )
            : signedIn
        const info = Context.get(fiber.context, CurrentRequest)
        if (info !== undefined) info.requiredScopes = scopes
        return Effect.flatMap(inTime(identified), (principal) => {
          if (info !== undefined) info.principal = principal.name
          return serveLimited(principal)
        })
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
  if (requirement === undefined) return { detail: "The operation admits no caller.", missing: [] }
  if (requirement.systemOnly && principal.tenantId !== undefined) {
    return { detail: "Only system principals reach this; the caller belongs to a tenant.", missing: [] }
  }
  if (requirement.accountsOnly && principal.kind !== "account") {
    return { detail: "Only an account that signed in has this.", missing: [] }
  }
  const { and = [], capability } = requirement
  const lacking = [
    ...(capability === null || usedOf(principal, requirement) !== undefined ? [] : [capability]),
    ...missing(principal.capabilities, and)
  ]
  return lacking.length === 0 ? undefined : { detail: `The caller lacks ${lacking.join(" and ")}.`, missing: lacking }
}

/** The capability by which a principal has what an endpoint requires; undefined where it has or needs none. */
const usedOf = ({ capabilities }: Principal, requirement: Requirement | undefined): Capability | undefined => {
  const capability = requirement?.capability ?? undefined
  if (capability === undefined || capabilities.some((held) => covers(held, capability))) return capability
  return requirement?.or?.find((other) => capabilities.some((held) => covers(held, other)))
}
