import { Context, DateTime, Effect, Layer } from "effect"
import { CurrentPrincipal, Forbidden, type Principal } from "../auth/domain.ts"
import { covers } from "../kernel/capability.ts"
import { type Slice } from "../kernel/page.ts"
import { recordedAsker } from "./askers.ts"
import { CallsRepository } from "./call-repository.ts"
import { CapBooks } from "./cap-books.ts"
import { type Dimensions } from "./cap-book.ts"
import { type Approval, type PendingApproval, type Reservation, type ReservationId, spendActions } from "./domain.ts"
import { PlanNotActive, ReservationNotFound, ReservationNotHeld, StillNoHeadroom } from "./problem-domain.ts"
import { LedgerRepository, type StoredReservation } from "./repository.ts"
import { type ReservationFilter } from "./reservation-repository.ts"
import { Reservations } from "./reservations.ts"
import { entryOf } from "./request.ts"
import { booksOf, governingIn } from "./reserve-batch.ts"
import { Ledger } from "./service.ts"
import { reservationView } from "./views.ts"

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
      ReservationNotFound | ReservationNotHeld | StillNoHeadroom | PlanNotActive | Forbidden
    >
    deny(
      id: ReservationId,
      reason: string
    ): Effect.Effect<Reservation, ReservationNotFound | ReservationNotHeld | Forbidden>
  }
>()("app/ledger/Approvals") {
  static readonly layerNoDeps = Layer.effect(
    Approvals,
    Effect.gen(function* () {
      const books = yield* CapBooks
      const calls = yield* CallsRepository
      const ledger = yield* Ledger
      const repository = yield* LedgerRepository
      const reservations = yield* Reservations

      const list = Effect.fn("Approvals.list")(function* (
        filter: ReservationFilter,
        after: ReservationId | undefined,
        limit: number
      ) {
        const { items, nextCursor } = yield* reservations.list({ ...filter, state: "held" }, after, limit)
        const known = yield* booksOf(books.get, items)
        return {
          nextCursor,
          items: items.map((reservation) => ({
            reservation,
            caps: governingIn(known, { tenantId: reservation.tenantId, dimensions: dimensionsOf(reservation) }).map(
              ({ cap }) => ({ capId: cap.id, name: cap.name, resetsAt: null })
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
        if (held.decidedBy === principal.name && held.state !== "held" && held.state !== "denied") {
          return reservationView(held)
        }
        // A call that was held was never made: whoever made it calls with what is approved, or lets it go.
        if (held.origin === "gateway") yield* calls.handOver({ tenant: held.tenantId, id })
        const ceiling = approval.ceilingUsd ?? held.amount
        const result = yield* ledger.reserve({
          principal: principal.name,
          audit: (yield* recordedAsker).audit,
          kind: override ? "override" : "approve",
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
              capId: result.shortage.standing.isPlan ? null : result.shortage.standing.cap.id
            })
          case "plan-inactive":
            return yield* new PlanNotActive({ planStatus: result.planStatus })
          default:
            return yield* new ReservationNotHeld({})
        }
      })

      const deny = Effect.fn("Approvals.deny")(function* (id: ReservationId, reason: string) {
        const principal = yield* CurrentPrincipal
        const held = yield* reservations.find(id)
        yield* mayDecide(principal, held)
        const { audit } = yield* recordedAsker
        const { reservation, verdict } = yield* repository.deny({
          now: DateTime.formatIso(yield* DateTime.now),
          id,
          tenant: held.tenantId,
          principal: principal.name,
          reason,
          entries: [entryOf(1, spendActions.SpendDenied, id, audit, { reason })]
        })
        if (reservation === undefined) return yield* new ReservationNotFound({})
        return verdict === "gone" ? yield* new ReservationNotHeld({}) : reservationView(reservation)
      })

      return Approvals.of({ list, approve, deny })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.merge(LedgerRepository.layer, CallsRepository.layer))
  )
}

/** Nobody decides about what it asked for itself, and no agent about what it spends, whoever asked for it. */
const mayDecide = (principal: Principal, { createdBy }: StoredReservation): Effect.Effect<void, Forbidden> =>
  principal.kind === "agent" || (principal.tenantId !== undefined && principal.name === createdBy)
    ? Effect.fail(new Forbidden({ missing: [], detail: "Who asked for a reservation does not approve it." }))
    : Effect.void

const dimensionsOf = (reservation: {
  readonly [Name in keyof Dimensions]-?: NonNullable<Dimensions[Name]> | null
}): Dimensions => {
  const { agentId, apiKeyId, applicationId, model, provider, taskType, userId } = reservation
  const given = { agentId, apiKeyId, applicationId, model, provider, taskType, userId }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null))
}
