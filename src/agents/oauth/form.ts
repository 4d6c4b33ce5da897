import { Effect } from "effect"
import { type HttpServerRequest } from "effect/http"
import { errorText } from "../../kernel/http/challenge.ts"
import { declaresMoreThan } from "../../platform/http/request-body.ts"
import { maxTokenRequestBytes } from "../agent-credentials/domain.ts"
import { OAuthError } from "./oauth-error.ts"

/** The parameters of a form; an empty one counts as left out. */
export type Form = Pick<URLSearchParams, "get" | "getAll" | "has">

/** What a request may name several of (RFC 8707 §2, RFC 8693 §2.1); any other parameter is there once (RFC 6749 §3.2). */
const repeatable: ReadonlySet<string> = new Set(["audience", "resource"])

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
  const form = new URLSearchParams()
  for (const [name, value] of new URLSearchParams(text)) {
    if (form.has(name) && !repeatable.has(name)) {
      return yield* new OAuthError({ code: "invalid_request", description: `${errorText(name)} is repeated.` })
    }
    if (value !== "") form.append(name, value)
  }
  return form satisfies Form
})

export const required = (form: Form, name: string): Effect.Effect<string, OAuthError> => {
  const value = form.get(name)
  return value === null
    ? Effect.fail(new OAuthError({ code: "invalid_request", description: `${name} is missing.` }))
    : Effect.succeed(value)
}
