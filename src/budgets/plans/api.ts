import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { AgentId, AgentNotActive, AgentNotFound } from "../../agents/agents/domain.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
import { page } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { IdempotencyKeyReused, HandlesIdempotency } from "../../platform/idempotency/domain.ts"
import { FlushSettlements } from "../ledger/api.ts"
import { BudgetDenied, PlanId, PlanNotActive, PlanNotFound, PlanStatus } from "../ledger/domain.ts"
import {
  Heartbeat,
  Plan,
  PlanExtension,
  PlanExtensionDenied,
  PlanHasOpenReservations,
  planListing,
  PlanStart
} from "./domain.ts"

const read = requires("plans:read")
const write = requires("plans:write")
const agent = { agentId: AgentId }
const one = { agentId: AgentId, planId: PlanId }

export class PlansApi extends HttpApiGroup.make("plans")
  .add(
    endpoint
      .post("start", "/", {
        summary: "Start a plan",
        description:
          "Holds the budget on every cap in US dollars that governs the plan, names no more than agents, applications and task types and has a period of a week or longer; or on none, and answers 402. Calls that name the plan draw on it.",
        access: write,
        params: agent,
        payload: PlanStart,
        success: Created(Plan),
        error: [
          AgentNotFound,
          AgentNotActive,
          PlanNotFound,
          PlanNotActive,
          BudgetDenied,
          ValidationFailed,
          IdempotencyKeyReused
        ]
      })
      .annotate(HandlesIdempotency, true),
    endpoint.get("list", "/", {
      summary: "List the plans of an agent",
      description: "The newest first.",
      access: read,
      params: agent,
      query: planListing.query({ status: Schema.optionalKey(PlanStatus) }),
      success: page(Plan, planListing.position),
      error: AgentNotFound
    }),
    endpoint.get("get", "/:planId", {
      summary: "Get a plan",
      description: "With what it has spent, holds and has left.",
      access: read,
      params: one,
      success: Plan,
      error: [AgentNotFound, PlanNotFound]
    }),
    endpoint
      .post("extend", "/:planId/extend", {
        evaluation: "as-seen",
        summary: "Extend the budget of a plan",
        description:
          "On all caps that govern it now, in their periods of now, or on none: 400 says what each has left. What the plan held on periods that are over moves to those of now; what its open calls give back later stays with theirs, and the plan's budget is the less.",
        access: write,
        params: one,
        payload: PlanExtension,
        success: Plan,
        error: [
          AgentNotFound,
          AgentNotActive,
          PlanNotFound,
          PlanNotActive,
          PlanExtensionDenied,
          ValidationFailed,
          IdempotencyKeyReused
        ]
      })
      .annotate(HandlesIdempotency, true),
    endpoint
      .post("complete", "/:planId/complete", {
        evaluation: "as-seen",
        summary: "Complete a plan",
        description: "Gives back what is not spent. Refused while calls are open; again answers the same.",
        access: write,
        params: one,
        success: Plan,
        error: [AgentNotFound, PlanNotFound, PlanNotActive, PlanHasOpenReservations, IdempotencyKeyReused]
      })
      .annotate(HandlesIdempotency, true),
    endpoint
      .post("abort", "/:planId/abort", {
        evaluation: "as-seen",
        summary: "Abort a plan",
        description:
          "Gives back what is not spent, and releases its open reservations. Calls in flight settle late and are charged. Again answers the same.",
        access: write,
        params: one,
        success: Plan,
        error: [AgentNotFound, PlanNotFound, PlanNotActive, IdempotencyKeyReused]
      })
      .annotate(HandlesIdempotency, true),
    endpoint
      .post("heartbeat", "/:planId/heartbeat", {
        evaluation: "as-seen",
        summary: "Keep a plan alive",
        description:
          "Says until when it lives on; revives one that is suspended. A plan of an agent that is suspended or retired is not kept alive.",
        access: write,
        params: one,
        success: Heartbeat,
        error: [AgentNotFound, AgentNotActive, PlanNotFound, PlanNotActive, IdempotencyKeyReused]
      })
      .annotate(HandlesIdempotency, true)
  )
  .middleware(Idempotency)
  .middleware(FlushSettlements)
  .middleware(Access)
  .prefix("/api/agents/:agentId/plans")
  .annotateMerge(
    OpenApi.annotations({ title: "Plans", description: "Budgets of agents for a unit of work, drawn on call by call." })
  ) {}

export class AllPlansApi extends HttpApiGroup.make("allPlans")
  .add(
    endpoint.get("list", "/", {
      summary: "List plans",
      description:
        "Of all agents that the caller may see, the newest first: a tenant's caller sees its tenant's, a system caller all of them, an agent its own.",
      access: read,
      query: planListing.query({
        status: Schema.optionalKey(PlanStatus),
        agentId: Schema.optionalKey(AgentId),
        tenantId: Schema.optionalKey(TenantId)
      }),
      success: page(Plan, planListing.position)
    })
  )
  .middleware(FlushSettlements)
  .middleware(Access)
  .prefix("/api/plans")
  .annotateMerge(OpenApi.annotations({ title: "All plans", description: "The plans of all agents." })) {}
