import { ByteSize, Effect, Option, Redacted, Schema } from "effect"
import { HttpIncomingMessage, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { bearerToken } from "../../access/authorization-header.ts"
import { type RateLimited } from "../../kernel/authority/principal.ts"
import { requiresSomeTag } from "../../kernel/http/precondition.ts"
import { declaresMoreThan, inStrictJson } from "../../platform/http/request-body.ts"
import { noTag, OAuthError, toWire } from "../oauth/oauth-error.ts"
import { maxRegistrationBytes } from "./domain.ts"
import { invalidMetadata } from "./metadata.ts"
import { Registrations } from "./service.ts"

const jsonType = /^application\/json(?:\s*;.*)?$/i
const decodeObject = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Record(Schema.String, Schema.Unknown)))

const tooLarge = new OAuthError({
  code: "invalid_client_metadata",
  description: `The body has more than ${maxRegistrationBytes} bytes.`,
  status: 413
})

/** The JSON object in the body of a request. */
const bodyOf = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
  if (!jsonType.test(request.headers["content-type"] ?? "")) return yield* invalidMetadata("Send application/json.")
  if (declaresMoreThan(request.headers, maxRegistrationBytes)) return yield* tooLarge
  const text = yield* Effect.mapError(request.text, ({ reason }) =>
    reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge"
      ? tooLarge
      : invalidMetadata("The body cannot be read.")
  )
  return yield* Option.match(decodeObject(text), {
    onNone: () => Effect.fail(invalidMetadata("The body is no JSON object in which each member is there once.")),
    onSome: Effect.succeed
  })
})

const tokenOf = ({ headers }: HttpServerRequest.HttpServerRequest): Redacted.Redacted | undefined => {
  const token = bearerToken(headers.authorization ?? "")
  return token === undefined ? undefined : Redacted.make(token)
}

const answer = (body: object, status = 200) =>
  HttpServerResponse.jsonUnsafe(body, { status, headers: { pragma: "no-cache" } })

/** Every failure in the form that RFC 7591 has. */
const served = (
  request: HttpServerRequest.HttpServerRequest,
  work: Effect.Effect<HttpServerResponse.HttpServerResponse, OAuthError | RateLimited>
) =>
  inStrictJson(requiresSomeTag(request.headers) ? Effect.fail(noTag) : work).pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(maxRegistrationBytes)),
    Effect.catch((failure) => Effect.succeed(toWire(failure)))
  )

interface Asked {
  readonly params: { readonly clientId: string }
  readonly request: HttpServerRequest.HttpServerRequest
}

/** `/api/applications/register`: registration as RFC 7591 and RFC 7592 have it, in their JSON and with their errors. */
export const makeRegistrationWire = Effect.map(Registrations, (registrations) => ({
  register: ({ request }: Pick<Asked, "request">) =>
    served(
      request,
      Effect.map(registrations.register(bodyOf(request), tokenOf(request)), (body) => answer(body, 201))
    ),
  read: ({ params: { clientId }, request }: Asked) =>
    served(
      request,
      Effect.map(registrations.read(clientId, tokenOf(request), request.method !== "HEAD"), (body) => answer(body))
    ),
  update: ({ params: { clientId }, request }: Asked) =>
    served(
      request,
      Effect.map(registrations.update(clientId, bodyOf(request), tokenOf(request)), (body) => answer(body))
    ),
  delete: ({ params: { clientId }, request }: Asked) =>
    served(
      request,
      Effect.as(registrations.delete(clientId, tokenOf(request)), HttpServerResponse.empty({ status: 204 }))
    )
}))
