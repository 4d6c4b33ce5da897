import { Schema } from "effect"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"

export const contentActions = auditActions("GatewayContent", ["GatewayContentRead"])

/** The request and the response of a call, in its caller's dialect. */
const said = {
  dialect: Schema.String.annotate({ examples: ["openai"] }),
  operation: Schema.String.annotate({ examples: ["chat"] }),
  request: Schema.String.annotate({ examples: ['{"model":"loopback-1"}'] }),
  response: Schema.String.annotate({ examples: ['{"object":"chat.completion"}'] }),
  truncated: Schema.Boolean.annotate({ description: "Whether only the first mebibyte of either is here" })
}

export const Said = Schema.Struct(said)
export type Said = typeof Said.Type

/** The request and the response of a call, as authorized readers see them. */
export const GatewayContent = Schema.Struct({
  reservationId: Uuid,
  tenantId: TenantId,
  createdAt: Instant,
  ...said
}).annotate({ identifier: "GatewayContent" })
export type GatewayContent = typeof GatewayContent.Type

export class GatewayContentNotFound extends Problem<GatewayContentNotFound>()("GatewayContentNotFound", {
  slug: "gateway-content-not-found",
  status: 404,
  meaning: "What was said in this call is not kept: it never was, or its time is over."
}) {}
