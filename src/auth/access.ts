import { Context, Effect, Layer, Schedule, Stream, type Types } from "effect"
import { HttpBody, HttpServerRequest, HttpServerResponse } from "effect/http"
import { ApiKeyCredentials, type RefusalReason } from "../api-keys/credentials.ts"
import { apiKeyActions } from "../api-keys/domain.ts"
import { Audit } from "../audit/service.ts"
import { auditActions } from "../kernel/audit-action.ts"
import { covers } from "../kernel/capability.ts"
import { AnswersJson } from "../kernel/validation.ts"
import { eventStreamType } from "../platform/event-stream.ts"
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

    const principalOf = (key: string) =>
      Effect.flatMap(account.owns(key), (owned) => (owned ? Effect.succeed(serviceAccount) : credentials.check(key)))
    const authenticate = (key: string | undefined) =>
      key === undefined || key === "" ? noKey : Effect.catch(principalOf(key), (reason) => refuseKey(key, reason))

    /** Ends once a key does not give any more what it gave; a database that is away says nothing of it. */
    const outlived = (key: string, requirement: Requirement | undefined) =>
      principalOf(key).pipe(
        Effect.match({
          onSuccess: (principal) => refusalOf(principal, requirement) !== undefined,
          onFailure: () => true
        }),
        Effect.catchCause(() => Effect.succeed(false)),
        Effect.repeat({ schedule: Schedule.spaced("2 seconds"), until: (ended) => ended })
      )

    const recordForbidden = (operation: string) => (error: unknown) => {
      return error instanceof Forbidden
        ? audit.refused({ action: accessActions.AccessForbidden, target: operation, reason: error.detail })
        : Effect.void
    }

    return Access.of((httpEffect, { endpoint, group }) => {
      const requirement = Context.getOrUndefined(endpoint.annotations, RequiredCapability)
      const record = recordForbidden(`${group.identifier}.${endpoint.identifier}`)
      const onlyJson = Context.get(endpoint.annotations, AnswersJson)
      return Effect.withFiber((fiber) => {
        const { headers } = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
        const key = headers["x-api-key"]
        const bounded = (answer: Admitted): Admitted =>
          onlyJson || key === undefined ? answer : Effect.map(answer, until(outlived(key, requirement)))
        return Effect.flatMap(authenticate(key), (principal) =>
          Effect.flatMap(limits.principal(principal.name), () => {
            const refusal = refusalOf(principal, requirement)
            // Services refuse too: whoever would give what it lacks, or act for another tenant.
            const admitted: Admitted = refusal === undefined ? bounded(httpEffect) : Effect.fail(new Forbidden(refusal))
            return Effect.provideService(Effect.tapError(admitted, record), CurrentPrincipal, principal)
          })
        )
      })
    })
  })
)

type Admitted = Effect.Effect<HttpServerResponse.HttpServerResponse, Types.unhandled | Forbidden>

/** A stream of events has no end of its own, so it lasts until `ended`; every other answer stays as it is. */
const until =
  (ended: Effect.Effect<unknown>) =>
  (response: HttpServerResponse.HttpServerResponse): HttpServerResponse.HttpServerResponse => {
    const { body } = response
    if (body._tag !== "Stream" || body.contentType !== eventStreamType) return response
    const stream = Stream.interruptWhen(body.stream, ended)
    return HttpServerResponse.setBody(response, HttpBody.stream(stream, body.contentType))
  }

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
