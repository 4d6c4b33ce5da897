import { Effect } from "effect"
import { Cookies, HttpServerResponse } from "effect/http"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { OidcSignInApi } from "./api.ts"
import { OidcSignIn, type Redirection } from "./service.ts"

const redirected = ({ cookies, location }: Redirection) =>
  HttpServerResponse.empty({ status: 303, headers: { location }, cookies: Cookies.fromSetCookie(cookies) })

export const OidcSignInHandlers = groupHandlers(
  OidcSignInApi,
  Effect.fn(function* (handlers) {
    const signIn = yield* OidcSignIn
    return handlers.handleAll({
      providers: ({ query }) => signIn.providers(query.tenantId),
      start: ({ params, query, request }) =>
        Effect.map(signIn.start(params.providerId, query.next, request.headers.cookie), redirected),
      callback: ({ params, query, request }) =>
        Effect.map(signIn.callback(params.providerId, query, request.headers.cookie), redirected)
    })
  })
)
