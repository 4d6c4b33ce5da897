import { withForeign } from "../../kernel/http/foreign-format.ts"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { maxRegistrationBytes } from "./domain.ts"

const tag = {
  name: "Client registration",
  description:
    "Applications register themselves (RFC 7591) and manage their registration (RFC 7592), in the JSON and with the errors of these."
}

const text = (description: string, example: string): Json => ({ type: "string", description, examples: [example] })
const texts = (description: string, ...examples: ReadonlyArray<string>): Json => ({
  type: "array",
  items: { type: "string" },
  description,
  examples: [examples]
})

const seconds = (description: string, example: number): Json => ({
  type: "integer",
  minimum: 0,
  maximum: 253_402_300_799,
  description,
  examples: [example]
})

const metadata: Json = {
  client_name: text("The name of the application; need not be unique", "Billing agent"),
  client_uri: text("Its page, an http or https URL", "https://billing.example.com"),
  redirect_uris: texts(
    "https URLs, http ones of the loopback interface, or such with a scheme like com.example.app",
    "https://billing.example.com/callback"
  ),
  jwks: {
    type: "object",
    description: "Its public keys (RFC 7517); not with jwks_uri",
    properties: { keys: { type: "array", items: { type: "object", additionalProperties: true } } }
  },
  jwks_uri: text("Where its public keys are: an https URL with a public address", "https://billing.example.com/jwks"),
  scope: text("The capabilities that it requests, separated by spaces", "llm:complete"),
  contacts: texts("Whom to ask about it", "ops@example.com"),
  software_id: text("The same for all installations of the software", "4NRB1-0XZABZI9E6-5SM3R"),
  software_version: text("Its version", "2.1")
}

const request = {
  type: "object",
  description: "Client metadata (RFC 7591 §2); unknown members are ignored, and null is the same as absent",
  properties: metadata,
  additionalProperties: true
}

const response = {
  type: "object",
  description: "A registration (RFC 7591 §3.2.1)",
  required: [
    "client_id",
    "client_id_issued_at",
    "registration_access_token",
    "registration_client_uri",
    "status",
    "scope",
    "granted_scope",
    "redirect_uris",
    "contacts"
  ],
  properties: {
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
    status: {
      type: "string",
      enum: ["active", "pending", "rejected", "suspended"],
      description: "`pending` until an administrator approves or rejects it"
    },
    client_secret: text(
      "The API key, in the first answer of GET after the approval alone",
      "amk_4fG7hK2mQ9xZexampleOfASecretThatNobodyHasAnywhere000000000000"
    ),
    client_secret_expires_at: seconds("Since 1970; 0: never", 0),
    granted_scope: text("What the API key may do now", "llm:complete"),
    ...metadata
  }
}

const registrationError = {
  type: "object",
  description: "An error of RFC 7591 §3.2.2, RFC 6749 §5.2 or RFC 6750 §3.1",
  required: ["error", "error_description"],
  properties: {
    error: text("What went wrong, for the client", "invalid_client_metadata"),
    error_description: text("The same for people", "client_name: Expected text without control characters")
  }
}

const reasons = {
  400: "`invalid_redirect_uri` or `invalid_client_metadata`: the metadata is not accepted",
  401: "`invalid_token`: there is no token, or it is not accepted; the same for a client that does not exist",
  403: "`access_denied`: the application was rejected or suspended",
  413: `The body has more than ${maxRegistrationBytes} bytes`,
  429: "`temporarily_unavailable`: too many requests; Retry-After says when to retry",
  503: "`temporarily_unavailable`: too many open registrations wait for an approval"
}

const failures = (statuses: ReadonlyArray<keyof typeof reasons>): Json =>
  Object.fromEntries(
    statuses.map((status) => [
      String(status),
      {
        description: reasons[status],
        content: { "application/json": { schema: { $ref: "#/components/schemas/RegistrationError" } } }
      }
    ])
  )

const registered = (description: string): Json => ({
  description,
  content: { "application/json": { schema: { $ref: "#/components/schemas/ClientRegistration" } } }
})

const body = {
  required: true,
  content: {
    "application/json": {
      schema: { $ref: "#/components/schemas/ClientMetadata" },
      examples: {
        agent: { value: { client_name: "Billing agent", scope: "llm:complete", contacts: ["ops@example.com"] } }
      }
    }
  }
}

const operation = (operationId: string, summary: string, description: string, rest: Json): Json => ({
  operationId: `registration.${operationId}`,
  summary,
  description,
  tags: [tag.name],
  "x-foreign-format": true,
  ...rest
})

const bearer = [{ bearer: [] }]
const parameters = [
  {
    name: "clientId",
    in: "path",
    required: true,
    schema: { type: "string" },
    description: "The client_id"
  }
]

/** Adds registration to the document: its errors do not fit the groups of the API. */
export const withRegistration = withForeign({
  tag,
  schemas: { ClientMetadata: request, ClientRegistration: response, RegistrationError: registrationError },
  paths: {
    "/api/applications/register": {
      post: operation(
        "register",
        "Register an application",
        "RFC 7591, with a registration token as the bearer token, or with none where `Applications:OpenRegistration` is on. The application is `pending` until an administrator approves it.",
        {
          security: [...bearer, {}],
          requestBody: body,
          responses: { 201: registered("The registration"), ...failures([400, 401, 413, 429, 503]) }
        }
      )
    },
    "/api/applications/register/{clientId}": {
      get: operation(
        "read",
        "Read one's own registration",
        "RFC 7592. The first answer after the approval has the API key, as `client_secret`; no later one has.",
        {
          security: bearer,
          parameters,
          responses: { 200: registered("The registration"), ...failures([401, 429]) }
        }
      ),
      put: operation(
        "update",
        "Change one's own registration",
        "RFC 7592: replaces all metadata. Scopes that the API key does not have make the application `pending` again, while the key keeps those that it has; it loses at once what is no longer requested.",
        {
          security: bearer,
          parameters,
          requestBody: body,
          responses: { 200: registered("The registration"), ...failures([400, 401, 403, 413, 429]) }
        }
      ),
      delete: operation(
        "delete",
        "Delete one's own registration",
        "RFC 7592. Ends the API key. The application goes too, or is suspended where roles, keys or configuration belong to it.",
        {
          security: bearer,
          parameters,
          responses: { 204: { description: "The registration is gone" }, ...failures([401, 429]) }
        }
      )
    }
  }
})
