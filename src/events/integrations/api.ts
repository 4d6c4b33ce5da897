import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
import { cursor, page, pageQuery } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { OneTimeSecrets } from "../../platform/idempotency/domain.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import {
  Delivery,
  DeliveryId,
  DeliveryNotFound,
  DeliveryStatus,
  IntegrationNotFound,
  TargetId,
  targetListing,
  TooManyEventTargets
} from "../deliveries/domain.ts"
import {
  CreatedIntegration,
  Integration,
  IntegrationCreation,
  IntegrationPatch,
  Replayed,
  ReplayRequest,
  RotatedSecret,
  SecretRotation,
  TestResult
} from "./domain.ts"

const read = requires("integrations:read")
const write = requires("integrations:write")
/** What sends events to another place than before; a caller that cannot read events cannot have them sent either. */
const send = requires("integrations:write", { and: ["events:read"] })
const deliveryPosition = cursor(DeliveryId)
const params = { id: TargetId }
const integrations = crudEndpoints("an integration", {
  read,
  write,
  id: TargetId,
  view: Integration,
  notFound: IntegrationNotFound
})

export class IntegrationsApi extends HttpApiGroup.make("integrations")
  .add(
    integrations.list({
      description: "In order of creation.",
      query: targetListing.query({ tenantId: Schema.optionalKey(TenantId) }),
      success: page(Integration, targetListing.position)
    }),
    integrations.get({ description: "One integration by id; its secret is not shown again." }),
    endpoint
      .post("create", "/", {
        summary: "Create an integration",
        description:
          "Delivers the events that come next and have one of the types; only a caller who may read events may send them elsewhere. `secret` is in this response only. The address has to be of the public internet, unless Integrations:AllowPrivateAddresses.",
        access: send,
        payload: IntegrationCreation,
        success: Created(CreatedIntegration),
        error: [TenantNotFound, TooManyEventTargets, ValidationFailed, Forbidden]
      })
      .annotate(OneTimeSecrets, ["secret"]),
    endpoint.patch("update", "/:id", {
      evaluation: "by-service",
      summary: "Change an integration",
      description: "One that becomes active again gets what comes next; `replay` brings what it missed.",
      access: send,
      params,
      payload: IntegrationPatch,
      success: Integration,
      error: [IntegrationNotFound, ValidationFailed]
    }),
    integrations.delete({
      evaluation: "by-service",
      description: "Its deliveries are deleted too; those that wait are not made."
    }),
    endpoint.post("test", "/:id/test", {
      evaluation: "ahead",
      summary: "Test an integration",
      description: "Sends an event `com.application-manager.integration.tested` now; 200 also when that fails.",
      access: write,
      params,
      success: TestResult,
      error: IntegrationNotFound
    }),
    endpoint
      .post("rotateSecret", "/:id/rotate-secret", {
        evaluation: "by-service",
        summary: "Rotate the secret of an integration",
        description:
          "Returns a new secret. The one in use signs too until the overlap has passed, so that receivers can change it; one that it replaced before signs no longer.",
        access: write,
        params,
        payload: SecretRotation,
        success: RotatedSecret,
        error: IntegrationNotFound
      })
      .annotate(OneTimeSecrets, ["secret"]),
    endpoint.get("deliveries", "/:id/deliveries", {
      summary: "List deliveries",
      description: "The newest first; kept for 30 days.",
      access: read,
      params,
      query: { status: Schema.optionalKey(DeliveryStatus), ...pageQuery(deliveryPosition) },
      success: page(Delivery, deliveryPosition),
      error: IntegrationNotFound
    }),
    endpoint.post("retry", "/:id/deliveries/:deliveryId/retry", {
      summary: "Retry a delivery",
      description: "Attempts it now, also when it was delivered or had failed for good.",
      access: write,
      params: { id: TargetId, deliveryId: DeliveryId },
      success: Delivery,
      error: [IntegrationNotFound, DeliveryNotFound]
    }),
    endpoint.post("replay", "/:id/replay", {
      summary: "Replay events",
      description: "Delivers every event since a moment that the integration wants once more, with the same ids.",
      access: send,
      params,
      payload: ReplayRequest,
      success: Replayed,
      error: IntegrationNotFound
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/integrations")
  .annotateMerge(
    OpenApi.annotations({ title: "Integrations", description: "Events that are sent to other systems." })
  ) {}
