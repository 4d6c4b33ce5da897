import { Context, DateTime, Effect, Layer, Option } from "effect"
import { SecureRandom } from "effect/crypto"
import { Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal, Forbidden, type Principal } from "../../kernel/authority/principal.ts"
import { outdated } from "../../kernel/http/precondition.ts"
import { instantAt } from "../../kernel/instant.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { largestNanoUsd } from "../../kernel/usd.ts"
import { withSpan } from "../../kernel/with-span.ts"
import { limitedByCaps } from "../../platform/http/request.ts"
import { checkReplay } from "../../platform/idempotency/domain.ts"
import { lateDaysOf, Settings } from "../../platform/settings/settings.ts"
import { Attribution, auditedRequester, canActForOthers, ModelNames, requester } from "../attribution/service.ts"
import {
  ChargeId,
  ChargeNotFound,
  type GoverningCap,
  type PlanId,
  PriceUnknown,
  type ReservationId,
  ReservationNotFound,
  type StoredEntry,
  type StoredReservation
} from "../ledger/domain.ts"
import { problemOfRefusal, refusalOf, toGoverningCap, toGoverningCaps } from "../ledger/problems.ts"
import { type CloseItem, type SpentItem } from "../ledger/protocol-domain.ts"
import { Ledger } from "../ledger/service.ts"
import {
  type Charge,
  type Estimate,
  type ReconcileRequest,
  type Refund,
  type RefundRequest,
  type ReserveRequest,
  type SpentUsage,
  ttlSecondsDefault,
  type Usage
} from "./domain.ts"
import { ReservationQueries, toReservation } from "./queries.ts"

/** The cost of calls in nano-dollars. The catalogue of models provides it. */
export class Prices extends Context.Service<
  Prices,
  {
    /** The most that a call may cost. */
    estimate(estimate: Estimate): Effect.Effect<bigint, PriceUnknown>
    /** The actual cost of a call. */
    charge(usage: Usage): Effect.Effect<bigint, PriceUnknown>
  }
>()("app/budgets/Prices") {
  /** Without a catalogue no model has a price. */
  static readonly layerNone = Layer.succeed(
    Prices,
    Prices.of({
      estimate: ({ model }) => Effect.fail(new PriceUnknown({ model })),
      charge: ({ model }) => Effect.fail(new PriceUnknown({ model }))
    })
  )
}

/** A reservation as the answer to a reserve shows it. */
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

/** The operations of /api/spend. */
export class ReservationService extends Context.Service<ReservationService>()("app/budgets/ReservationService", {
  make: Effect.gen(function* () {
    const attribution = yield* Attribution
    const audit = yield* Audit
    const ledger = yield* Ledger
    const modelOf = yield* ModelNames
    const prices = yield* Prices
    const random = yield* SecureRandom.SecureRandom
    const queries = yield* ReservationQueries
    const { budgets, usage: usageSettings } = yield* Settings
    const lateDays = lateDaysOf(usageSettings)

    /** What a request counts for, and its amount. */
    const resolve = Effect.fnUntraced(function* ({ amountUsd, estimate, ...given }: ReserveRequest) {
      const { metadata: _, tokens: __, ttlSeconds: ___, ...declared } = given
      const subject = yield* attribution.resolve(
        estimate === undefined ? declared : { model: estimate.model, ...declared }
      )
      const amount = estimate === undefined ? (amountUsd ?? 0n) : yield* priced("estimate", prices.estimate(estimate))
      return { ...subject, amount }
    })

    /** A repeated request is answered as the first one, even if its agent was suspended or its model removed since. */
    const orReplayed = Effect.fnUntraced(function* <E>(problem: E) {
      const by = yield* requester
      const replay = by.repeatable === undefined ? undefined : yield* ledger.replayOf(by)
      if (replay === undefined) return yield* Effect.fail(problem)
      yield* checkReplay(replay.sha256)
      return replayed(yield* CurrentPrincipal, replay.reservation, budgets.holdSeconds)
    })

    const reserveResolved = Effect.fnUntraced(function* (
      { estimate, metadata, tokens, ttlSeconds = ttlSecondsDefault }: ReserveRequest,
      { amount, dimensions, plan, tenantId }: Effect.Success<ReturnType<typeof resolve>>
    ) {
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
          yield* limitedByCaps
          const seconds = result.verdict === "open" ? ttlSeconds : budgets.holdSeconds
          const reserved: Reserved = {
            id,
            state: result.verdict,
            amountUsd: amount,
            tokens: counted,
            expiresAt: secondsAfter(result.at, seconds),
            remainingTtlSeconds: seconds,
            caps: toGoverningCaps(principal, result.available),
            planId: plan?.id ?? null
          }
          return reserved
        }
        case "replay":
          yield* checkReplay(result.sha256)
          return replayed(principal, result.reservation, budgets.holdSeconds)
        case "denied":
        case "uncovered":
          yield* audit.refused(refusalOf({ dimensions, tenantId }, result))
          return yield* problemOfRefusal(principal, result)
        case "plan-missing":
        case "plan-inactive":
          return yield* problemOfRefusal(principal, result)
        default:
          return yield* Effect.die(new Error(`The ledger answered ${result.verdict} to a reserve`))
      }
    })

    const reserve = (request: ReserveRequest) =>
      Effect.matchEffect(resolve(request), {
        onFailure: orReplayed,
        onSuccess: (resolved) => reserveResolved(request, resolved)
      })

    /** Closes a reservation; where it stays as it is, the problem tells no more than the caller may see of it. */
    const close = Effect.fnUntraced(function* (
      kind: CloseItem["kind"],
      id: ReservationId,
      what: Pick<CloseItem, "amount" | "tokens" | "usage" | "metadata">
    ) {
      const principal = yield* CurrentPrincipal
      const result = yield* ledger.close({
        ...(yield* requester),
        ...what,
        kind,
        id,
        tenantId: principal.tenantId ?? null,
        origin: "api",
        canActForOthers: canActForOthers(principal),
        chargeId: ChargeId.make(yield* random.uuidV7())
      })
      switch (result.verdict) {
        case "done":
          yield* limitedByCaps
          return result
        case "same":
        case "replay":
        case "full":
          return result
        case "changed":
          return yield* outdated
        case "unopened":
          return yield* problemOfRefusal(principal, { verdict: "unopened", state: (yield* queries.find(id)).state })
        case "foreign":
          yield* requireVisible(principal, id)
          return yield* problemOfRefusal(principal, { verdict: "foreign" })
        default:
          return yield* problemOfRefusal(principal, result)
      }
    })

    /** An agent must not learn of reservations that are not its own. */
    const requireVisible = ({ kind }: Principal, id: ReservationId) =>
      kind === "agent" ? Effect.asVoid(queries.find(id)) : Effect.void

    /** A usage under the name of the model that an alias stands for; its price may be that of the name. */
    const named = (usage: Usage | undefined): Usage | undefined =>
      usage === undefined ? undefined : { ...usage, model: modelOf(usage.model) }

    const reconcile = Effect.fn("ReservationService.reconcile")(function* (request: ReconcileRequest) {
      const { actualUsd, metadata, reservationId, usage } = request
      const amount = usage === undefined ? (actualUsd ?? 0n) : yield* priced("usage", prices.charge(usage))
      const result = yield* close("settle", reservationId, {
        amount,
        tokens: usage === undefined ? undefined : usage.inputTokens + usage.outputTokens,
        usage: named(usage),
        metadata
      })
      if (result.verdict === "full") return yield* problemOfRefusal(yield* CurrentPrincipal, { verdict: "full" })
      if (result.verdict === "replay") yield* checkReplay(result.sha256)
      const { closed } = result
      if (closed === undefined) return yield* new ReservationNotFound({})
      return { reservation: toReservation(closed.reservation), charge: toCharge(closed.charge) }
    })

    /** What was spent without a reservation, as the ledger charges it; `at` is when, where that is known. */
    const spent = Effect.fn("ReservationService.spent")(function* (
      { actualUsd, usage, ...declared }: SpentUsage,
      at: DateTime.Utc | undefined
    ) {
      const { dimensions, plan, tenantId } = yield* attribution.resolveSpent(
        usage === undefined ? declared : { model: usage.model, ...declared }
      )
      const amount = usage === undefined ? (actualUsd ?? 0n) : yield* priced("usage", prices.charge(usage))
      const tokens = usage === undefined ? 0 : usage.inputTokens + usage.outputTokens
      const { name } = yield* CurrentPrincipal
      const of = {
        principal: name,
        id: (yield* random.uuidV7()) as ReservationId,
        tenantId,
        origin: "api",
        amount,
        tokens
      } as const
      const chargeId = ChargeId.make(yield* random.uuidV7())
      const happened = at && { at, bookedFrom: DateTime.subtract(yield* DateTime.now, { days: lateDays }) }
      return {
        reservation: { ...of, kind: "reserve", dimensions, plan, ttlSeconds: ttlSecondsDefault },
        settlement: { ...of, kind: "settle", canActForOthers: true, usage: named(usage), chargeId, happened }
      } satisfies SpentItem
    })

    const release = Effect.fn("ReservationService.release")((id: ReservationId) =>
      Effect.asVoid(close("release", id, { amount: 0n }))
    )

    const extend = Effect.fn("ReservationService.extend")(function* (id: ReservationId, ttlSeconds: number) {
      const principal = yield* CurrentPrincipal
      const { reservation, sha256, verdict } = yield* ledger.extend({
        ...(yield* requester),
        id,
        tenantId: principal.tenantId ?? null,
        origin: "api",
        canActForOthers: canActForOthers(principal),
        ttlSeconds
      })
      if (verdict === "changed") return yield* outdated
      if (verdict === "foreign") {
        yield* requireVisible(principal, id)
        return yield* problemOfRefusal(principal, { verdict })
      }
      if (reservation === undefined) return yield* new ReservationNotFound({})
      if (verdict === "unopened") return yield* problemOfRefusal(principal, { verdict, state: reservation.state })
      if (verdict === "managed") return yield* problemOfRefusal(principal, { verdict, origin: reservation.origin })
      if (verdict === "replay") yield* checkReplay(sha256)
      return toReservation(reservation)
    })

    const refund = Effect.fn("ReservationService.refund")(function* (request: RefundRequest) {
      const { amountUsd, chargeId, reason } = request
      const principal = yield* CurrentPrincipal
      if (principal.kind === "agent") {
        // A refund would be room for the agent itself, and it must not learn of others' charges.
        const own = yield* queries.charged(chargeId)
        if (Option.isNone(own)) return yield* new ChargeNotFound({})
        return yield* new Forbidden({ missing: [], detail: "An agent cannot refund charges." })
      }
      const outcome = yield* ledger.refund({
        ...(yield* auditedRequester),
        id: ChargeId.make(yield* random.uuidV7()),
        chargeId,
        tenantId: principal.tenantId ?? null,
        amount: amountUsd,
        reason,
        isSystem: principal.tenantId === undefined
      })
      if (outcome.verdict === "own") return yield* problemOfRefusal(principal, { verdict: "own" })
      if (outcome.verdict === "exceeds") return yield* problemOfRefusal(principal, { ...outcome, verdict: "exceeds" })
      if (outcome.verdict === "replay") yield* checkReplay(outcome.sha256)
      return outcome.refund === undefined ? yield* new ChargeNotFound({}) : toRefund(outcome.refund)
    })

    return { reserve: withSpan("ReservationService.reserve", reserve), reconcile, spent, release, extend, refund }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

const secondsAfter = ({ epochMilliseconds }: DateTime.Utc, seconds: number): DateTime.Utc =>
  instantAt(epochMilliseconds + seconds * 1000)

/** The price of a member of a request: at most what a request may name as an amount. */
const priced = <E>(member: string, price: Effect.Effect<bigint, E>): Effect.Effect<bigint, E | ValidationFailed> =>
  Effect.filterOrFail(
    price,
    (amount) => amount <= largestNanoUsd,
    () =>
      new ValidationFailed({
        errors: [{ path: ["payload", member], message: "Expected a cost of at most 8388607.999999999 US dollars" }]
      })
  )

/** The answer to the first request under the key. */
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
        : [toGoverningCap(principal, cap, answer?.headrooms?.[index] ?? 0n, answer?.ends?.[index] ?? null)]
    ),
    planId
  }
}

const toCharge = (entry: StoredEntry): Charge => ({
  id: entry.id,
  reservationId: entry.reservationId,
  amountUsd: entry.amount,
  tokens: entry.tokens,
  overrunUsd: entry.overrun,
  late: entry.late,
  metadata: entry.metadata,
  occurredAt: entry.occurredAt,
  createdBy: entry.createdBy
})

const toRefund = (entry: StoredEntry): Refund => ({
  id: entry.id,
  chargeId: entry.chargeId,
  reservationId: entry.reservationId,
  amountUsd: -entry.amount,
  reason: entry.reason ?? "",
  occurredAt: entry.occurredAt,
  createdBy: entry.createdBy
})
