import { ByteSize, Effect, Layer, Option, Redacted, Schema } from "effect"
import { HttpIncomingMessage, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { bearerToken } from "../../access/authorization-header.ts"
import { type RateLimited } from "../../kernel/authority/principal.ts"
import { declaresMoreThan, inStrictJson } from "../../platform/http/request-body.ts"
import { OAuthError, toWire } from "../oauth/oauth-error.ts"
import { maxRegistrationBytes } from "./domain.ts"
import { invalidMetadata } from "./metadata.ts"
import { Registrations } from "./service.ts"

const path = "/api/applications/register"
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

const route = (
  method: "GET" | "POST" | "PUT" | "DELETE",
  at: `/${string}`,
  serve: (
    request: HttpServerRequest.HttpServerRequest,
    clientId: string
  ) => Effect.Effect<HttpServerResponse.HttpServerResponse, OAuthError | RateLimited>
) =>
  HttpRouter.add(
    method,
    at,
    inStrictJson(
      Effect.gen(function* () {
        const request = yield* HttpServerRequest.HttpServerRequest
        const { clientId = "" } = yield* HttpRouter.params
        return yield* serve(request, clientId)
      })
    ).pipe(
      Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(maxRegistrationBytes)),
      Effect.catch((failure) => Effect.succeed(toWire(failure)))
    )
  )

/** `/api/applications/register`: registration as RFC 7591 and RFC 7592 have it, in their JSON and with their errors. */
export const RegistrationWireLayer = Layer.unwrap(
  Effect.gen(function* () {
    const registrations = yield* Registrations
    return Layer.mergeAll(
      route("POST", path, (request) =>
        Effect.map(registrations.register(bodyOf(request), tokenOf(request)), (body) => answer(body, 201))
      ),
      route("GET", `${path}/:clientId`, (request, clientId) =>
        Effect.map(registrations.read(clientId, tokenOf(request), request.method !== "HEAD"), (body) => answer(body))
      ),
      route("PUT", `${path}/:clientId`, (request, clientId) =>
        Effect.map(registrations.update(clientId, bodyOf(request), tokenOf(request)), (body) => answer(body))
      ),
      route("DELETE", `${path}/:clientId`, (request, clientId) =>
        Effect.as(registrations.delete(clientId, tokenOf(request)), HttpServerResponse.empty({ status: 204 }))
      )
    )
  })
)
