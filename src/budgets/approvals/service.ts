import { Context, type DateTime, Effect, Layer } from "effect"
import { Agents } from "../../agents/agents/service.ts"
import { covers } from "../../kernel/authority/capability.ts"
import { CurrentPrincipal, Forbidden, type Principal } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { outdated } from "../../kernel/http/precondition.ts"
import { checkReplay } from "../../platform/idempotency/domain.ts"
import { auditedRequester } from "../attribution/service.ts"
import { AvailableBudgets, type CapUse } from "../caps/available-budget.ts"
import { countedScope } from "../ledger/cap-index.ts"
import { type ReservationId, ReservationNotFound, type StoredReservation } from "../ledger/domain.ts"
import { learns, mayBeRaised, problemOfRefusal } from "../ledger/problems.ts"
import { type Dimensions } from "../ledger/protocol-domain.ts"
import { totalOf } from "../ledger/quantity-domain.ts"
import { Ledger } from "../ledger/service.ts"
import { type Reservation } from "../reservations/domain.ts"
import { ReservationQueries, toReservation } from "../reservations/queries.ts"
import { type ReservationFilter } from "../reservations/repository.ts"
import { type Approval, type PendingCap } from "./domain.ts"
import { LineageRepository } from "./lineage-repository.ts"

/** Reservations that an exhausted cap of mode `approval` holds, and the decisions about them. */
export class Approvals extends Context.Service<Approvals>()("app/budgets/Approvals", {
  make: Effect.gen(function* () {
    const agents = yield* Agents
    const budgets = yield* AvailableBudgets
    const ledger = yield* Ledger
    const lineage = yield* LineageRepository
    const reservations = yield* ReservationQueries

    /**
     * The requesters whose reservations a principal must not approve: itself, and those that it holds, that hold it or that a
     * third one holds with it. An agent must approve none, since it could approve its own spending through another requester.
     */
    const barredOf = ({ kind, name }: Principal, reservations: ReadonlyArray<Pick<StoredReservation, "createdBy">>) => {
      const requesters = new Set(reservations.map(({ createdBy }) => createdBy))
      if (kind === "agent") return Effect.succeed(requesters)
      if (kind === "service-account") return Effect.succeed(new Set<string>())
      return lineage.ofOneHolder(name, requesters)
    }

    const mayDecide = Effect.fnUntraced(function* (principal: Principal, held: Pick<StoredReservation, "createdBy">) {
      const barred = yield* barredOf(principal, [held])
      if (!barred.has(held.createdBy)) return
      const detail =
        principal.kind === "agent"
          ? "An agent cannot approve reservations."
          : "A reservation cannot be approved by its requester, nor by a principal that created, rotated or re-keyed it, nor by one with the same creator. Sign in as another approver."
      return yield* new Forbidden({ missing: [], detail })
    })

    const list = Effect.fn("Approvals.list")(function* (filter: ReservationFilter, page: ListRequest<ReservationId>) {
      const { items, nextCursor } = yield* reservations.list({ ...filter, state: "held" }, page)
      const uses = yield* budgets.ofEach(
        items.map((reservation) => ({ tenantId: reservation.tenantId, dimensions: dimensionsOf(reservation) }))
      )
      const principal = yield* CurrentPrincipal
      const barred = yield* barredOf(principal, items)
      const ends = new Map(
        (yield* reservations.ends(items.map(({ id }) => id))).map((end) => [`${end.id} ${end.capId}`, end.ends])
      )
      return {
        nextCursor,
        items: items.map((reservation, index) => ({
          reservation,
          mayDecide: !barred.has(reservation.createdBy),
          caps: (uses[index] ?? []).flatMap((use) => {
            if (use.cap.status === "paused") return []
            const end = ends.get(`${reservation.id} ${use.cap.id}`)
            // What a plan has reserved on a cap for all of its calls is no matter of one of them.
            return reservation.planId !== null && end === undefined
              ? []
              : [toPendingCap(principal, use, reservation, end ?? null)]
          })
        }))
      }
    })

    const approve = Effect.fn("Approvals.approve")(function* (id: ReservationId, approval: Approval) {
      const principal = yield* CurrentPrincipal
      const held = yield* reservations.find(id)
      yield* mayDecide(principal, held)
      const override = approval.override === true
      if (override && !principal.capabilities.some((one) => covers(one, "budgets:write"))) {
        return yield* new Forbidden({
          missing: ["budgets:write"],
          detail: "An override raises caps, which requires budgets:write."
        })
      }
      const by = yield* auditedRequester
      if (by.repeatable === undefined && isApprovedBy(principal, held)) return toReservation(held)
      // A repeated request is answered as the first was, whatever became of the agent.
      if (held.agentId !== null && held.state === "held")
        yield* Effect.catchTag(agents.activeTenantOf(held.agentId), "AgentNotFound", Effect.die)
      const ceiling = approval.ceilingUsd ?? held.amount
      const result = yield* ledger.reserve({
        ...by,
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
          return toReservation(result.reservation)
        case "replay":
          yield* checkReplay(result.sha256)
          return toReservation(result.reservation)
        case "changed":
          return yield* outdated
        case "no-room":
          return yield* problemOfRefusal(principal, result)
        case "plan-inactive":
          return yield* problemOfRefusal(principal, result)
        default: {
          // A concurrent request of the same approver gets the same answer.
          const decided = yield* reservations.find(id)
          return isApprovedBy(principal, decided)
            ? toReservation(decided)
            : yield* problemOfRefusal(principal, { verdict: "gone" })
        }
      }
    })

    const deny = Effect.fn("Approvals.deny")(function* (id: ReservationId, reason: string) {
      const principal = yield* CurrentPrincipal
      const held = yield* reservations.find(id)
      yield* mayDecide(principal, held)
      const item = { ...(yield* auditedRequester), id, tenantId: held.tenantId, reason }
      const { reservation, sha256, verdict } = yield* ledger.deny(item)
      if (verdict === "changed") return yield* outdated
      if (verdict === "replay") yield* checkReplay(sha256)
      if (reservation === undefined) return yield* new ReservationNotFound({})
      return verdict === "gone" ? yield* problemOfRefusal(principal, { verdict: "gone" }) : toReservation(reservation)
    })

    return { list, approve, deny }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(
    Layer.provide(Layer.mergeAll(AvailableBudgets.layer, LineageRepository.layer))
  )
}

/** A cap of a held reservation, as far as the caller may see it. */
const toPendingCap = (
  principal: Principal,
  { cap, counterKey, headroom, limit, reserved, spent }: CapUse,
  { amountUsd, tokens }: Pick<Reservation, "amountUsd" | "tokens">,
  resetsAt: DateTime.Utc | null
): PendingCap => {
  const { id: capId, mode, name, unit } = cap
  const requested = { usd: amountUsd, tokens: BigInt(tokens), requests: 1n }[unit]
  const lacking = requested === 0n || mode === "soft" ? 0n : spent + reserved + requested - limit
  const short = lacking > 0n ? lacking : 0n
  const total = (amount: bigint) => totalOf(unit, amount)
  const figures = {
    name,
    mode,
    scope: countedScope(cap.scope, counterKey),
    unit,
    limit: total(limit),
    spent: total(spent),
    reserved: total(reserved),
    headroom: total(headroom),
    requested: total(requested),
    short: total(short)
  }
  const state = { hasRoom: short === 0n, mayRaise: mayBeRaised(principal, cap), resetsAt }
  return { capId, ...(learns(principal, cap) ? figures : {}), ...state }
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
