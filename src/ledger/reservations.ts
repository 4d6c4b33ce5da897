import { Context, Effect, Layer, Option } from "effect"
import { scopeOf } from "../audit/service.ts"
import { CurrentPrincipal, type Principal } from "../auth/domain.ts"
import { type Slice, slice } from "../kernel/page.ts"
import { Database } from "../platform/database.ts"
import { type Reservation, type ReservationId } from "./domain.ts"
import { ReservationNotFound } from "./problem-domain.ts"
import { type StoredReservation } from "./repository.ts"
import { type ReservationFilter, ReservationsRepository } from "./reservation-repository.ts"
import { reservationView } from "./views.ts"

/** Reservations as callers may see them: a tenant's its own, an agent those for itself. */
export class Reservations extends Context.Service<
  Reservations,
  {
    get(id: ReservationId): Effect.Effect<Reservation, ReservationNotFound>
    /** As it is stored, for whoever decides about it. */
    find(id: ReservationId): Effect.Effect<StoredReservation, ReservationNotFound>
    list(
      filter: ReservationFilter,
      after: ReservationId | undefined,
      limit: number
    ): Effect.Effect<Slice<Reservation, ReservationId>>
  }
>()("app/ledger/Reservations") {
  static readonly layerNoDeps = Layer.effect(
    Reservations,
    Effect.gen(function* () {
      const database = yield* Database
      const repository = yield* ReservationsRepository

      const find = Effect.fn("Reservations.find")(function* (id: ReservationId) {
        const principal = yield* CurrentPrincipal
        const found = yield* database.transaction(scopeOf(principal), repository.find(id))
        return yield* Effect.fromOption(Option.filter(found, (one) => isVisible(principal, one))).pipe(
          Effect.mapError(() => new ReservationNotFound({}))
        )
      })

      const list = Effect.fn("Reservations.list")(function* (
        filter: ReservationFilter,
        after: ReservationId | undefined,
        limit: number
      ) {
        const principal = yield* CurrentPrincipal
        const own = ownAgent(principal)
        if (own !== undefined && filter.agentId !== undefined && filter.agentId !== own) {
          return { items: [], nextCursor: null }
        }
        const narrowed = own === undefined ? filter : { ...filter, agentId: own as NonNullable<Reservation["agentId"]> }
        const rows = yield* database.transaction(scopeOf(principal), repository.list(narrowed, after, limit + 1))
        return slice(rows.map(reservationView), limit, (reservation) => reservation.id)
      })

      return Reservations.of({ find, get: (id) => Effect.map(find(id), reservationView), list })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(ReservationsRepository.layer))
}

/** The agent that a caller is; for it there is no other. */
const ownAgent = ({ kind, name }: Principal): string | undefined =>
  kind === "agent" ? name.slice("agent:".length) : undefined

const isVisible = (principal: Principal, { agentId }: StoredReservation): boolean => {
  const own = ownAgent(principal)
  return own === undefined || own === agentId
}
