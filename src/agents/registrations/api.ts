import { HttpApiGroup, OpenApi } from "effect/http-api"
import { ApplicationId, ApplicationNotFound } from "../../applications/applications/domain.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { integerParameter } from "../../kernel/http/parameter.ts"
import { PreconditionRequired } from "../../kernel/http/precondition.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { ApiKeyInactive, ApiKeyRotated } from "../api-keys/domain.ts"
import { ApplicationNotPending, RegistrationApproval, RegistrationNotFound, RegistrationView } from "./domain.ts"

const read = requires("applications:read", { systemOnly: true })
const write = requires("applications:write", { systemOnly: true })
const params = { id: integerParameter(ApplicationId) }
const registration = "/api/applications/:id/registration"

export class RegistrationsApi extends HttpApiGroup.make("registrations")
  .add(
    endpoint.get("get", "/registration", {
      answersResource: true,
      summary: "Get the registration of an application",
      description: "What an application that registered itself said, and which scopes it requests. Never its secrets.",
      access: read,
      params,
      success: RegistrationView,
      error: [ApplicationNotFound, RegistrationNotFound]
    }),
    endpoint.post("approve", "/approve", {
      actsOn: registration,
      summary: "Approve the registration of an application",
      description:
        "Grants the `scopes` that it names; without them, what is requested, which needs If-Match with the ETag of the registration that was read. Issues an API key of the tenant, which the application reads once at its registration URI, or widens the key that it has. The caller needs every scope that it grants, and the key ends with the caller's own authority at the latest.",
      access: write,
      params,
      payload: RegistrationApproval,
      success: RegistrationView,
      error: [
        ApplicationNotFound,
        RegistrationNotFound,
        ApplicationNotPending,
        TenantNotFound,
        PreconditionRequired,
        ApiKeyInactive,
        ApiKeyRotated
      ]
    }),
    endpoint.post("reject", "/reject", {
      actsOn: registration,
      summary: "Reject the registration of an application",
      description:
        "The application stays, rejected, and gets no key. One that was approved before and requests more keeps what it has, and is active again.",
      access: write,
      params,
      success: RegistrationView,
      error: [ApplicationNotFound, RegistrationNotFound, ApplicationNotPending]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/applications/:id")
  .annotateMerge(
    OpenApi.annotations({
      title: "Registrations",
      description: "Applications that registered themselves, and wait for an approval."
    })
  ) {}
