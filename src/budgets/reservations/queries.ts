import { Context, Effect, Layer, Option } from "effect"
import { AgentId } from "../../agents/agents/domain.ts"
import { Agents } from "../../agents/agents/service.ts"
import { CurrentPrincipal, type Principal } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { emptySlice } from "../../kernel/http/page.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { scopeOf, Database } from "../../platform/database/database.ts"
import { onReplica, ReadReplica } from "../../platform/database/read-replica.ts"
import { CallPlans, withinTenant } from "../attribution/service.ts"
import {
  type ChargeId,
  type PlanId,
  type ReservationId,
  ReservationNotFound,
  type StoredReservation
} from "../ledger/domain.ts"
import { type Reservation } from "./domain.ts"
import { type ReservationFilter, ReservationsRepository } from "./repository.ts"

/** Reservations as callers may see them: those of their tenant, and of an agent its own. */
export class ReservationQueries extends Context.Service<ReservationQueries>()("app/budgets/ReservationQueries", {
  make: Effect.gen(function* () {
    const agents = yield* Agents
    const database = yield* Database
    const fromReplica = onReplica(yield* ReadReplica, "reservation-list")
    const plans = yield* CallPlans
    const repository = yield* ReservationsRepository

    const find = Effect.fn("ReservationQueries.find")(function* (id: ReservationId) {
      const principal = yield* CurrentPrincipal
      const found = yield* database.read(scopeOf(principal), repository.find(id))
      return yield* Effect.fromOption(Option.filter(found, (one) => isVisible(principal, one))).pipe(
        Effect.mapError(() => new ReservationNotFound({}))
      )
    })

    const charged = Effect.fn("ReservationQueries.charged")(function* (chargeId: ChargeId) {
      const principal = yield* CurrentPrincipal
      const found = yield* database.read(scopeOf(principal), repository.charged(chargeId))
      return Option.filter(found, (one) => isVisible(principal, one))
    })

    /** A filter with its tenant, since rows are found by their tenant first; undefined where nothing can match. */
    const placed = (principal: Principal, filter: ReservationFilter): Effect.Effect<ReservationFilter | undefined> => {
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
      page: ListRequest<ReservationId>
    ) {
      const principal = yield* CurrentPrincipal
      const own = ownAgent(principal)
      if (own !== undefined && filter.agentId !== undefined && filter.agentId !== own) return emptySlice
      const narrowed = yield* placed(principal, own === undefined ? filter : { ...filter, agentId: AgentId.make(own) })
      if (narrowed === undefined) return emptySlice
      const { items, nextCursor } = yield* fromReplica(
        database.read(scopeOf(principal), repository.list(narrowed, page))
      )
      return { items: items.map(toReservation), nextCursor }
    })

    // Counters of caps over all tenants are among them.
    const ends = (ids: ReadonlyArray<ReservationId>) => database.read("all", repository.ends(ids))

    return {
      /** As it is stored. */
      find,
      /** The reservation that a charge belongs to, if the caller sees it. */
      charged,
      /** When the periods end that the reservations count in. */
      ends,
      get: (id: ReservationId) => Effect.map(find(id), toReservation),
      list
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(
    Layer.provide(ReservationsRepository.layer),
    Layer.provide(CallPlans.layer)
  )
}

/** The agent that the caller is, which sees no other agent. */
const ownAgent = ({ kind, name }: Principal): string | undefined =>
  kind === "agent" ? name.slice("agent:".length) : undefined

const isVisible = (principal: Principal, { agentId }: StoredReservation): boolean => {
  const own = ownAgent(principal)
  return own === undefined || own === agentId
}

export const toReservation = (stored: StoredReservation): Reservation => {
  const { actual, amount, answer: _, counterIds: __, ...reservation } = stored
  return { ...reservation, amountUsd: amount, actualUsd: actual }
}
