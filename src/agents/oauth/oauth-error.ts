import { Data } from "effect"
import { HttpServerResponse } from "effect/http"
import { type RateLimited } from "../../kernel/authority/principal.ts"
import { type InvalidClient, type InvalidRequest, type InvalidScope } from "../agent-credentials/domain.ts"

/** An error as RFC 6749 §5.2 writes it. */
export class OAuthError extends Data.TaggedError("OAuthError")<{
  readonly code: string
  readonly description: string
  readonly status?: number
  /** The scheme of the WWW-Authenticate challenge, and the error of a token sent with it (RFC 6750 §3.1). */
  readonly challenge?: { readonly scheme: "Basic" | "Bearer"; readonly error?: string }
}> {}

export type WireFailure = OAuthError | InvalidClient | InvalidRequest | InvalidScope | RateLimited

const json = (status: number, error: string, description: string, headers: Record<string, string> = {}) =>
  HttpServerResponse.jsonUnsafe(
    { error, error_description: description },
    { status, headers: { pragma: "no-cache", ...headers } }
  )

const challengeOf = (challenge: OAuthError["challenge"]): Record<string, string> => {
  if (challenge === undefined) return {}
  const { error, scheme } = challenge
  const errorPart = error === undefined ? "" : `, error="${error}"`
  return { "www-authenticate": `${scheme} realm="application-manager"${errorPart}` }
}

/** The plain JSON answer of a failure: no problem, since standard clients read this form. */
export const toWire = (failure: WireFailure): HttpServerResponse.HttpServerResponse => {
  switch (failure._tag) {
    case "OAuthError":
      return json(failure.status ?? 400, failure.code, failure.description, challengeOf(failure.challenge))
    case "InvalidClient":
      return json(401, failure.error, failure.error_description, challengeOf({ scheme: "Bearer" }))
    case "RateLimited":
      return json(429, "temporarily_unavailable", failure.detail, {
        "retry-after": String(failure.retryAfterSeconds)
      })
    default:
      return json(400, failure.error, failure.error_description)
  }
}
