import { AfterCharges } from "../ledger/api.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { AgentId, AgentNotActive } from "../../identity/agents/domain.ts"
import { Access, requires } from "../../kernel/access.ts"
import { Forbidden } from "../../kernel/principal.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { cursor, page, PageLimit } from "../../kernel/page.ts"
import { integerParameter } from "../../kernel/parameter.ts"
import { Approval, Denial, PendingApproval, Reservation, ReservationId } from "../ledger/domain.ts"
import { PlanNotActive, ReservationNotFound, ReservationNotHeld, StillNoHeadroom } from "../ledger/problem-domain.ts"

const approve = requires("budgets:approve")
const id = { reservationId: ReservationId }
const position = cursor(ReservationId)

export class ApprovalsApi extends HttpApiGroup.make("approvals")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        agentId: Schema.optionalKey(AgentId),
        tenantId: Schema.optionalKey(TenantId),
        limit: Schema.optionalKey(integerParameter(PageLimit)),
        cursor: Schema.optionalKey(position)
      },
      success: page(PendingApproval, position)
    })
      .annotateMerge(approve)
      .annotateMerge(
        OpenApi.annotations({
          summary: "List what waits for an approval",
          description: "Held reservations, the newest first, with the caps that govern them."
        })
      ),
    HttpApiEndpoint.post("approve", "/:reservationId/approve", {
      params: id,
      payload: Approval,
      success: Reservation,
      error: [ReservationNotFound, ReservationNotHeld, StillNoHeadroom, PlanNotActive, AgentNotActive, Forbidden]
    })
      .annotateMerge(approve)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Approve a held reservation",
          description:
            "Admits it once more. Without room it is 409; `override` then raises caps of mode approval by exactly what is short (budgets:write), never a hard one, nor one over all tenants unless a system caller says so. Not by whoever asked for it."
        })
      ),
    HttpApiEndpoint.post("deny", "/:reservationId/deny", {
      params: id,
      payload: Denial,
      success: Reservation,
      error: [ReservationNotFound, ReservationNotHeld, Forbidden]
    })
      .annotateMerge(approve)
      .annotateMerge(
        OpenApi.annotations({ summary: "Deny a held reservation", description: "Ends it. Again answers the same." })
      )
  )
  .middleware(Idempotency)
  .middleware(AfterCharges)
  .middleware(Access)
  .prefix("/api/budgets/approvals")
  .annotateMerge(
    OpenApi.annotations({ title: "Approvals", description: "Reservations that somebody has to let go on." })
  ) {}
