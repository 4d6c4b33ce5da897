import { Context, Effect, Layer, Option } from "effect"
import { ReservationTooSmall } from "../../budgets/ledger/problem-domain.ts"
import { type ExistingReservation } from "../authentication/gateway-authentication.ts"
import { type UsageMeter } from "./usage-meter.ts"
import { type Estimate, estimateOf, fitting, type EstimateTerms } from "./estimates.ts"
import { type AdmissionDenied, type RemainingBudget } from "./budget-errors.ts"
import { type BudgetReservation, BudgetReservations, type Spender } from "./budget-reservations.ts"
import { denied as countDenial } from "../telemetry/metrics.ts"
import { type GatewayError, refused, refusedFor } from "../errors/gateway-error.ts"
import { textsOf } from "./request-texts.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { encodingOfAll, TokenCounts } from "./token-counts.ts"

/** What a call is let in by, beside its terms. */
export interface AdmissionRequest {
  readonly body: Readonly<Record<string, unknown>>
  readonly metadata?: Readonly<Record<string, string>> | undefined
  readonly perTurnNanoUsd?: bigint | null | undefined
  readonly prepared?: ExistingReservation | undefined
}

/** SDKs try again by themselves, unless they are told that it is of no use. */
const notRetryable = { "x-should-retry": "false" }

/** Lets calls in: with the bound of what they may cost, with what their tokens cost, or with as much as there is room for. */
export class Admission extends Context.Service<
  Admission,
  {
    /** Keeps free what a call may cost at a target. */
    hold(
      meter: UsageMeter,
      spender: Spender,
      target: ModelTarget,
      terms: EstimateTerms,
      request: AdmissionRequest
    ): Effect.Effect<Estimate, GatewayError>
  }
>()("app/gateway/Holding") {
  static readonly layer = Layer.effect(
    Admission,
    Effect.gen(function* () {
      const counts = yield* TokenCounts
      const metering = yield* BudgetReservations

      /** The same terms with the request's texts counted by the model's own tokenizer, where there is one. */
      const counted = Effect.fnUntraced(function* (
        terms: EstimateTerms,
        { body }: AdmissionRequest,
        { tenantId }: Spender
      ) {
        const encoding = encodingOfAll(terms.targets)
        if (encoding === undefined) return undefined
        const { bytes, texts } = textsOf(body)
        const tokens = yield* counts.count(tenantId, { encoding, texts })
        if (Option.isNone(tokens)) return undefined
        const inputTokens = terms.bound.inputTokens - bytes + tokens.value
        return { ...terms, bound: { ...terms.bound, inputTokens } }
      })

      const hold = (
        meter: UsageMeter,
        spender: Spender,
        target: ModelTarget,
        terms: EstimateTerms,
        request: AdmissionRequest
      ): Effect.Effect<Estimate, GatewayError> => {
        const { metadata, perTurnNanoUsd, prepared } = request
        const most = least(perTurnNanoUsd ?? null, prepared?.amountNanoUsd ?? null)
        let room: RemainingBudget = { nanoUsd: most, tokens: null }

        // Whoever leaves meanwhile must find the hold in the meter, to be given back: the ledger makes it all the same.
        const ask = (estimate: Estimate): Effect.Effect<GatewayError | undefined, GatewayError> => {
          const { amountNanoUsd, tokens } = estimate
          const held: Effect.Effect<BudgetReservation, AdmissionDenied> =
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

        const askForLess = Effect.fnUntraced(function* (wanted: Estimate, refused: GatewayError) {
          let refusal: GatewayError | undefined = refused
          const exact = yield* counted(terms, request, spender)
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
        meter: UsageMeter,
        spender: Spender,
        target: ModelTarget,
        terms: EstimateTerms,
        request: AdmissionRequest
      ): Effect.Effect<Estimate, GatewayError> =>
        Effect.flatMap(Effect.result(hold(meter, spender, target, terms, request)), (held) =>
          Effect.flatMapEager(metering.isGovernedStill(spender, terms.governed), (isStill) => {
            if (isStill) return Effect.fromResult(held)
            meter.release()
            return Effect.flatMapEager(metering.governed(spender), (governed) =>
              hold(meter, spender, target, { ...terms, governed }, request)
            )
          })
        )

      return Admission.of({
        hold: (...all) => Effect.tapError(holdByCaps(...all), ({ error }) => countDenial(error.code ?? "unknown"))
      })
    })
  )
}

const least = (one: bigint | null, other: bigint | null): bigint | null =>
  one === null ? other : other === null || one < other ? one : other

const tooLarge = ({ amountNanoUsd }: Estimate, prepared: ExistingReservation | undefined): GatewayError =>
  prepared !== undefined && amountNanoUsd > prepared.amountNanoUsd
    ? refusedFor(new ReservationTooSmall({ estimateUsd: amountNanoUsd }), notRetryable)
    : refused(
        402,
        "request_exceeds_budget",
        "The call may cost more than the agent's budget for one turn.",
        notRetryable
      )
