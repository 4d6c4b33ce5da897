import { Data } from "effect"
import { HttpServerResponse } from "effect/http"
import { type RateLimited } from "../../kernel/authority/principal.ts"
import { challengeOf } from "../../kernel/http/challenge.ts"
import { type InvalidClient, type InvalidRequest, type InvalidScope } from "../agent-credentials/domain.ts"

/** An error as RFC 6749 §5.2 writes it. */
export class OAuthError extends Data.TaggedError("OAuthError")<{
  readonly code: string
  readonly description: string
  readonly status?: number
  /** The challenge, whether the code is that of a token that was presented, and the scopes that are needed. */
  readonly challenge?: {
    readonly scheme: "Basic" | "Bearer"
    readonly isOfToken?: boolean
    readonly scopes?: ReadonlyArray<string>
  }
}> {}

/** What others' formats answer to a precondition that names a tag. */
export const noTag = new OAuthError({
  code: "invalid_request",
  description: "If-Match names a tag, which nothing here has.",
  status: 412
})

export type WireFailure = OAuthError | InvalidClient | InvalidRequest | InvalidScope | RateLimited

const json = (status: number, error: string, description: string, headers: Record<string, string> = {}) =>
  HttpServerResponse.jsonUnsafe(
    { error, error_description: description },
    { status, headers: { pragma: "no-cache", ...headers } }
  )

const challenging = ({ challenge, code, description }: OAuthError): Record<string, string> => {
  if (challenge === undefined) return {}
  const { isOfToken = false, scheme, scopes } = challenge
  const error = isOfToken ? code : undefined
  return { "www-authenticate": challengeOf(scheme, { error, description, scopes }) }
}

/** The plain JSON answer of a failure: no problem, since standard clients read this form. */
export const toWire = (failure: WireFailure): HttpServerResponse.HttpServerResponse => {
  switch (failure._tag) {
    case "OAuthError":
      return json(failure.status ?? 400, failure.code, failure.description, challenging(failure))
    case "InvalidClient":
      return json(401, failure.error, failure.error_description, { "www-authenticate": challengeOf("Bearer") })
    case "RateLimited":
      return json(429, "temporarily_unavailable", failure.detail, {
        "retry-after": String(failure.retryAfterSeconds)
      })
    default:
      return json(400, failure.error, failure.error_description)
  }
}
