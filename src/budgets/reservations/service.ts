import { Context, type DateTime, Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { type AgentNotActive, type AgentNotFound } from "../../identity/agents/domain.ts"
import { type ApplicationNotFound } from "../../applications/applications/domain.ts"
import { Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal, Forbidden, type Principal } from "../../kernel/principal.ts"
import { type IdempotencyKeyReused, checkReplay } from "../../platform/idempotency/domain.ts"
import { instantAt } from "../../kernel/instant.ts"
import { ValidationFailed } from "../../kernel/problems.ts"
import { withSpan } from "../../kernel/with-span.ts"
import { largestNanoUsd } from "../../kernel/usd.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { requester, Attribution, canActForOthers } from "../attribution/service.ts"
import {
  ChargeId,
  type GoverningCap,
  type PlanId,
  type ReconcileRequest,
  type Reconciled,
  type Reservation,
  type ReservationId,
  type ReserveRequest,
  spendActions,
  ttlSecondsDefault
} from "../ledger/domain.ts"
import { Prices } from "./prices.ts"
import {
  BudgetDenied,
  CounterFull,
  PlanNotActive,
  PlanNotFound,
  type PriceUnknown,
  ReservationManaged,
  ReservationNotFound,
  ReservationNotOpen,
  ReservationSettled
} from "../ledger/problem-domain.ts"
import { type StoredReservation } from "../ledger/repository.ts"
import { type CloseResult } from "../ledger/request.ts"
import { ReservationQueries } from "./queries.ts"
import { Ledger } from "../ledger/service.ts"
import { capView, capViews, chargeView, denialOf, reservationView, uncovered } from "./views.ts"

/** A reservation as a reserve answers it. */
export type Reserved = ReservedAs<"open"> | ReservedAs<"held">

interface ReservedAs<State> {
  readonly id: ReservationId
  readonly state: State
  readonly amountUsd: bigint
  readonly tokens: number
  readonly expiresAt: DateTime.Utc
  readonly remainingTtlSeconds: number
  readonly caps: ReadonlyArray<GoverningCap>
  readonly planId: PlanId | null
}

type ReserveRefused =
  | BudgetDenied
  | AgentNotActive
  | AgentNotFound
  | ApplicationNotFound
  | PlanNotFound
  | PlanNotActive
  | PriceUnknown
  | Forbidden
  | ValidationFailed
  | IdempotencyKeyReused
type CloseRefused = ReservationNotFound | ReservationManaged | ReservationSettled | ReservationNotOpen | Forbidden

/** What callers of /api/spend may do: the rules above the ledger. */
export class ReservationService extends Context.Service<
  ReservationService,
  {
    reserve(request: ReserveRequest): Effect.Effect<Reserved, ReserveRefused>
    reconcile(
      request: ReconcileRequest
    ): Effect.Effect<Reconciled, CloseRefused | CounterFull | PriceUnknown | ValidationFailed | IdempotencyKeyReused>
    /** Gives a reservation back; again does nothing. */
    release(id: ReservationId): Effect.Effect<void, CloseRefused>
    extend(id: ReservationId, ttlSeconds: number): Effect.Effect<Reservation, CloseRefused>
  }
>()("app/budgets/ReservationService") {
  static readonly layer = Layer.effect(
    ReservationService,
    Effect.gen(function* () {
      const attribution = yield* Attribution
      const audit = yield* Audit
      const ledger = yield* Ledger
      const prices = yield* Prices
      const random = yield* SecureRandom.SecureRandom
      const reservations = yield* ReservationQueries
      const { budgets } = yield* Settings

      const reserve = Effect.fnUntraced(function* (request: ReserveRequest) {
        const { amountUsd, estimate, metadata, tokens, ttlSeconds = ttlSecondsDefault, ...declared } = request
        const { dimensions, plan, tenantId } = yield* attribution.resolve(
          estimate === undefined ? declared : { model: estimate.model, ...declared }
        )
        const amount = estimate === undefined ? (amountUsd ?? 0n) : yield* priced("estimate", prices.estimate(estimate))
        const counted = tokens ?? (estimate === undefined ? 0 : estimate.inputTokens + estimate.maxOutputTokens)
        const principal = yield* CurrentPrincipal
        const id = (yield* random.uuidV7()) as ReservationId
        const result = yield* ledger.reserve({
          ...(yield* requester),
          kind: "reserve",
          id,
          tenantId,
          origin: "api",
          dimensions,
          plan,
          amount,
          tokens: counted,
          ttlSeconds,
          metadata
        })
        switch (result.verdict) {
          case "open":
          case "held": {
            const seconds = result.verdict === "open" ? ttlSeconds : budgets.holdSeconds
            return {
              id,
              state: result.verdict,
              amountUsd: amount,
              tokens: counted,
              expiresAt: secondsAfter(result.at, seconds),
              remainingTtlSeconds: seconds,
              caps: capViews(principal, result.available),
              planId: plan?.id ?? null
            }
          }
          case "denied":
          case "no-room":
            yield* audit.refused({
              action: spendActions.SpendRefused,
              target: result.insufficient.budget.cap.id,
              reason: "A budget cap has no room"
            })
            return yield* new BudgetDenied(
              denialOf(principal, result.insufficient, result.available, {
                usd: amount,
                tokens: BigInt(counted),
                requests: 1n
              })
            )
          case "uncovered":
            return yield* new BudgetDenied(uncovered)
          case "replay":
            yield* checkReplay(result.sha256)
            return replayed(principal, result.reservation, budgets.holdSeconds)
          case "plan-missing":
            return yield* new PlanNotFound({})
          case "plan-inactive":
            return yield* new PlanNotActive({ planStatus: result.planStatus })
          default:
            return yield* Effect.die(new Error(`The ledger answered ${result.verdict} to a reserve`))
        }
      })

      /** Why a reservation stays as it is, in the words of what the caller sees of it. */
      const refuse = Effect.fnUntraced(function* (id: ReservationId, verdict: CloseResult["verdict"]) {
        const { kind } = yield* CurrentPrincipal
        if (verdict === "unopened") {
          return yield* new ReservationNotOpen({ state: (yield* reservations.find(id)).state })
        }
        if (verdict === "foreign" && kind === "agent") {
          yield* reservations.find(id)
          return yield* new Forbidden({ missing: [], detail: "Another principal made this reservation." })
        }
        yield* refusalOf(verdict)
      })

      const close = Effect.fnUntraced(function* (
        kind: "settle" | "release",
        id: ReservationId,
        what: Pick<Parameters<typeof ledger.close>[0], "amount" | "tokens" | "usage" | "metadata">
      ) {
        const principal = yield* CurrentPrincipal
        const result = yield* ledger.close({
          ...(yield* requester),
          ...what,
          kind,
          id,
          tenantId: principal.tenantId ?? null,
          origin: "api",
          unrestricted: canActForOthers(principal),
          chargeId: ChargeId.make(yield* random.uuidV7())
        })
        yield* refuse(id, result.verdict)
        return result
      })

      const reconcile = Effect.fn("ReservationService.reconcile")(function* (request: ReconcileRequest) {
        const { actualUsd, metadata, reservationId, usage } = request
        const amount = usage === undefined ? (actualUsd ?? 0n) : yield* priced("usage", prices.charge(usage))
        const result = yield* close("settle", reservationId, {
          amount,
          tokens: usage === undefined ? undefined : usage.inputTokens + usage.outputTokens,
          usage,
          metadata
        })
        if (result.verdict === "full") return yield* new CounterFull({})
        if (result.verdict === "replay") yield* checkReplay(result.sha256)
        const closed = "closed" in result ? result.closed : undefined
        if (closed === undefined) return yield* new ReservationNotFound({})
        return { reservation: reservationView(closed.reservation), charge: chargeView(closed.charge) }
      })

      const release = Effect.fn("ReservationService.release")((id: ReservationId) =>
        Effect.asVoid(close("release", id, { amount: 0n }))
      )

      const extend = Effect.fn("ReservationService.extend")(function* (id: ReservationId, ttlSeconds: number) {
        const principal = yield* CurrentPrincipal
        const { reservation, verdict } = yield* ledger.extend({
          principal: principal.name,
          id,
          tenantId: principal.tenantId ?? null,
          origin: "api",
          unrestricted: canActForOthers(principal),
          ttlSeconds
        })
        if (verdict === "unopened" && reservation !== undefined) {
          return yield* new ReservationNotOpen({ state: reservation.state })
        }
        if (verdict === "managed" && reservation !== undefined) {
          return yield* new ReservationManaged({ origin: reservation.origin })
        }
        yield* refuse(id, verdict)
        if (reservation === undefined) return yield* new ReservationNotFound({})
        return reservationView(reservation)
      })

      return ReservationService.of({
        reserve: withSpan("ReservationService.reserve", reserve),
        reconcile,
        release,
        extend
      })
    })
  )
}

const secondsAfter = ({ epochMilliseconds }: DateTime.Utc, seconds: number): DateTime.Utc =>
  instantAt(epochMilliseconds + seconds * 1000)

/** What a member of a request comes to by its price: no more than a request may name itself. */
const priced = <E>(member: string, price: Effect.Effect<bigint, E>): Effect.Effect<bigint, E | ValidationFailed> =>
  Effect.filterOrFail(
    price,
    (amount) => amount <= largestNanoUsd,
    () =>
      new ValidationFailed({
        errors: [{ path: ["payload", member], message: "Expected what costs at most 8388607.999999999 US dollars" }]
      })
  )

/** The answer that was given before, to the first request under the key. */
const replayed = (principal: Principal, reservation: StoredReservation, holdSeconds: number): Reserved => {
  const { answer, createdAt, id, planId } = reservation
  const state = answer?.state ?? "open"
  const amount = answer?.amount ?? reservation.amount
  const tokens = answer?.tokens ?? reservation.tokens
  const seconds = state === "open" ? (answer?.ttl ?? reservation.ttlSeconds) : holdSeconds
  return {
    id,
    state,
    amountUsd: amount,
    tokens,
    expiresAt: secondsAfter(createdAt, seconds),
    remainingTtlSeconds: seconds,
    caps: (answer?.caps ?? []).flatMap((cap, index) =>
      cap.id === planId
        ? []
        : [capView(principal, cap, answer?.headrooms?.[index] ?? 0n, answer?.ends?.[index] ?? null)]
    ),
    planId
  }
}

const refusalOf = (verdict: CloseResult["verdict"]): Effect.Effect<void, CloseRefused> => {
  switch (verdict) {
    case "missing":
      return Effect.fail(new ReservationNotFound({}))
    case "foreign":
      return Effect.fail(
        new Forbidden({ missing: ["budgets:write"], detail: "Another principal made this reservation." })
      )
    case "managed":
      return Effect.fail(new ReservationManaged({ origin: "gateway" }))
    case "managed-by-plan":
      return Effect.fail(new ReservationManaged({ origin: "plan" }))
    case "conflict":
      return Effect.fail(new ReservationSettled({}))
    default:
      return Effect.void
  }
}
