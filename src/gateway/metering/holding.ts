import { Context, Effect, Layer, Option } from "effect"
import { ReservationTooSmall } from "../../budgets/ledger/domain.ts"
import { type Prepared } from "../authentication/callers.ts"
import { type CallMeter } from "./call-meter.ts"
import { type Estimate, estimateOf, fitting, type Terms } from "./estimates.ts"
import { type NoRoom, type Room } from "./denials.ts"
import { type Hold, Metering, type Spender } from "./metering.ts"
import { denied as countDenial } from "../telemetry/metrics.ts"
import { type CallRefused, refused, refusedFor } from "../errors/refusal.ts"
import { textsOf } from "./request-texts.ts"
import { type RunningTarget } from "../configuration/running.ts"
import { encodingOfAll, TokenCounts } from "./token-counts.ts"

/** What a call is let in by, beside its terms. */
export interface Asking {
  readonly body: Readonly<Record<string, unknown>>
  readonly metadata?: Readonly<Record<string, string>> | undefined
  readonly perTurnNanoUsd?: bigint | null | undefined
  readonly prepared?: Prepared | undefined
}

/** SDKs try again by themselves, unless they are told that it is of no use. */
const hopeless = { "x-should-retry": "false" }

/** Lets calls in: with the bound of what they may cost, with what their tokens cost, or with as much as there is room for. */
export class Holding extends Context.Service<
  Holding,
  {
    /** Keeps free what a call may cost at a target. */
    hold(
      meter: CallMeter,
      spender: Spender,
      target: RunningTarget,
      terms: Terms,
      asking: Asking
    ): Effect.Effect<Estimate, CallRefused>
  }
>()("app/llm/Holding") {
  static readonly layer = Layer.effect(
    Holding,
    Effect.gen(function* () {
      const counts = yield* TokenCounts
      const metering = yield* Metering

      /** The same terms with the request's texts counted by the model's own tokenizer, where there is one. */
      const counted = Effect.fnUntraced(function* (terms: Terms, { body }: Asking, { tenantId }: Spender) {
        const encoding = encodingOfAll(terms.targets)
        if (encoding === undefined) return undefined
        const { bytes, texts } = textsOf(body)
        const tokens = yield* counts.count(tenantId, { encoding, texts })
        if (Option.isNone(tokens)) return undefined
        const inputTokens = terms.bound.inputTokens - bytes + tokens.value
        return { ...terms, bound: { ...terms.bound, inputTokens } }
      })

      const hold = (
        meter: CallMeter,
        spender: Spender,
        target: RunningTarget,
        terms: Terms,
        asking: Asking
      ): Effect.Effect<Estimate, CallRefused> => {
        const { metadata, perTurnNanoUsd, prepared } = asking
        const most = least(perTurnNanoUsd ?? null, prepared?.amountNanoUsd ?? null)
        let room: Room = { nanoUsd: most, tokens: null }

        // Whoever leaves meanwhile must find the hold in the meter, to be given back: the ledger makes it all the same.
        const ask = (estimate: Estimate): Effect.Effect<CallRefused | undefined, CallRefused> => {
          const { amountNanoUsd, tokens } = estimate
          const held: Effect.Effect<Hold, NoRoom> =
            prepared === undefined
              ? metering.hold(spender, amountNanoUsd, tokens, metadata)
              : metering.adopt(spender, prepared, amountNanoUsd, tokens)
          return Effect.uninterruptible(
            Effect.matchEffect(held, {
              onSuccess: (hold) => {
                meter.take(hold, target, estimate)
                return Effect.succeed(undefined)
              },
              onFailure: ({ refusal, room: left }) => {
                if (left === undefined) return Effect.fail(refusal)
                room = { nanoUsd: least(most, left.nanoUsd), tokens: left.tokens }
                return Effect.succeed(refusal)
              }
            })
          )
        }

        const askWithin = (estimate: Estimate) =>
          most === null || estimate.amountNanoUsd <= most ? ask(estimate) : Effect.succeed(tooLarge(estimate, prepared))

        const askForLess = Effect.fnUntraced(function* (wanted: Estimate, refused: CallRefused) {
          let refusal: CallRefused | undefined = refused
          const exact = yield* counted(terms, asking, spender)
          const again = exact === undefined ? wanted : yield* estimateOf(exact)
          if (exact !== undefined) {
            refusal = yield* askWithin(again)
            if (refusal === undefined) return again
          }
          const smaller = fitting(exact ?? terms, again, room)
          if (smaller === undefined) return yield* refusal
          refusal = yield* ask(smaller)
          return refusal === undefined ? smaller : yield* refusal
        })

        return Effect.flatMapEager(estimateOf(terms), (wanted) =>
          Effect.flatMap(askWithin(wanted), (refusal) =>
            refusal === undefined ? Effect.succeed(wanted) : askForLess(wanted, refusal)
          )
        )
      }

      /** By the caps that there are: where others were known before, it is seen to once more. */
      const holdByCaps = (
        meter: CallMeter,
        spender: Spender,
        target: RunningTarget,
        terms: Terms,
        asking: Asking
      ): Effect.Effect<Estimate, CallRefused> =>
        Effect.flatMap(Effect.result(hold(meter, spender, target, terms, asking)), (held) =>
          Effect.flatMapEager(metering.isGovernedStill(spender, terms.governed), (isStill) => {
            if (isStill) return Effect.fromResult(held)
            meter.release()
            return Effect.flatMapEager(metering.governed(spender), (governed) =>
              hold(meter, spender, target, { ...terms, governed }, asking)
            )
          })
        )

      return Holding.of({
        hold: (...all) => Effect.tapError(holdByCaps(...all), ({ error }) => countDenial(error.code ?? "unknown"))
      })
    })
  )
}

const least = (one: bigint | null, other: bigint | null): bigint | null =>
  one === null ? other : other === null || one < other ? one : other

const tooLarge = ({ amountNanoUsd }: Estimate, prepared: Prepared | undefined): CallRefused =>
  prepared !== undefined && amountNanoUsd > prepared.amountNanoUsd
    ? refusedFor(new ReservationTooSmall({ estimateUsd: amountNanoUsd }), hopeless)
    : refused(402, "request_exceeds_budget", "The call may cost more than the agent's budget for one turn.", hopeless)
