import { Context, DateTime, Effect, Layer } from "effect"
import { CurrentPrincipal, Forbidden, type Principal } from "../../kernel/principal.ts"
import { type BudgetSubject } from "../attribution/service.ts"
import { type TransferOutcome, CallsRepository } from "../ledger/call-repository.ts"
import { CapIndexes } from "../ledger/cap-books.ts"
import { allTenants } from "../ledger/cap-domain.ts"
import { type ReservationId } from "../ledger/domain.ts"
import {
  BudgetDenied,
  PlanNotActive,
  PlanNotFound,
  ReservationManaged,
  ReservationNotFound,
  ReservationNotOpen,
  ReservationTooSmall
} from "../ledger/problem-domain.ts"
import { type InsufficientBudget } from "../ledger/request.ts"
import { booksOf, applicableCaps } from "../ledger/reserve-batch.ts"
import { Ledger } from "../ledger/service.ts"
import { denialOf } from "./views.ts"

/** A prepared or approved reservation that a call of the gateway takes over. */
export interface ReservationTransfer extends BudgetSubject {
  readonly id: ReservationId
  /** What the reservation has, all of which is taken over. */
  readonly reserved: bigint
  /** What the call may cost and use at most. */
  readonly amount: bigint
  readonly tokens: number
  readonly ttlSeconds: number
}

/** What a call has by it. */
export interface TransferredReservation {
  readonly amount: bigint
  readonly tokens: number
  /** What the caps in money leave beside it; null where none governs. */
  readonly roomNanoUsd: bigint | null
}

/** Why a reservation is none that a call may use. */
export type TransferError =
  | BudgetDenied
  | Forbidden
  | PlanNotActive
  | PlanNotFound
  | ReservationManaged
  | ReservationNotFound
  | ReservationNotOpen
  | ReservationTooSmall

/** Reservations that were made ahead of a call, and become the gateway's when it is made. */
export class ReservationTransfers extends Context.Service<
  ReservationTransfers,
  {
    /** In one step with what the caps that govern the call lack; with another principal, agent or plan it is none. */
    adopt(adoption: ReservationTransfer): Effect.Effect<TransferredReservation, TransferError>
  }
>()("app/budgets/ReservationTransfers") {
  static readonly layerNoDeps = Layer.effect(
    ReservationTransfers,
    Effect.gen(function* () {
      const books = yield* CapIndexes
      const ledger = yield* Ledger
      const repository = yield* CallsRepository

      const decide = Effect.fnUntraced(function* (principal: Principal, adoption: ReservationTransfer) {
        const { dimensions, plan, tenantId } = adoption
        for (;;) {
          const known = yield* booksOf(books.get, [adoption])
          const governing = applicableCaps(known, adoption)
          const outcome = yield* repository.adopt({
            now: DateTime.formatIso(yield* DateTime.now),
            books: Array.from(known, ([tenant, { version }]) => ({ tenant, version: Number(version) })),
            counters: governing.map(({ cap, counterKey }, index) => ({
              place: index + 1,
              tenant: cap.tenantId,
              cap: cap.id,
              key: counterKey
            })),
            id: adoption.id,
            tenant: tenantId,
            principal: principal.name,
            agent: dimensions.agentId,
            plan: plan?.id,
            model: dimensions.model,
            provider: dimensions.provider,
            task_type: dimensions.taskType,
            amount: Number(adoption.amount),
            tokens: adoption.tokens,
            ttl: adoption.ttlSeconds
          })
          if (outcome.verdict !== "stale") return { governing, outcome }
          yield* books.refresh([...known.keys()])
        }
      })

      const adopt = Effect.fn("ReservationTransfers.adopt")(function* (adoption: ReservationTransfer) {
        const principal = yield* CurrentPrincipal
        let { governing, outcome } = yield* decide(principal, adoption)
        if (outcome.verdict === "denied") {
          // What was charged or has expired takes no room: it is written and swept before anybody is refused for it.
          const ofAll = governing.some(({ cap }) => cap.tenantId === allTenants)
          yield* ledger.flushSettlements(ofAll ? null : adoption.tenantId)
          yield* ledger.reclaim(ofAll ? null : adoption.tenantId)
          const again = yield* decide(principal, adoption)
          governing = again.governing
          outcome = again.outcome
        }
        if (outcome.verdict === "open") {
          return {
            amount: outcome.amount ?? adoption.amount,
            tokens: outcome.tokens ?? adoption.tokens,
            roomNanoUsd: outcome.room ?? null
          }
        }
        const found = governing.find(({ cap, counterKey }) => cap.id === outcome.cap && counterKey === outcome.key)
        if (outcome.verdict === "denied" && found !== undefined) {
          const insufficient: InsufficientBudget = {
            budget: { ...found, headroom: 0n, resetsAt: null },
            limit: outcome.limit ?? 0n,
            spent: outcome.spent ?? 0n,
            reserved: outcome.reserved ?? 0n
          }
          const asked = { usd: adoption.reserved, tokens: BigInt(adoption.tokens), requests: 1n }
          return yield* new BudgetDenied(denialOf(principal, insufficient, [insufficient.budget], asked))
        }
        return yield* refusalOf(principal, outcome, adoption)
      })

      return ReservationTransfers.of({ adopt })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(CallsRepository.layer))
}

const refusalOf = (
  { kind }: Principal,
  { origin, state, verdict }: TransferOutcome,
  { amount }: ReservationTransfer
): Exclude<TransferError, BudgetDenied> => {
  switch (verdict) {
    case "foreign":
      return kind === "agent"
        ? new ReservationNotFound({})
        : new Forbidden({ missing: [], detail: "The reservation is of another principal, or for another agent." })
    case "managed":
      return new ReservationManaged({ origin: origin ?? "gateway" })
    case "held":
    case "unopened":
      return new ReservationNotOpen({ state: state ?? "expired" })
    case "other-plan":
      return new PlanNotFound({ detail: "The reservation is under another plan, or under none." })
    case "too-small":
      return new ReservationTooSmall({ estimateUsd: amount })
    case "plan-suspended":
      return new PlanNotActive({ planStatus: "suspended" })
    case "plan-completed":
      return new PlanNotActive({ planStatus: "completed" })
    case "plan-aborted":
      return new PlanNotActive({ planStatus: "aborted" })
    case "plan-expired":
      return new PlanNotActive({ planStatus: "expired" })
    default:
      return new ReservationNotFound({})
  }
}
