import { Context, Effect, Layer } from "effect"
import { type HttpServerRequest } from "effect/http"
import { type Refusal } from "../audit/log/service.ts"
import { Forbidden, type Principal, serviceAccount, Unauthenticated } from "../kernel/authority/principal.ts"
import { headersOf } from "../platform/http/request.ts"
import { Settings } from "../platform/settings/settings.ts"
import { bearerToken, keyInAuthorization } from "./authorization-header.ts"
import { AgentTokenCheck, ApiKeyCheck, SessionTokenCheck } from "./credential-checks.ts"
import { ServiceAccount } from "./service-account.ts"
import { isFromAnotherSite, sessionCookie, tokenInCookies } from "./session-cookie.ts"

/** Why a request is not authenticated. */
export interface Rejection {
  readonly problem: Unauthenticated | Forbidden
  /** The audit entry of a refused credential; never sent to the caller. */
  readonly refusal: Refusal | undefined
}

/**
 * The one place that decides which credential of a request counts: a key, else a bearer token, else the session's cookie;
 * what comes after it is not looked at.
 */
export class Authentication extends Context.Service<
  Authentication,
  {
    /** Who sent a request; `isUse` is whether that keeps a session from being idle. */
    identify<E>(
      request: HttpServerRequest.HttpServerRequest,
      rejected: (rejection: Rejection) => Effect.Effect<never, E>,
      isUse: boolean
    ): Effect.Effect<Principal, E>
  }
>()("app/access/Authentication") {
  static readonly layer = Layer.effect(
    Authentication,
    Effect.gen(function* () {
      const account = yield* ServiceAccount
      const agents = yield* AgentTokenCheck
      const keys = yield* ApiKeyCheck
      const sessions = yield* SessionTokenCheck
      const cookie = sessionCookie(yield* Settings)
      const asServiceAccount = Effect.succeed(serviceAccount)

      return Authentication.of({
        identify: (request, rejected, isUse) => {
          const headers = headersOf(request)
          const refuse = (refusal: Refusal) => rejected({ problem: new Unauthenticated({}), refusal })
          const rejectWith = (detail: string) =>
            rejected({ problem: new Unauthenticated({ detail }), refusal: undefined })

          const key = headers["x-api-key"]
          if (key !== undefined && key !== "") {
            return Effect.flatMapEager(account.owns(key), (owned) =>
              owned ? asServiceAccount : Effect.catch(keys.check(key), refuse)
            )
          }
          if (headers.authorization !== undefined) {
            const token = bearerToken(headers.authorization)
            const misplaced = keyInAuthorization(headers.authorization)
            const detail = token === undefined ? bearerOnly : "An API key belongs in the header X-Api-Key."
            // Whatever the key, the answer is the same; that of a canary must not go unnoticed.
            if (misplaced !== undefined) {
              const problem = new Unauthenticated({ detail })
              return Effect.matchEffect(keys.check(misplaced), {
                onFailure: (refusal) => rejected({ problem, refusal }),
                onSuccess: () => rejected({ problem, refusal: undefined })
              })
            }
            if (token === undefined) return rejectWith(bearerOnly)
            return Effect.catch(isAgentToken(token) ? agents.check(token) : sessions.check(token, isUse), refuse)
          }
          const token = tokenInCookies(cookie, headers.cookie)
          if (token === undefined) return rejectWith(howToAuthenticate)
          return isFromAnotherSite(cookie, request.method, headers)
            ? rejected({ problem: fromAnotherSite, refusal: undefined })
            : Effect.catch(sessions.check(token, isUse), refuse)
        }
      })
    })
  )
}

const bearerOnly = "Authorization takes one bearer token: Bearer <token>."
const howToAuthenticate = "Send an API key in the header X-Api-Key, or a token in Authorization: Bearer, or sign in."
const fromAnotherSite = new Forbidden({
  missing: [],
  detail: "Another site's page sent this request with the session cookie."
})

/** Agents' tokens are JWTs: three parts, the first an object. An account's is one word; an operator's key may contain dots. */
export const isAgentToken = (token: string): boolean => token.startsWith("ey") && token.split(".").length === 3
