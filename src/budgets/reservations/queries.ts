import { Context, Effect, Layer, Option } from "effect"
import { AgentId } from "../../identity/agents/domain.ts"
import { Agents } from "../../identity/agents/service.ts"
import { CurrentPrincipal, type Principal } from "../../kernel/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { emptySlice, type Slice, slice } from "../../kernel/page.ts"
import { scopeOf, Database } from "../../platform/database/database.ts"
import { withinTenant } from "../attribution/service.ts"
import { CallPlans } from "../attribution/call-plans.ts"
import { type ChargeId, type PlanId, type Reservation, type ReservationId } from "../ledger/domain.ts"
import { ReservationNotFound } from "../ledger/problem-domain.ts"
import { type StoredReservation } from "../ledger/repository.ts"
import { type PeriodEnd, type ReservationFilter, ReservationsRepository } from "./repository.ts"
import { reservationView } from "./views.ts"

/** Reservations as callers may see them: a tenant's its own, an agent those for itself. */
export class ReservationQueries extends Context.Service<
  ReservationQueries,
  {
    get(id: ReservationId): Effect.Effect<Reservation, ReservationNotFound>
    /** As it is stored, for whoever decides about it. */
    find(id: ReservationId): Effect.Effect<StoredReservation, ReservationNotFound>
    /** The one that a charge is of, if the caller sees it. */
    charged(chargeId: ChargeId): Effect.Effect<Option.Option<StoredReservation>>
    /** When the periods end that reservations which the caller sees count in. */
    ends(ids: ReadonlyArray<ReservationId>): Effect.Effect<ReadonlyArray<PeriodEnd>>
    list(
      filter: ReservationFilter,
      after: ReservationId | undefined,
      limit: number
    ): Effect.Effect<Slice<Reservation, ReservationId>>
  }
>()("app/budgets/ReservationQueries") {
  static readonly layerNoDeps = Layer.effect(
    ReservationQueries,
    Effect.gen(function* () {
      const agents = yield* Agents
      const database = yield* Database
      const plans = yield* CallPlans
      const repository = yield* ReservationsRepository

      const find = Effect.fn("ReservationQueries.find")(function* (id: ReservationId) {
        const principal = yield* CurrentPrincipal
        const found = yield* database.transaction(scopeOf(principal), repository.find(id))
        return yield* Effect.fromOption(Option.filter(found, (one) => isVisible(principal, one))).pipe(
          Effect.mapError(() => new ReservationNotFound({}))
        )
      })

      const charged = Effect.fn("ReservationQueries.charged")(function* (chargeId: ChargeId) {
        const principal = yield* CurrentPrincipal
        const found = yield* database.transaction(scopeOf(principal), repository.charged(chargeId))
        return Option.filter(found, (one) => isVisible(principal, one))
      })

      /** A filter with the tenant that it is about, since everything is found by its tenant first; nothing where nobody's. */
      const placed = (
        principal: Principal,
        filter: ReservationFilter
      ): Effect.Effect<ReservationFilter | undefined> => {
        const { agentId, planId, tenantId } = filter
        if (principal.tenantId !== undefined || tenantId !== undefined || (agentId ?? planId) === undefined) {
          return Effect.succeed(withinTenant(principal, filter))
        }
        const home: Effect.Effect<TenantId, unknown> =
          agentId === undefined
            ? Effect.map(plans.get(planId as PlanId), (plan) => plan.tenantId)
            : Effect.provideService(agents.tenantOf(agentId), CurrentPrincipal, principal)
        return home.pipe(
          Effect.map((found): ReservationFilter | undefined => ({ ...filter, tenantId: found })),
          Effect.orElseSucceed((): ReservationFilter | undefined => undefined)
        )
      }

      const list = Effect.fn("ReservationQueries.list")(function* (
        filter: ReservationFilter,
        after: ReservationId | undefined,
        limit: number
      ) {
        const principal = yield* CurrentPrincipal
        const own = ownAgent(principal)
        if (own !== undefined && filter.agentId !== undefined && filter.agentId !== own) return emptySlice
        const narrowed = yield* placed(
          principal,
          own === undefined ? filter : { ...filter, agentId: AgentId.make(own) }
        )
        if (narrowed === undefined) return emptySlice
        const rows = yield* database.transaction(scopeOf(principal), repository.list(narrowed, after, limit + 1))
        return slice(rows.map(reservationView), limit, (reservation) => reservation.id)
      })

      // Counters of caps over all tenants are among them.
      const ends = (ids: ReadonlyArray<ReservationId>) => database.transaction("all", repository.ends(ids))

      return ReservationQueries.of({ find, charged, ends, get: (id) => Effect.map(find(id), reservationView), list })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(ReservationsRepository.layer),
    Layer.provide(CallPlans.layer)
  )
}

/** The agent that a caller is; for it there is no other. */
const ownAgent = ({ kind, name }: Principal): string | undefined =>
  kind === "agent" ? name.slice("agent:".length) : undefined

const isVisible = (principal: Principal, { agentId }: StoredReservation): boolean => {
  const own = ownAgent(principal)
  return own === undefined || own === agentId
}
