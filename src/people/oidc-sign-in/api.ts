import { Schema } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { RateLimited, Unauthenticated } from "../../kernel/authority/principal.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { storable } from "../../kernel/text.ts"
import {
  IdentityProviderId,
  IdentityProviderNotFound,
  IdentityProviderUnavailable
} from "../identity-providers/domain.ts"

const params = { providerId: IdentityProviderId }

const Redirect = (location: string, cookie: string) =>
  HttpApiSchema.WithHeaders(HttpApiSchema.Empty(303), {
    location: Schema.String.annotate({ examples: [location] }),
    "set-cookie": Schema.String.annotate({ examples: [cookie] })
  })

const parameter = (description: string, example: string) =>
  Schema.optionalKey(storable(Schema.String).annotate({ description, examples: [example] }))

const LoginProviders = Schema.Array(
  Schema.Struct({
    id: IdentityProviderId,
    name: Schema.String.annotate({ description: "The host of its issuer", examples: ["login.example.com"] }),
    startUrl: Schema.String.annotate({
      description: "Where a browser goes to sign in with it",
      examples: ["https://manager.example.com/api/auth/oidc/0198a5b0-7c00-7000-8000-00000000002a/start"]
    })
  }).annotate({ identifier: "LoginProvider" })
)

/** A path of this origin alone: browsers read `//host` and `/\\host` as another one, and drop tabs and line breaks. */
const Next = Schema.String.pipe(
  Schema.check(
    Schema.isMaxLength(512),
    Schema.isPattern(/^\/(?:[\x21-\x2E\x30-\x5B\x5D-\x7E][\x21-\x5B\x5D-\x7E]*)?$/u, {
      expected: "a path of this service, such as /console/api-keys"
    })
  )
).annotate({
  description: "Where the sign-in leads to; the front page when not given",
  examples: ["/console/api-keys"]
})

export class OidcSignInApi extends HttpApiGroup.make("oidcSignIn")
  .add(
    endpoint.get("providers", "/providers", {
      summary: "List the providers to sign in with",
      description:
        "For a page that offers them: active providers of kind `login`, of no tenant and, with `tenantId`, of that one, so that the tenants stay unknown. No credential.",
      query: { tenantId: Schema.optionalKey(TenantId) },
      success: LoginProviders,
      error: RateLimited
    }),
    endpoint.get("start", "/oidc/:providerId/start", {
      summary: "Begin to sign in with an identity provider",
      description:
        "Sends a browser to a provider of kind `login`, with PKCE, state and nonce, and sets a cookie that ties the answer to this browser for ten minutes; several sign-ins may be under way in one browser. No credential.",
      forBrowsers: true,
      params,
      query: { next: Schema.optionalKey(Next) },
      success: Redirect(
        "https://login.example.com/authorize?response_type=code",
        "am_oidc_3=c2VhbGVk; Path=/; Max-Age=600; HttpOnly; SameSite=Lax"
      ),
      error: [IdentityProviderNotFound, IdentityProviderUnavailable, RateLimited]
    }),
    endpoint.get("callback", "/oidc/:providerId/callback", {
      summary: "Sign in with the answer of an identity provider",
      description:
        "Where the provider sends the browser back to; its redirect URI. Sets the session's cookie; a first sign-in creates the account. Every failure is one answer, a page for browsers, and the audit log has the reason. Other parameters are ignored.",
      forBrowsers: true,
      params,
      query: Schema.StructWithRest(
        Schema.Struct({
          code: parameter("The authorization code", "SplxlOBeZQQYbYS6WxSbIA"),
          state: parameter("As it was sent to the provider", "af0ifjsldkj"),
          iss: parameter("The issuer (RFC 9207)", "https://login.example.com"),
          error: parameter("Why there is no code (RFC 6749 §4.1.2.1)", "access_denied")
        }),
        [Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Array(Schema.String)]))]
      ),
      success: Redirect(
        "/",
        "am_session=amt_4mXo1ExampleOfATokenThatNobodyHasAnywhere0000; Path=/; HttpOnly; SameSite=Lax"
      ),
      error: [IdentityProviderNotFound, IdentityProviderUnavailable, Unauthenticated, RateLimited]
    })
  )
  .prefix("/api/auth")
  .annotateMerge(
    OpenApi.annotations({
      title: "Sign-in with an identity provider",
      description: "OpenID Connect: the authorization code flow, for browsers."
    })
  ) {}
