import { Context, Effect, Layer, type Types } from "effect"
import { HttpServerRequest, type HttpServerResponse } from "effect/http"
import { ApiKeyCredentials } from "../api-keys/credentials.ts"
import { apiKeyActions } from "../api-keys/domain.ts"
import { Audit, type Refusal as RecordedRefusal } from "../audit/service.ts"
import { auditActions } from "../kernel/audit-action.ts"
import { covers } from "../kernel/capability.ts"
import { CurrentRequest } from "../platform/request.ts"
import { Settings } from "../platform/settings.ts"
import { AgentTokens } from "./agent-tokens.ts"
import { Access, RequiredCapability, type Requirement } from "./api.ts"
import { bearerToken } from "./bearer-token.ts"
import {
  CurrentPrincipal,
  Forbidden,
  type Principal,
  type RateLimited,
  serviceAccount,
  Unauthenticated
} from "./domain.ts"
import { RateLimits } from "./rate-limits.ts"
import { ServiceAccount } from "./service-account.ts"
import { isFromAnotherSite, sessionCookie, tokenInCookies } from "./session-cookie.ts"
import { SessionTokens } from "./session-tokens.ts"

export const accessActions = auditActions("Operation", ["AccessForbidden"])

export const AccessLayer = Layer.effect(
  Access,
  Effect.gen(function* () {
    const account = yield* ServiceAccount
    const audit = yield* Audit
    const credentials = yield* ApiKeyCredentials
    const agents = yield* AgentTokens
    const sessions = yield* SessionTokens
    const limits = yield* RateLimits
    const cookie = sessionCookie(yield* Settings)

    const anonymousLimit = Effect.flatMap(CurrentRequest, (request) =>
      limits.anonymous(request?.ipAddress ?? "unknown")
    )

    const refuse = (refusal: RecordedRefusal) =>
      anonymousLimit.pipe(Effect.andThen(audit.refused(refusal)), Effect.andThen(Effect.fail(new Unauthenticated({}))))
    const turnAway = (detail: string) => Effect.andThen(anonymousLimit, Effect.fail(new Unauthenticated({ detail })))

    const withKey = (key: string) =>
      Effect.flatMap(account.owns(key), (owned) =>
        owned
          ? Effect.succeed(serviceAccount)
          : Effect.catch(credentials.check(key), (reason) =>
              refuse({ action: apiKeyActions.ApiKeyRefused, target: publicPart(key), reason })
            )
      )

    const withBearer = (authorization: string) => {
      const token = bearerToken(authorization)
      if (token === undefined) return turnAway("Authorization takes one bearer token: Bearer <token>.")
      if (token.startsWith("amk_")) return turnAway("An API key belongs into the header X-Api-Key.")
      return Effect.catch(isAgentToken(token) ? agents.check(token) : sessions.check(token), refuse)
    }

    const withCookie = (request: HttpServerRequest.HttpServerRequest) => {
      const token = tokenInCookies(cookie, request.headers.cookie)
      if (token === undefined) return noCredential
      return isFromAnotherSite(cookie, request.method, request.headers)
        ? Effect.andThen(anonymousLimit, Effect.fail(fromAnotherSite))
        : Effect.catch(sessions.check(token), refuse)
    }
    const noCredential = turnAway(
      "Send an API key in the header X-Api-Key, or a token in Authorization: Bearer, or sign in."
    )

    /** The one credential that counts: a key, else a bearer token, else the cookie; what comes after it is not looked at. */
    const authenticate = (
      request: HttpServerRequest.HttpServerRequest
    ): Effect.Effect<Principal, Unauthenticated | Forbidden | RateLimited> => {
      const key = request.headers["x-api-key"]
      if (key !== undefined && key !== "") return withKey(key)
      const authorization = request.headers.authorization
      return authorization === undefined ? withCookie(request) : withBearer(authorization)
    }

    const recordForbidden = (operation: string) => (error: unknown) => {
      return error instanceof Forbidden
        ? audit.refused({ action: accessActions.AccessForbidden, target: operation, reason: error.detail })
        : Effect.void
    }

    return Access.of((httpEffect, { endpoint, group }) => {
      const requirement = Context.getOrUndefined(endpoint.annotations, RequiredCapability)
      const record = recordForbidden(`${group.identifier}.${endpoint.identifier}`)
      return Effect.withFiber((fiber) => {
        const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
        return Effect.flatMap(authenticate(request), (principal) =>
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
  if (requirement.accountsOnly && principal.kind !== "account") {
    return { detail: "Only an account that signed in has this.", missing: [] }
  }
  const { capability, or } = requirement
  return capability === null ||
    principal.capabilities.some((held) => covers(held, capability) || (or !== undefined && covers(held, or)))
    ? undefined
    : { detail: `The caller lacks ${capability}.`, missing: [capability] }
}

/** The part of a presented key that may be written down. */
const publicPart = (key: string): string => (/^amk_[0-9A-Za-z]{12}/.test(key) ? key.slice(0, 16) : "no key of ours")

/** Agents' tokens are signed, in three parts; an account's is one opaque word. */
const isAgentToken = (token: string): boolean => token.split(".").length === 3

const fromAnotherSite = new Forbidden({ missing: [], detail: "The page of another site sent this with our cookie." })
