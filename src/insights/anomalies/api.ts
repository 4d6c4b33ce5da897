import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { cursor, page, pageQuery } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import {
  Anomaly,
  AnomalyDimension,
  AnomalyId,
  AnomalyKind,
  AnomalyNotFound,
  AnomalyPatch,
  AnomalyStatus
} from "./domain.ts"

const position = cursor(AnomalyId)

export class AnomaliesApi extends HttpApiGroup.make("anomalies")
  .add(
    endpoint.get("list", "/", {
      summary: "List anomalies",
      description:
        "The newest first: episodes of cost that their own past makes improbable and that are worth money, each once.",
      access: requires("insights:read"),
      query: {
        status: Schema.optionalKey(AnomalyStatus),
        kind: Schema.optionalKey(AnomalyKind),
        dimension: Schema.optionalKey(AnomalyDimension),
        tenantId: Schema.optionalKey(TenantId),
        ...pageQuery(position)
      },
      success: page(Anomaly, position),
      error: Forbidden
    }),
    endpoint.get("get", "/:id", {
      summary: "Get an anomaly",
      description: "One anomaly by id.",
      access: requires("insights:read"),
      params: { id: AnomalyId },
      success: Anomaly,
      error: AnomalyNotFound
    }),
    endpoint.patch("update", "/:id", {
      summary: "Acknowledge or dismiss an anomaly",
      description: "With a reason, which the audit log keeps; the status `open` opens it again.",
      access: requires("insights:write"),
      params: { id: AnomalyId },
      payload: AnomalyPatch,
      success: Anomaly,
      error: [AnomalyNotFound, ValidationFailed]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/insights/anomalies")
  .annotateMerge(OpenApi.annotations({ title: "Anomalies", description: "Cost that is not as usual." })) {}
