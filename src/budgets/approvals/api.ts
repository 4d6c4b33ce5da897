import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { AgentId, AgentNotActive } from "../../agents/agents/domain.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { page } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { HandlesIdempotency, IdempotencyKeyReused } from "../../platform/idempotency/domain.ts"
import { FlushSettlements } from "../ledger/api.ts"
import {
  PlanNotActive,
  ReservationId,
  ReservationNotFound,
  ReservationNotHeld,
  StillNoHeadroom
} from "../ledger/domain.ts"
import { Reservation, reservationListing } from "../reservations/domain.ts"
import { Approval, Denial, PendingApproval } from "./domain.ts"

const approve = requires("budgets:approve")
const id = { reservationId: ReservationId }
const reservation = "/api/spend/reservations/:reservationId"

export class ApprovalsApi extends HttpApiGroup.make("approvals")
  .add(
    endpoint.get("list", "/", {
      summary: "List what waits for an approval",
      description: "Held reservations, the newest first, with the caps that govern them.",
      access: approve,
      query: reservationListing.query({
        agentId: Schema.optionalKey(AgentId),
        tenantId: Schema.optionalKey(TenantId)
      }),
      success: page(PendingApproval, reservationListing.position)
    }),
    endpoint
      .post("approve", "/:reservationId/approve", {
        actsOn: reservation,
        evaluation: "as-seen",
        summary: "Approve a held reservation",
        description:
          "Admits it once more. Without room it is 409; `override` then raises caps of mode approval by exactly what is short (budgets:write), never a hard one, nor one over all tenants unless a system caller says so. Neither the requester nor a principal of the same holder can approve it.",
        access: approve,
        params: id,
        payload: Approval,
        success: Reservation,
        error: [
          ReservationNotFound,
          ReservationNotHeld,
          StillNoHeadroom,
          PlanNotActive,
          AgentNotActive,
          Forbidden,
          IdempotencyKeyReused
        ]
      })
      .annotate(HandlesIdempotency, true),
    endpoint
      .post("deny", "/:reservationId/deny", {
        actsOn: reservation,
        evaluation: "as-seen",
        summary: "Deny a held reservation",
        description: "Ends it. Again answers the same.",
        access: approve,
        params: id,
        payload: Denial,
        success: Reservation,
        error: [ReservationNotFound, ReservationNotHeld, Forbidden, IdempotencyKeyReused]
      })
      .annotate(HandlesIdempotency, true)
  )
  .middleware(Idempotency)
  .middleware(FlushSettlements)
  .middleware(Access)
  .prefix("/api/budgets/approvals")
  .annotateMerge(OpenApi.annotations({ title: "Approvals", description: "Reservations that need a decision." })) {}
