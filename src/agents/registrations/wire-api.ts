import { Record, Schema } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { foreignEndpoints, oneOf, text } from "../../kernel/http/foreign-endpoint.ts"
import { oauthError } from "../oauth/domain.ts"
import { maxRegistrationBytes, noGrants } from "./domain.ts"

const path = "/api/applications/register"

const texts = (description: string, example: string) =>
  Schema.Array(Schema.String).annotate({ description, examples: [[example]] })

const seconds = (description: string, example: number) =>
  Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 253_402_300_799 })).annotate({
    description,
    examples: [example]
  })

/** What each registration has; the other metadata only if the client sent it. */
const always = {
  redirect_uris: texts(
    "https URLs, http ones of the loopback interface, or such with a scheme like com.example.app",
    "https://billing.example.com/callback"
  ),
  scope: text("The capabilities that it requests, separated by spaces", "llm:complete"),
  contacts: texts("Whom to ask about it", "ops@example.com")
}

const AnyObject = Schema.Record(Schema.String, Schema.Unknown).annotate({ additionalProperties: true })
const metadata = {
  client_name: text("The name of the application; need not be unique", "Billing agent"),
  client_uri: text("Its page, an http or https URL", "https://billing.example.com"),
  jwks: Schema.Struct({ keys: Schema.optionalKey(Schema.Array(AnyObject)) }).annotate({
    description: "Its public keys (RFC 7517); not with jwks_uri",
    additionalProperties: null
  }),
  jwks_uri: text("Where its public keys are: an https URL with a public address", "https://billing.example.com/jwks"),
  software_id: text("The same for all installations of the software", "4NRB1-0XZABZI9E6-5SM3R"),
  software_version: text("Its version", "2.1")
}

const optional = Record.map(metadata, Schema.optionalKey)

const replaced = "Replaced by what the answer has: a registered application has an API key, and no grant of OAuth"
const ClientMetadata = Schema.Struct({
  ...optional,
  ...Record.map(
    {
      ...always,
      token_endpoint_auth_method: text(replaced, "client_secret_basic"),
      grant_types: texts(replaced, "authorization_code"),
      response_types: texts(replaced, "code")
    },
    Schema.optionalKey
  )
}).annotate({
  component: "ClientMetadata",
  description: "Client metadata (RFC 7591 §2); unknown members are ignored, and null is the same as absent",
  additionalProperties: true
})

const noWords = (description: string) =>
  Schema.Array(Schema.String)
    .check(Schema.isMaxLength(0))
    .annotate({ description, examples: [[]] })

const ClientRegistration = Schema.Struct({
  client_id: text("The id of the application", "42"),
  client_id_issued_at: seconds("Since 1970", 1767225600),
  registration_access_token: text(
    "For the registration URI alone",
    "amr_4mXo1ExampleOfATokenThatNobodyHasAnywhere0000"
  ),
  registration_client_uri: text(
    "Where the registration is read, changed and deleted",
    "https://manager.example.com/api/applications/register/42"
  ),
  status: oneOf(
    "`pending` until an administrator approves or rejects it",
    "active",
    "pending",
    "rejected",
    "suspended"
  ),
  client_secret: Schema.optionalKey(
    text(
      "The API key, in the first answer of GET after the approval alone",
      "amk_4fG7hK2mQ9xZexampleOfASecretThatNobodyHasAnywhere000000000000"
    )
  ),
  client_secret_expires_at: Schema.optionalKey(seconds("Since 1970; 0: never", 0)),
  granted_scope: text("What the API key may do now", "llm:complete"),
  token_endpoint_auth_method: oneOf(
    "It cannot authenticate at the token endpoint: its `client_secret` is an API key, for the header X-Api-Key",
    noGrants.token_endpoint_auth_method
  ),
  grant_types: noWords("It has no grant: tokens are issued to agents"),
  response_types: noWords("There is no authorization endpoint"),
  ...optional,
  ...always
}).annotate({
  component: "ClientRegistration",
  description: "A registration (RFC 7591 §3.2.1)",
  additionalProperties: null
})

const endpoint = foreignEndpoints({
  error: oauthError(
    "RegistrationError",
    "An error of RFC 7591 §3.2.2, RFC 6749 §5.2 or RFC 6750 §3.1",
    "invalid_client_metadata",
    "client_name: Expected text without control characters"
  ),
  reasons: {
    400: "`invalid_redirect_uri` or `invalid_client_metadata`: the metadata is not accepted",
    401: "`invalid_token`: there is no token, or it is not accepted; the same for a client that does not exist",
    403: "`access_denied`: the application was rejected or suspended",
    412: "`invalid_request`: If-Match names a tag, which nothing here has",
    413: `The body has more than ${maxRegistrationBytes} bytes`,
    429: "`temporarily_unavailable`: too many requests; Retry-After says when to retry",
    503: "`temporarily_unavailable`: too many open registrations wait for an approval"
  },
  security: [{ bearer: [] }]
})

const params = { clientId: Schema.String.annotate({ description: "The client_id" }) }
const examples = {
  agent: { value: { client_name: "Billing agent", scope: "llm:complete", contacts: ["ops@example.com"] } }
}

/** Registration: its errors do not fit the other groups of the API. */
export class RegistrationApi extends HttpApiGroup.make("registration")
  .add(
    endpoint.post("register", path, {
      payload: ClientMetadata,
      success: ClientRegistration.pipe(HttpApiSchema.status(201)),
      failures: [400, 401, 412, 413, 429, 503],
      summary: "Register an application",
      description:
        "RFC 7591, with a registration token as the bearer token, or with none where `Applications:OpenRegistration` is on. The application is `pending` until an administrator approves it.",
      security: [{ bearer: [] }, {}],
      examples,
      answer: "The registration"
    }),
    endpoint.get("read", `${path}/:clientId`, {
      params,
      success: ClientRegistration,
      failures: [401, 412, 429],
      summary: "Read one's own registration",
      description:
        "RFC 7592. The first answer after the approval has the API key, as `client_secret`; no later one has.",
      answer: "The registration"
    }),
    endpoint.put("update", `${path}/:clientId`, {
      params,
      payload: ClientMetadata,
      success: ClientRegistration,
      failures: [400, 401, 403, 412, 413, 429],
      summary: "Change one's own registration",
      description:
        "RFC 7592: replaces all metadata. Scopes that the API key does not have make the application `pending` again, while the key keeps those that it has; it loses at once what is no longer requested.",
      examples,
      answer: "The registration"
    }),
    endpoint.delete("delete", `${path}/:clientId`, {
      params,
      failures: [401, 412, 429],
      summary: "Delete one's own registration",
      description:
        "RFC 7592. Ends the API key. The application goes too, or is suspended where roles, keys or configuration belong to it.",
      answer: "The registration is gone"
    })
  )
  .annotateMerge(
    OpenApi.annotations({
      title: "Client registration",
      description:
        "Applications register themselves (RFC 7591) and manage their registration (RFC 7592), in the JSON and with the errors of these."
    })
  ) {}
