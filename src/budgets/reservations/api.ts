import { Schema } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { AgentId, AgentNotActive, AgentNotFound } from "../../agents/agents/domain.ts"
import { ApplicationNotFound } from "../../applications/applications/domain.ts"
import { Access, LimitedByCaps, requires } from "../../kernel/authority/access.ts"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
import { page } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { IdempotencyKeyReused, HandlesIdempotency } from "../../platform/idempotency/domain.ts"
import { FlushSettlements } from "../ledger/api.ts"
import {
  BudgetDenied,
  CapId,
  ChargeNotFound,
  CounterFull,
  PlanId,
  PlanNotActive,
  PlanNotFound,
  PriceUnknown,
  RefundExceedsCharge,
  ReservationId,
  ReservationManaged,
  ReservationNotFound,
  ReservationNotOpen,
  ReservationSettled,
  ReservationState
} from "../ledger/domain.ts"
import {
  ExtendRequest,
  HeldReservation,
  OpenedReservation,
  Reconciled,
  ReconcileRequest,
  Refund,
  RefundRequest,
  Reservation,
  reservationListing,
  ReserveRequest
} from "./domain.ts"

const read = requires("spend:read")
const write = requires("spend:write")
const refund = requires("budgets:write")
const id = { id: ReservationId }

const Location = Schema.String.annotate({
  description: "Path of the reservation",
  examples: ["/api/spend/reservations/0198a5b0-7c00-7000-8000-00000000002a"]
})

export class SpendApi extends HttpApiGroup.make("spend")
  .add(
    endpoint
      .post("reserve", "/reserve", {
        summary: "Reserve budget",
        description:
          "Reserves an amount on every cap that applies, or on none: 402 names the first cap without room. A cap of mode `approval` without room holds the reservation (202) until it is approved. Under a plan it draws on the plan's budget. An amount that is not settled is released when the reservation expires. Nothing is reserved for a suspended or retired agent.",
        access: write,
        payload: ReserveRequest,
        success: [
          Created(OpenedReservation),
          HttpApiSchema.WithHeaders(HeldReservation.pipe(HttpApiSchema.status(202)), { location: Location })
        ],
        error: [
          BudgetDenied,
          AgentNotFound,
          AgentNotActive,
          ApplicationNotFound,
          PlanNotFound,
          PlanNotActive,
          PriceUnknown,
          Forbidden,
          ValidationFailed,
          IdempotencyKeyReused
        ]
      })
      .annotate(HandlesIdempotency, true)
      .annotate(LimitedByCaps, true),
    endpoint
      .post("reconcile", "/reconcile", {
        summary: "Settle a reservation",
        description:
          "Charges the actual cost, even if it is more than was reserved or comes late, and releases the rest at once. Repeating it returns the same response.",
        access: write,
        payload: ReconcileRequest,
        success: Reconciled,
        error: [
          ReservationNotFound,
          ReservationManaged,
          ReservationSettled,
          ReservationNotOpen,
          CounterFull,
          PriceUnknown,
          Forbidden,
          ValidationFailed,
          IdempotencyKeyReused
        ]
      })
      .annotate(HandlesIdempotency, true)
      .annotate(LimitedByCaps, true),
    endpoint.get("list", "/reservations", {
      summary: "List reservations",
      description: "The newest first; an agent sees its own.",
      access: read,
      query: reservationListing.query({
        state: Schema.optionalKey(ReservationState),
        agentId: Schema.optionalKey(AgentId),
        planId: Schema.optionalKey(PlanId),
        capId: Schema.optionalKey(CapId),
        tenantId: Schema.optionalKey(TenantId)
      }),
      success: page(Reservation, reservationListing.position)
    }),
    endpoint.get("get", "/reservations/:id", {
      summary: "Get a reservation",
      description: "One reservation by id.",
      access: read,
      params: id,
      success: Reservation,
      error: ReservationNotFound
    }),
    endpoint
      .delete("release", "/reservations/:id", {
        evaluation: "as-seen",
        summary: "Release a reservation",
        description: "Releases the reserved amount. Repeating it is 204; a settled reservation is 409.",
        access: write,
        params: id,
        error: [ReservationNotFound, ReservationManaged, ReservationSettled, ReservationNotOpen, Forbidden]
      })
      .annotate(LimitedByCaps, true),
    endpoint
      .post("extend", "/reservations/:id/extend", {
        evaluation: "as-seen",
        summary: "Extend a reservation",
        description: "Sets the expiry of an open reservation to `ttlSeconds` from now.",
        access: write,
        params: id,
        payload: ExtendRequest,
        success: Reservation,
        error: [
          ReservationNotFound,
          ReservationManaged,
          ReservationSettled,
          ReservationNotOpen,
          Forbidden,
          IdempotencyKeyReused
        ]
      })
      .annotate(HandlesIdempotency, true),
    endpoint
      .post("refund", "/refunds", {
        summary: "Refund a charge",
        description:
          "Refunds a part of a charge, in the periods in which it was charged. A principal cannot refund its own charge, nor one of the same holder, unless it is a system principal, and an agent cannot refund at all.",
        access: refund,
        payload: RefundRequest,
        success: Refund.pipe(HttpApiSchema.status(201)),
        error: [ChargeNotFound, RefundExceedsCharge, Forbidden, IdempotencyKeyReused]
      })
      .annotate(HandlesIdempotency, true)
  )
  .middleware(Idempotency)
  .middleware(FlushSettlements)
  .middleware(Access)
  .prefix("/api/spend")
  .annotateMerge(
    OpenApi.annotations({
      title: "Spend",
      description: "Reserve budget before a call and settle the actual cost after it."
    })
  ) {}
