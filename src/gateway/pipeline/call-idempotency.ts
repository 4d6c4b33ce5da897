import { Context, Effect, Exit, Layer, Option } from "effect"
import { SecureRandom } from "effect/crypto"
import { ReservationId } from "../../budgets/ledger/domain.ts"
import { ledgerLate } from "../../budgets/ledger/problems.ts"
import { Ledger } from "../../budgets/ledger/service.ts"
import { ReservationQueries } from "../../budgets/reservations/queries.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { usdText } from "../../kernel/usd.ts"
import { databaseDeadline } from "../../platform/http/deadline.ts"
import { CallKeys } from "../../platform/idempotency/call-keys.ts"
import {
  type CallKeyClaim,
  IdempotencyInProgress,
  IdempotencyKeyInvalid,
  IdempotencyKeyReused,
  isIdempotencyKey
} from "../../platform/idempotency/domain.ts"
import { AlreadyCompleted } from "../errors/domain.ts"
import {
  gatewayError,
  type GatewayError,
  ledgerUnreachable,
  notRetryable,
  retryAfter
} from "../errors/gateway-error.ts"
import { type Call, type CallKey } from "./call-request.ts"

/** What a call may be repeated under, and what a repetition must have in common with it. */
export type KeyedCall = Pick<Call, "bytes" | "caller" | "fallbacks" | "idempotency">

/** The idempotency key of a call in progress. */
export interface ClaimedCall {
  /** Links the key to the call's reservation, from which the ledger knows how the call ends. */
  reserved(reservationId: ReservationId | undefined): Effect.Effect<void, GatewayError>
  /** Releases the key: the call has no response, or one that cost nothing. */
  readonly release: Effect.Effect<void>
}

/** A call without a key. */
const unclaimed: ClaimedCall = { reserved: () => Effect.void, release: Effect.void }

const invalid = gatewayError(new IdempotencyKeyInvalid({}))
const reused = gatewayError(new IdempotencyKeyReused({}), {
  message: "This Idempotency-Key was used for a request with another body, agent or task type.",
  headers: notRetryable
})
const inProgress = gatewayError(new IdempotencyInProgress({}), { headers: retryAfter(1) })

const completed = (reservationId: ReservationId, costNanoUsd: bigint) =>
  gatewayError(new AlreadyCompleted({ reservationId, costUsd: costNanoUsd }), {
    message: `A call with this Idempotency-Key was made under the reservation ${reservationId} and cost ${usdText(costNanoUsd)} US dollars.`,
    headers: { ...notRetryable, "x-reservation-id": reservationId, "x-cost-usd": usdText(costNanoUsd) }
  })

/**
 * Makes a call once per Idempotency-Key. Its response is not stored: a repetition fails and reports that the call is in
 * progress, or its cost. The ledger knows which, even if the process that made the call is gone.
 */
export class CallIdempotency extends Context.Service<
  CallIdempotency,
  {
    /** Makes a call, under its key if it has one; a failure releases the key. */
    once<A, E, R>(
      call: KeyedCall,
      make: (claimed: ClaimedCall) => Effect.Effect<A, E, R>
    ): Effect.Effect<A, E | GatewayError, R>
  }
>()("app/gateway/CallIdempotency") {
  static readonly layerNoDeps = Layer.effect(
    CallIdempotency,
    Effect.gen(function* () {
      const inTime = yield* databaseDeadline(ledgerLate)
      const keys = yield* CallKeys
      const ledger = yield* Ledger
      const newId = (yield* SecureRandom.SecureRandom).uuidV7()
      const reservations = yield* ReservationQueries

      const slotOf = Effect.fnUntraced(function* ({ key, route }: CallKey) {
        if (!isIdempotencyKey(key)) return yield* invalid
        const { name: principal } = yield* CurrentPrincipal
        return { principal, route, key, claim: yield* newId }
      })

      const claim = Effect.fn("CallIdempotency.claim")(function* (slot: CallKeyClaim, request: Uint8Array) {
        const ours: ClaimedCall = {
          reserved: (reservationId) =>
            reservationId === undefined
              ? Effect.void
              : inTime(Effect.catchDefect(keys.hold(slot, reservationId), keysUnreachable)),
          release: inTime(keys.free(slot))
        }
        const claimed = yield* keys.claim(slot, request)
        if (claimed.state === "claimed") return ours
        if (claimed.state === "reused") return yield* reused
        if (claimed.state === "unheld") return yield* inProgress
        const id = ReservationId.make(claimed.reservationId)
        // A call that was answered is settled before its cost is read.
        yield* ledger.flushSettlements((yield* CurrentPrincipal).tenantId ?? null)
        const found = yield* Effect.option(reservations.find(id))
        // What a call has returned is its caller's again, who uses it to repeat the call.
        const isReturned = Option.isSome(found) && found.value.state === "open" && found.value.origin === "api"
        const state = Option.isNone(found) || isReturned ? "released" : found.value.state
        if (state === "open" || state === "held") return yield* inProgress
        if (Option.isSome(found) && state === "settled") return yield* completed(id, found.value.actual ?? 0n)
        return (yield* keys.takeOver(slot, id, request)) ? ours : yield* inProgress
      })

      return CallIdempotency.of({
        once: (call, make) => {
          const { idempotency } = call
          if (idempotency === undefined) return make(unclaimed)
          return Effect.flatMap(slotOf(idempotency), (slot) => {
            // A claim whose statement got no answer may have been made: it is given up as well.
            const claimed = inTime(Effect.catchDefect(claim(slot, fingerprint(call)), keysUnreachable))
            let isHeld = false
            const made = Effect.flatMap(claimed, ({ release, reserved }) =>
              make({
                release,
                reserved: (id) => Effect.map(reserved(id), () => void (isHeld ||= id !== undefined))
              })
            )
            // Without a reservation, a repetition could not learn how an interrupted call ended.
            return Effect.onExit(made, (exit) =>
              Exit.isSuccess(exit) || (isHeld && Exit.hasInterrupts(exit)) ? Effect.void : keys.free(slot)
            )
          })
        }
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(Layer.merge(CallKeys.layer, ReservationQueries.layer)))
}

const keysUnreachable = ledgerUnreachable("The keys of calls")

/** Everything that distinguishes a call from another one under the same key. */
const fingerprint = ({ bytes, caller, fallbacks }: KeyedCall): Uint8Array => {
  const { agentId, taskType } = caller.subject.dimensions
  return Buffer.concat([Buffer.from(`${JSON.stringify([agentId, taskType, fallbacks])}\n`), bytes])
}
