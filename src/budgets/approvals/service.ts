import { Context, Effect, Layer } from "effect"
import { type AgentNotActive } from "../../identity/agents/domain.ts"
import { Agents } from "../../identity/agents/service.ts"
import { CurrentPrincipal, Forbidden, type Principal } from "../../kernel/principal.ts"
import { covers } from "../../kernel/capability.ts"
import { type Slice } from "../../kernel/page.ts"
import { Database } from "../../platform/database/database.ts"
import { auditedRequester } from "../attribution/service.ts"
import { CallsRepository } from "../ledger/call-repository.ts"
import { CapIndexes } from "../ledger/cap-books.ts"
import { type Dimensions } from "../ledger/cap-index.ts"
import { type Approval, type PendingApproval, type Reservation, type ReservationId } from "../ledger/domain.ts"
import { PlanNotActive, ReservationNotFound, ReservationNotHeld, StillNoHeadroom } from "../ledger/problem-domain.ts"
import { CreatorChainRepository } from "./creator-chain-repository.ts"
import { type StoredReservation } from "../ledger/repository.ts"
import { type ReservationFilter } from "../reservations/repository.ts"
import { ReservationQueries } from "../reservations/queries.ts"
import { booksOf, applicableCaps } from "../ledger/reserve-batch.ts"
import { Ledger } from "../ledger/service.ts"
import { namedCapView, reservationView } from "../reservations/views.ts"

/** Reservations that an exhausted cap of mode approval holds, and who lets them go on. */
export class Approvals extends Context.Service<
  Approvals,
  {
    list(
      filter: ReservationFilter,
      after: ReservationId | undefined,
      limit: number
    ): Effect.Effect<Slice<PendingApproval, ReservationId>>
    approve(
      id: ReservationId,
      approval: Approval
    ): Effect.Effect<
      Reservation,
      ReservationNotFound | ReservationNotHeld | StillNoHeadroom | PlanNotActive | AgentNotActive | Forbidden
    >
    deny(
      id: ReservationId,
      reason: string
    ): Effect.Effect<Reservation, ReservationNotFound | ReservationNotHeld | Forbidden>
  }
>()("app/budgets/Approvals") {
  static readonly layerNoDeps = Layer.effect(
    Approvals,
    Effect.gen(function* () {
      const agents = yield* Agents
      const books = yield* CapIndexes
      const calls = yield* CallsRepository
      const database = yield* Database
      const ledger = yield* Ledger
      const makers = yield* CreatorChainRepository
      const reservations = yield* ReservationQueries

      /**
       * Nobody decides about what it asked for itself, or what is asked by whom it made, or was made by; and no agent about
       * what it spends, whoever asked for it.
       */
      const mayDecide = Effect.fnUntraced(function* (
        { kind, name, tenantId }: Principal,
        { createdBy }: StoredReservation
      ) {
        if (kind === "agent") return yield* new Forbidden({ missing: [], detail: "An agent approves nothing." })
        if (tenantId === undefined) return
        const lines = Effect.all([makers.of(createdBy), makers.of(name)])
        const [above, below] = yield* database.transaction("all", lines)
        if (name === createdBy || above.includes(name) || below.includes(createdBy)) {
          const detail = "Who asked for a reservation does not approve it, nor who made that, nor who was made by it."
          return yield* new Forbidden({ missing: [], detail })
        }
      })

      const list = Effect.fn("Approvals.list")(function* (
        filter: ReservationFilter,
        after: ReservationId | undefined,
        limit: number
      ) {
        const { items, nextCursor } = yield* reservations.list({ ...filter, state: "held" }, after, limit)
        const known = yield* booksOf(books.get, items)
        const principal = yield* CurrentPrincipal
        const ends = new Map(
          (yield* reservations.ends(items.map(({ id }) => id))).map((end) => [`${end.id} ${end.capId}`, end.ends])
        )
        return {
          nextCursor,
          items: items.map((reservation) => ({
            reservation,
            caps: applicableCaps(known, { tenantId: reservation.tenantId, dimensions: dimensionsOf(reservation) }).map(
              ({ cap }) => namedCapView(principal, cap, ends.get(`${reservation.id} ${cap.id}`) ?? null)
            )
          }))
        }
      })

      const approve = Effect.fn("Approvals.approve")(function* (id: ReservationId, approval: Approval) {
        const principal = yield* CurrentPrincipal
        const held = yield* reservations.find(id)
        yield* mayDecide(principal, held)
        const override = approval.override === true
        if (override && !principal.capabilities.some((one) => covers(one, "budgets:write"))) {
          return yield* new Forbidden({ missing: ["budgets:write"], detail: "An override raises caps." })
        }
        if (isApprovedBy(principal, held)) return reservationView(held)
        if (held.agentId !== null)
          yield* Effect.catchTag(agents.activeTenantOf(held.agentId), "AgentNotFound", Effect.die)
        // A call that was held was never made: whoever made it calls with what is approved, or lets it go.
        if (held.origin === "gateway") yield* calls.handOver({ tenant: held.tenantId, id })
        const ceiling = approval.ceilingUsd ?? held.amount
        const result = yield* ledger.reserve({
          principal: principal.name,
          audit: (yield* auditedRequester).audit,
          kind: override ? "override" : "approve",
          confined: principal.tenantId !== undefined,
          id,
          tenantId: held.tenantId,
          origin: held.origin,
          plan: held.planId === null ? undefined : { id: held.planId, name: null },
          dimensions: dimensionsOf(held),
          amount: held.amount < ceiling ? held.amount : ceiling,
          tokens: held.tokens,
          ttlSeconds: held.ttlSeconds,
          reason: approval.reason
        })
        switch (result.verdict) {
          case "approved":
            return reservationView(result.reservation)
          case "no-room":
          case "denied":
            return yield* new StillNoHeadroom({
              capId: result.insufficient.budget.isPlan ? null : result.insufficient.budget.cap.id
            })
          case "plan-inactive":
            return yield* new PlanNotActive({ planStatus: result.planStatus })
          default: {
            // The same approver may have been at it at the same time: it gets the same answer.
            const decided = yield* reservations.find(id)
            return isApprovedBy(principal, decided) ? reservationView(decided) : yield* new ReservationNotHeld({})
          }
        }
      })

      const deny = Effect.fn("Approvals.deny")(function* (id: ReservationId, reason: string) {
        const principal = yield* CurrentPrincipal
        const held = yield* reservations.find(id)
        yield* mayDecide(principal, held)
        const { audit } = yield* auditedRequester
        const item = { principal: principal.name, audit, id, tenantId: held.tenantId, reason }
        const { reservation, verdict } = yield* ledger.deny(item)
        if (reservation === undefined) return yield* new ReservationNotFound({})
        return verdict === "gone" ? yield* new ReservationNotHeld({}) : reservationView(reservation)
      })

      return Approvals.of({ list, approve, deny })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.merge(CreatorChainRepository.layer, CallsRepository.layer))
  )
}

const isApprovedBy = ({ name }: Principal, { decidedBy, state }: StoredReservation): boolean =>
  decidedBy === name && state !== "held" && state !== "denied"

const dimensionsOf = (reservation: {
  readonly [Name in keyof Dimensions]-?: NonNullable<Dimensions[Name]> | null
}): Dimensions => {
  const { agentId, apiKeyId, applicationId, model, provider, taskType, userId } = reservation
  const given = { agentId, apiKeyId, applicationId, model, provider, taskType, userId }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null))
}
