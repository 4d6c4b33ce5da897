import { Data } from "effect"
import { HttpServerResponse } from "effect/http"
import { type RateLimited } from "../auth/domain.ts"
import { type InvalidClient, type InvalidRequest, type InvalidScope } from "./domain.ts"

/** An error as RFC 6749 §5.2 writes it. */
export class OAuthError extends Data.TaggedError("OAuthError")<{
  readonly code: string
  readonly description: string
  readonly status?: number
  /** The scheme that WWW-Authenticate asks for. */
  readonly challenge?: "Basic" | "Bearer"
}> {}

export type WireFailure = OAuthError | InvalidClient | InvalidRequest | InvalidScope | RateLimited

const json = (status: number, error: string, description: string, headers: Record<string, string> = {}) =>
  HttpServerResponse.jsonUnsafe(
    { error, error_description: description },
    { status, headers: { pragma: "no-cache", ...headers } }
  )

const challengeOf = (scheme: string | undefined): Record<string, string> =>
  scheme === undefined ? {} : { "www-authenticate": `${scheme} realm="application-manager"` }

/** The plain JSON answer of a failure: no problem, since standard clients read this form. */
export const toWire = (failure: WireFailure): HttpServerResponse.HttpServerResponse => {
  switch (failure._tag) {
    case "OAuthError":
      return json(failure.status ?? 400, failure.code, failure.description, challengeOf(failure.challenge))
    case "InvalidClient":
      return json(401, failure.error, failure.error_description, challengeOf("Bearer"))
    case "RateLimited":
      return json(429, "temporarily_unavailable", failure.detail, {
        "retry-after": String(failure.retryAfterSeconds)
      })
    default:
      return json(400, failure.error, failure.error_description)
  }
}
