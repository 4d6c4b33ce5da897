import { Context, Effect, Exit, Layer, Option } from "effect"
import { CurrentPrincipal } from "../../kernel/principal.ts"
import { usdText } from "../../kernel/usd.ts"
import { CallKeys } from "../../platform/idempotency/call-keys.ts"
import { ReservationId } from "../../budgets/ledger/domain.ts"
import { ReservationQueries } from "../../budgets/reservations/queries.ts"
import { Ledger } from "../../budgets/ledger/service.ts"
import { AlreadyCompleted } from "../errors/repeat-domain.ts"
import { GatewayError, refused, retryAfter } from "../errors/gateway-error.ts"

/** The key that a caller gave its call, and where. */
export interface CallKey {
  readonly route: string
  readonly key: string
}

/** A call that may come again, and all that tells it from another. */
export interface IdempotentCall {
  readonly repeatable?: CallKey | undefined
  readonly bytes: Uint8Array
  readonly agentId?: string | undefined
  readonly taskType?: string | undefined
  readonly fallbacks?: ReadonlyArray<string> | undefined
}

/** What becomes of a key while its call is under way. */
export interface ClaimedCall {
  /** Under this reservation the call runs from now on: the ledger knows how that ends. */
  holds(reservationId: ReservationId | undefined): Effect.Effect<void>
  /** The call gave no answer, or none that cost anything. */
  readonly free: Effect.Effect<void>
}

/** Of a call without a key. */
const unclaimed: ClaimedCall = { holds: () => Effect.void, free: Effect.void }

const printable = /^[\x20-\x7e]{1,255}$/

const invalid = refused(400, "idempotency_key_invalid", "Idempotency-Key must be 1 to 255 printable ASCII characters.")
const reused = refused(
  422,
  "idempotency_key_reused",
  "This Idempotency-Key was used for a request with another body.",
  { "x-should-retry": "false" }
)
const inProgress = refused(
  409,
  "idempotency_in_progress",
  "A request with this Idempotency-Key is still being served.",
  retryAfter(1)
)

const completed = (reservationId: ReservationId, costNanoUsd: bigint): GatewayError =>
  new GatewayError({
    error: {
      status: 409,
      code: "already_completed",
      message: `A call with this Idempotency-Key was made under the reservation ${reservationId} and cost ${usdText(costNanoUsd)} US dollars.`
    },
    headers: {
      "x-should-retry": "false",
      "x-reservation-id": reservationId,
      "x-cost-usd": usdText(costNanoUsd)
    },
    problem: new AlreadyCompleted({ reservationId, costUsd: costNanoUsd })
  })

/**
 * Keeps a call from being made twice under one key. Nothing of its answer is kept: a repetition is told that the call is
 * under way, or what it did cost. Which of both it is, the ledger knows, also of a call whose process is gone.
 */
export class CallIdempotency extends Context.Service<
  CallIdempotency,
  {
    /** Makes a call, under its key if it has one; whatever is no answer gives the key back. */
    once<A, R>(
      call: IdempotentCall,
      make: (repeat: ClaimedCall) => Effect.Effect<A, GatewayError, R>
    ): Effect.Effect<A, GatewayError, R>
  }
>()("app/gateway/Repeats") {
  static readonly layerNoDeps = Layer.effect(
    CallIdempotency,
    Effect.gen(function* () {
      const keys = yield* CallKeys
      const ledger = yield* Ledger
      const reservations = yield* ReservationQueries

      const claim = Effect.fn("Repeats.claim")(function* ({ key, route }: CallKey, request: Uint8Array) {
        if (!printable.test(key)) return yield* invalid
        const { name: principal } = yield* CurrentPrincipal
        const slot = { principal, route, key }
        const repeat: ClaimedCall = {
          holds: (reservationId) => (reservationId === undefined ? Effect.void : keys.hold(slot, reservationId)),
          free: keys.free(slot)
        }
        const claimed = yield* keys.claim(slot, request)
        if (claimed.state === "claimed") return repeat
        if (claimed.state === "reused") return yield* reused
        if (claimed.state === "unheld") return yield* inProgress
        const id = ReservationId.make(claimed.reservationId)
        // Whoever was answered finds what that did cost.
        yield* ledger.flushSettlements((yield* CurrentPrincipal).tenantId ?? null)
        const found = yield* Effect.option(reservations.find(id))
        const state = Option.isSome(found) ? found.value.state : "released"
        if (state === "open" || state === "held") return yield* inProgress
        if (Option.isSome(found) && state === "settled") return yield* completed(id, found.value.actual ?? 0n)
        return (yield* keys.takeOver(slot, id, request)) ? repeat : yield* inProgress
      })

      return CallIdempotency.of({
        once: (call, make) => {
          const { repeatable } = call
          if (repeatable === undefined) return make(unclaimed)
          return Effect.uninterruptibleMask((restore) =>
            Effect.flatMap(Effect.catchDefect(claim(repeatable, fingerprint(call)), unreachable), ({ free, holds }) => {
              let isHeld = false
              const held = (id: ReservationId | undefined) =>
                Effect.map(holds(id), () => void (isHeld ||= id !== undefined))
              // Whoever left before there was a reservation left nothing that could tell how the call ended.
              return Effect.onExit(restore(make({ free, holds: held })), (exit) =>
                Exit.isSuccess(exit) || (isHeld && Exit.hasInterrupts(exit)) ? Effect.void : free
              )
            })
          )
        }
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(Layer.merge(CallKeys.layer, ReservationQueries.layer)))
}

const unreachable = (defect: unknown) =>
  Effect.andThen(
    Effect.logError("The keys of calls cannot be asked", defect),
    Effect.fail(refused(503, "overloaded", "The ledger cannot be reached.", retryAfter(2)))
  )

const fingerprint = ({ agentId, bytes, fallbacks, taskType }: IdempotentCall): Uint8Array =>
  Buffer.concat([Buffer.from(`${JSON.stringify([agentId, taskType, fallbacks])}\n`), bytes])
