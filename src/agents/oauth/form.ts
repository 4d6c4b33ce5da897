import { Effect } from "effect"
import { type HttpServerRequest } from "effect/http"
import { declaresMoreThan } from "../../platform/http/request-body.ts"
import { maxTokenRequestBytes } from "../agent-credentials/domain.ts"
import { OAuthError } from "./oauth-error.ts"

/** The parameters of a form, each once at most (RFC 6749 §3.2); an empty one counts as left out. */
export type Form = ReadonlyMap<string, string>

const formType = /^application\/x-www-form-urlencoded(?:\s*;.*)?$/i

const tooLarge = new OAuthError({ code: "invalid_request", description: "The body is too large.", status: 413 })
const unreadable = new OAuthError({ code: "invalid_request", description: "The body cannot be read." })

/** Reads a form from the body of a request. */
export const readForm = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
  if (!formType.test(request.headers["content-type"] ?? "")) {
    return yield* new OAuthError({ code: "invalid_request", description: "Send application/x-www-form-urlencoded." })
  }
  if (declaresMoreThan(request.headers, maxTokenRequestBytes)) return yield* tooLarge
  const text = yield* Effect.mapError(request.text, ({ reason }) =>
    reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge" ? tooLarge : unreadable
  )
  const form = new Map<string, string>()
  for (const [name, value] of new URLSearchParams(text)) {
    if (form.has(name)) {
      return yield* new OAuthError({ code: "invalid_request", description: `${name} is repeated.` })
    }
    if (value !== "") form.set(name, value)
  }
  return form as Form
})

export const required = (form: Form, name: string): Effect.Effect<string, OAuthError> => {
  const value = form.get(name)
  return value === undefined
    ? Effect.fail(new OAuthError({ code: "invalid_request", description: `${name} is missing.` }))
    : Effect.succeed(value)
}
