import { type Clock, Effect, Exit, Option, type Tracer } from "effect"
import { noUsage, type TokenUsage } from "../translation/domain.ts"
import { type AnswerFacts } from "../telemetry/answer-facts.ts"
import { type Attempt } from "../routing/router.ts"
import { type TokenUpperBound } from "./token-upper-bound.ts"
import { describeSettlement, exitOf, type SettledCall } from "../telemetry/call-spans.ts"
import { costOf, ratesFor } from "../catalog/cost.ts"
import { type ReservationId } from "../../budgets/ledger/domain.ts"
import { type Estimate } from "./estimates.ts"
import { type BudgetReservation, type Settlement } from "./budget-reservations.ts"
import { measured, released, type SettleMethod } from "../telemetry/metrics.ts"
import { type Operation } from "../providers/provider.ts"
import { type Rates } from "../catalog/rate-domain.ts"
import { type ServedModel, type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { encodingOf } from "./token-counts.ts"

/** Where nobody says how many tokens something is, so many bytes of text are taken for one. */
const bytesPerToken = 3

/** What is known of a call from its start. */
export interface MeteredCall {
  readonly operation: Operation
  readonly dialect: string
  readonly modelAsked: string
  readonly model: ServedModel
  readonly catalogueVersion: string
  readonly bound: TokenUpperBound
  readonly metadata: Readonly<Record<string, string>> | undefined
  /** Counts texts by the tokenizer of a target, where it has one. */
  readonly count: (target: ModelTarget, texts: ReadonlyArray<string>) => Effect.Effect<Option.Option<number>>
  /** What the model reads: messages, and what it is told of tools. */
  readonly texts: () => ReadonlyArray<string>
  readonly traceId: string | undefined
}

/** What the model said so far, as far as anybody knows. */
export interface Progress {
  readonly usage: TokenUsage | undefined
  readonly textBytes: number
  /** The words themselves, where there is a tokenizer for them. */
  readonly texts: ReadonlyArray<string>
}

/**
 * The money of one call from its first hold to its end. Whatever happens, each hold is closed once: with what was used, with
 * what it may have cost, or with nothing.
 */
export class UsageMeter {
  readonly attempts: Array<Attempt> = []
  /** Set while a request is out: who leaves then may have to pay for it. */
  progress: (() => Progress) | undefined
  timeToFirstTokenMs: number | null = null
  /** What a stream used that came to its end as it should. */
  completedWith: TokenUsage | undefined
  /** What the provider says of its answer. */
  facts: AnswerFacts | undefined
  /** When the last attempt began, and how many there were. */
  private triedSince = 0
  private tries = 0
  /** When the first bytes of a stream were there. */
  private streamingSince: number | undefined
  /** The span of the attempt that was answered, until it is known what that did cost. */
  private span: Tracer.Span | undefined
  private hold: BudgetReservation | undefined
  private estimated: Estimate | undefined
  private target: ModelTarget | undefined
  private readonly call: MeteredCall
  private readonly clock: Clock.Clock
  readonly startedAt: number

  constructor(call: MeteredCall, clock: Clock.Clock) {
    this.call = call
    this.clock = clock
    this.startedAt = clock.currentTimeMillisUnsafe()
  }

  /** Whether money is kept free at this target's provider. */
  holdsFor(target: ModelTarget): boolean {
    return this.hold !== undefined && this.target?.provider.id === target.provider.id
  }

  take(hold: BudgetReservation, target: ModelTarget, estimated: Estimate): void {
    this.hold = hold
    this.estimated = estimated
    this.target = target
  }

  /** Another attempt begins. */
  at(target: ModelTarget): void {
    this.target = target
    this.triedSince = this.now
    this.tries++
  }

  /** From here on the answer streams. */
  streams(now: number): void {
    this.streamingSince = now
    this.timeToFirstTokenMs = now - this.startedAt
  }

  /** Ends this span when the call is settled, with what it used. */
  traceBy(span: Tracer.Span): void {
    this.span = span
  }

  get now(): number {
    return this.clock.currentTimeMillisUnsafe()
  }

  get reservationId(): ReservationId | undefined {
    return this.hold?.id
  }

  /** What caps in money leave, once `costNanoUsd` is charged; null where none governs. */
  remaining(costNanoUsd: bigint | undefined): bigint | null {
    const { amountNanoUsd = 0n, remainingNanoUsd = null } = this.hold ?? {}
    return remainingNanoUsd === null
      ? null
      : costNanoUsd === undefined
        ? remainingNanoUsd
        : remainingNanoUsd + amountNanoUsd - costNanoUsd
  }

  /** What a usage costs at the target that served it; nothing where nobody knows a price. */
  cost(usage: TokenUsage): bigint {
    const rates = this.target?.rates ?? null
    return rates === null ? 0n : costOf(usage, rates)
  }

  /** Whether its words are worth keeping: there is a tokenizer for them. */
  get countsTokens(): boolean {
    return this.target !== undefined && encodingOf(this.target) !== undefined
  }

  /**
   * The usage that is charged where the provider reported none, or only a part: texts counted by the model's tokenizer,
   * else by their bytes, images and documents as they were kept free, since nobody can count them; and never more than was
   * kept free for all.
   */
  estimate({ textBytes, texts, usage }: Progress): Effect.Effect<TokenUsage> {
    const { call, estimated, target } = this
    const { bound } = call
    const maxInput = estimated?.inputTokens ?? Infinity
    const maxOutput = (estimated?.outputTokens ?? Infinity) * bound.choices + bound.extraOutputTokens
    const count = (given: ReadonlyArray<string>) =>
      target === undefined || given.length === 0 ? Effect.succeedNone : call.count(target, given)
    return Effect.gen(function* () {
      const input = usage?.inputTokens ? Option.none<number>() : yield* count(call.texts())
      const output = yield* count(texts)
      const { mediaTokens } = bound
      const byBytes = () => Math.ceil((bound.inputTokens - mediaTokens) / bytesPerToken)
      const asked = mediaTokens + Option.getOrElse(input, byBytes)
      const said = Option.getOrElse(output, () => Math.ceil(textBytes / bytesPerToken))
      return {
        ...(usage ?? noUsage),
        inputTokens: usage?.inputTokens || Math.min(maxInput, asked),
        outputTokens: Math.max(usage?.outputTokens ?? 0, Math.min(maxOutput, said))
      }
    })
  }

  /** Charges what was used; answers what it cost. */
  settle(usage: TokenUsage, method: SettleMethod, status: number): bigint {
    const cost = this.cost(usage)
    const tokens = usage.inputTokens + usage.outputTokens
    this.close(usage, { costNanoUsd: cost, tokens, method }, status)
    return cost
  }

  /** Charges everything that was kept free: the request was sent, and nobody will ever know what it did cost. */
  chargeFullReservation(status: number): void {
    const { amountNanoUsd = 0n, tokens = 0 } = this.hold ?? {}
    this.close(undefined, { costNanoUsd: amountNanoUsd, tokens, method: "unanswered" }, status)
  }

  /** Gives everything back. */
  release(): void {
    const { hold } = this
    this.hold = undefined
    this.progress = undefined
    this.endSpan()
    if (hold === undefined) return
    released()
    const { now } = this
    hold.release(this.details(noUsage, this.attempts.at(-1)?.status ?? null, now))
  }

  /** The end of a call that did not come to its own: its caller left, or something broke. */
  readonly abandon: Effect.Effect<void> = Effect.suspend(() => {
    const progress = this.progress?.()
    if (progress === undefined) {
      this.release()
      return Effect.void
    }
    return Effect.map(this.estimate(progress), (usage) => void this.settle(usage, "aborted", 499))
  })

  /** The time that providers took: all attempts, one that is still out, and of a stream what came after its first bytes. */
  private upstreamMs(now: number): number {
    const attempts = this.attempts.reduce((sum, { durationMs }) => sum + durationMs, 0)
    const out = this.tries > this.attempts.length ? now - this.triedSince : 0
    return attempts + out + (this.streamingSince === undefined ? 0 : now - this.streamingSince)
  }

  /** Of a stream: what its provider took until its first bytes. */
  private get firstChunkMs(): number | undefined {
    return this.streamingSince === undefined ? undefined : this.attempts.at(-1)?.durationMs
  }

  /** What the row of the call keeps of it; a usage that nobody knows is left out. */
  private details(usage: TokenUsage | undefined, status: number | null, now: number): object {
    const { call, target } = this
    const rates = target?.rates ?? null
    return {
      operation: call.operation,
      dialect: call.dialect,
      modelAsked: call.modelAsked,
      modelServed: target?.model,
      provider: target?.provider.id,
      ...usage,
      rates: rates === null ? null : textsOf(ratesFor(rates, usage?.inputTokens ?? 0)),
      catalogueVersion: call.catalogueVersion,
      latencyMs: now - this.startedAt,
      upstreamLatencyMs: this.upstreamMs(now),
      timeToFirstTokenMs: this.timeToFirstTokenMs,
      status,
      attempts: this.attempts,
      metadata: call.metadata,
      traceId: call.traceId
    }
  }

  private endSpan(settled?: SettledCall): void {
    const { span } = this
    this.span = undefined
    if (span === undefined) return
    if (settled !== undefined) describeSettlement(span, settled)
    span.end(this.clock.currentTimeNanosUnsafe(), settled === undefined ? Exit.void : exitOf(settled))
  }

  private close(usage: TokenUsage | undefined, settlement: Settlement, status: number): void {
    const { hold, target } = this
    this.hold = undefined
    this.progress = undefined
    const { costNanoUsd, method } = settlement
    const { facts, firstChunkMs, timeToFirstTokenMs } = this
    const reservationId = hold?.id ?? ""
    const errorType = status >= 400 && method !== "aborted" ? String(status) : undefined
    this.endSpan({
      usage,
      costNanoUsd,
      method,
      reservationId,
      timeToFirstTokenMs,
      firstChunkMs,
      facts,
      errorType
    })
    if (hold === undefined) return
    const { now } = this
    hold.settle(settlement, this.details(usage, status, now))
    measured({
      operation: this.call.operation,
      target,
      usage,
      method,
      errorType,
      timeToFirstTokenMs: firstChunkMs,
      attemptMs: now - this.triedSince,
      latencyMs: now - this.startedAt,
      upstreamMs: this.upstreamMs(now)
    })
  }
}

/** Rates as rows keep them, of which a configuration has few. */
const written = new WeakMap<Rates, Readonly<Record<string, string>>>()
const textsOf = (rates: Rates) => {
  let texts = written.get(rates)
  if (texts === undefined) {
    texts = Object.fromEntries(Object.entries(rates).map(([name, rate]) => [name, String(rate)]))
    written.set(rates, texts)
  }
  return texts
}
