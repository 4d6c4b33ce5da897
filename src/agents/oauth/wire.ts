import { ByteSize, Effect, Option, Redacted } from "effect"
import { HttpIncomingMessage, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { requiresSomeTag } from "../../kernel/http/precondition.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { AccessTokens } from "../agent-credentials/access-tokens.ts"
import { claimsIn } from "../agent-credentials/assertion.ts"
import {
  accessTokenUrn,
  type AgentTokenResponse,
  idTokenUrn,
  jwtUrn,
  maxTokenRequestBytes
} from "../agent-credentials/domain.ts"
import { TokenIntrospection } from "../agent-credentials/introspection.ts"
import { AgentCredentials } from "../agent-credentials/service.ts"
import { type Form, readForm, required } from "./form.ts"
import { noTag, OAuthError, toWire, type WireFailure } from "./oauth-error.ts"
import { AgentGrants } from "./service.ts"
import { makeWireCallers } from "./wire-callers.ts"

const exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"
const tokenTypes: ReadonlySet<string> = new Set([accessTokenUrn, jwtUrn])
const subjectTokenTypes: ReadonlySet<string> = new Set([...tokenTypes, idTokenUrn])

const answer = (body: object) => HttpServerResponse.jsonUnsafe(body, { headers: { pragma: "no-cache" } })

const tokenAnswer = (token: AgentTokenResponse) =>
  answer({
    access_token: Redacted.value(token.accessToken),
    token_type: token.tokenType,
    expires_in: token.expiresIn,
    scope: token.scopes.join(" "),
    ...(token.issuedTokenType === undefined ? {} : { issued_token_type: token.issuedTokenType })
  })

const requestedScopes = (form: Form) => {
  const scope = form.get("scope")
  return scope === null ? {} : { requestedScopes: scope.split(" ").filter((word) => word !== "") }
}

const refuse = (code: string, description: string) => Effect.fail(new OAuthError({ code, description }))

/** What an exchange may name as its subject and ask for as its answer: the service itself issues access tokens alone. */
const checkExchange = (form: Form, issuer: string) => {
  if (form.has("actor_token")) return refuse("invalid_request", "The actor is the client itself; send no actor_token.")
  if (!subjectTokenTypes.has(form.get("subject_token_type") ?? "")) {
    return refuse("invalid_request", "subject_token_type is none that is taken.")
  }
  if (form.get("subject_token_type") === idTokenUrn && claimsIn(form.get("subject_token") ?? "")?.iss === issuer) {
    return refuse("invalid_request", "subject_token is an access token, and no ID token.")
  }
  if (!tokenTypes.has(form.get("requested_token_type") ?? accessTokenUrn)) {
    return refuse("invalid_request", "Only access tokens are issued.")
  }
  return Effect.void
}

/** Whom a token may be for: this service, and each target that is named (RFC 8693 §2.1, RFC 8707 §2). */
const checkTarget = (form: Form, issuer: string) => {
  const ours: ReadonlySet<string> = new Set([issuer, `${issuer}/api`, `${issuer}/v1`])
  return ["audience", "resource"].some((name) => form.getAll(name).some((target) => !ours.has(target)))
    ? refuse("invalid_target", "Tokens are issued for this service alone.")
    : Effect.void
}

/** Serves a form, and every failure in the form that clients of OAuth read. */
const serving =
  (
    serve: (
      form: Form,
      request: HttpServerRequest.HttpServerRequest
    ) => Effect.Effect<HttpServerResponse.HttpServerResponse, WireFailure>
  ) =>
  ({ request }: { readonly request: HttpServerRequest.HttpServerRequest }) =>
    Effect.flatMap(requiresSomeTag(request.headers) ? Effect.fail(noTag) : readForm(request), (form) =>
      serve(form, request)
    ).pipe(
      Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(maxTokenRequestBytes)),
      Effect.catch((failure) => Effect.succeed(toWire(failure)))
    )

/** `/oauth2/*`: the same grants as standard clients speak them, with forms and plain JSON errors (RFC 6749). */
export const makeOAuthWire = Effect.gen(function* () {
  const callers = yield* makeWireCallers
  const credentials = yield* AgentCredentials
  const grants = yield* AgentGrants
  const introspection = yield* TokenIntrospection
  const tokens = yield* AccessTokens
  const { publicUrl } = (yield* Settings).api

  const token = serving(
    Effect.fnUntraced(function* (form, request) {
      const grantType = yield* required(form, "grant_type")
      const isExchange = grantType === exchangeGrant
      if (!isExchange && grantType !== "client_credentials") {
        return yield* refuse("unsupported_grant_type", "client_credentials and token exchange are supported.")
      }
      const { agentId, assertion: clientAssertion } = yield* callers.clientIn(request, form)
      const asked = { agentId, clientAssertion, ...requestedScopes(form) }
      if (!isExchange) {
        yield* checkTarget(form, publicUrl)
        return tokenAnswer(yield* grants.token(asked, "/oauth2/token"))
      }
      const subjectToken = yield* required(form, "subject_token")
      yield* checkExchange(form, publicUrl)
      yield* checkTarget(form, publicUrl)
      return tokenAnswer(yield* grants.exchange({ ...asked, subjectToken }, "/oauth2/token"))
    })
  )

  const introspect = serving(
    Effect.fnUntraced(function* (form, request) {
      const presented = yield* required(form, "token")
      const introspected = introspection.introspect(presented)
      return answer(
        yield* callers.as(request, form, "/oauth2/introspect", ["agents:introspect", "agents:read"], introspected)
      )
    })
  )

  const revoke = serving(
    Effect.fnUntraced(function* (form, request) {
      const presented = yield* required(form, "token")
      // An unknown token needs no revocation (RFC 7009 §2.2). An invalid one does: it could become valid again.
      const ended = Effect.flatMap(
        tokens.credentialOf(presented),
        Option.match({ onNone: () => Effect.void, onSome: credentials.revoke })
      )
      yield* callers.as(request, form, "/oauth2/revoke", ["agents:write"], ended)
      return answer({})
    })
  )

  return { token, introspect, revoke }
})
