import { Clock, Effect } from "effect"
import { noUsage, type TokenUsage } from "../compat/domain.ts"
import { type Attempt } from "./attempts.ts"
import { type RequestBound } from "./bounds.ts"
import { costOf, ratesFor } from "./cost.ts"
import { type ReservationId } from "../ledger/domain.ts"
import { type Hold, type Settlement } from "./metering.ts"
import { measured, type SettleMethod } from "./metrics.ts"
import { type Operation } from "./providers/provider.ts"
import { type Rates } from "./rate-domain.ts"
import { type RunningModel, type RunningTarget } from "./running.ts"

/** Where nobody says how many tokens something is, so many bytes of text are taken for one. */
const bytesPerToken = 3

/** What is known of a call from its start. */
export interface MeteredCall {
  readonly operation: Operation
  readonly dialect: string
  readonly modelAsked: string
  readonly model: RunningModel
  readonly catalogueVersion: string
  readonly bound: RequestBound
  readonly metadata: Readonly<Record<string, string>> | undefined
  readonly traceId: string | undefined
}

/** What the model said so far, as far as anybody knows. */
export interface Progress {
  readonly usage: TokenUsage | undefined
  readonly textBytes: number
}

/**
 * The money of one call from its first hold to its end. Whatever happens, each hold is closed once: with what was used, with
 * what it may have cost, or with nothing.
 */
export class CallMeter {
  readonly attempts: Array<Attempt> = []
  /** Set while a request is out: who leaves then may have to pay for it. */
  progress: (() => Progress) | undefined
  timeToFirstTokenMs: number | null = null
  /** What a stream used that came to its end as it should. */
  completedWith: TokenUsage | undefined
  /** When the first bytes of a stream were there. */
  private streamingSince: number | undefined
  private hold: Hold | undefined
  private target: RunningTarget | undefined
  private readonly call: MeteredCall
  readonly startedAt: number

  constructor(call: MeteredCall, startedAt: number) {
    this.call = call
    this.startedAt = startedAt
  }

  /** Whether money is kept free at this target's provider. */
  holdsFor(target: RunningTarget): boolean {
    return this.hold !== undefined && this.target?.provider.id === target.provider.id
  }

  take(hold: Hold, target: RunningTarget): void {
    this.hold = hold
    this.target = target
  }

  at(target: RunningTarget): void {
    this.target = target
  }

  /** From here on the answer streams. */
  streams(now: number): void {
    this.streamingSince = now
    this.timeToFirstTokenMs = now - this.startedAt
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

  /** The usage that is charged where the provider reported none, or only a part. */
  estimate({ textBytes, usage }: Progress): TokenUsage {
    return {
      ...(usage ?? noUsage),
      inputTokens: usage?.inputTokens || Math.ceil(this.call.bound.inputTokens / bytesPerToken),
      outputTokens: Math.max(usage?.outputTokens ?? 0, Math.ceil(textBytes / bytesPerToken))
    }
  }

  /** Charges what was used; answers what it cost. */
  settle(usage: TokenUsage, method: SettleMethod, status: number): Effect.Effect<bigint> {
    const cost = this.cost(usage)
    const tokens = usage.inputTokens + usage.outputTokens
    return Effect.as(this.close(usage, { costNanoUsd: cost, tokens, method }, status), cost)
  }

  /** Charges everything that was kept free: the request was sent, and nobody will ever know what it did cost. */
  forfeit(status: number): Effect.Effect<void> {
    const { amountNanoUsd = 0n, tokens = 0 } = this.hold ?? {}
    return this.close(undefined, { costNanoUsd: amountNanoUsd, tokens, method: "unanswered" }, status)
  }

  readonly release: Effect.Effect<void> = Effect.suspend(() => {
    const { hold } = this
    this.hold = undefined
    this.progress = undefined
    if (hold === undefined) return Effect.void
    return Effect.flatMap(Clock.currentTimeMillis, (now) =>
      hold.release(this.details(noUsage, this.attempts.at(-1)?.status ?? null, now))
    )
  })

  /** The end of a call that did not come to its own: its caller left, or something broke. */
  readonly abandon: Effect.Effect<void> = Effect.suspend(() => {
    const progress = this.progress?.()
    return progress === undefined ? this.release : Effect.asVoid(this.settle(this.estimate(progress), "aborted", 499))
  })

  /** The time that providers took: all attempts, and of a stream what came after its first bytes. */
  private upstreamMs(now: number): number {
    const attempts = this.attempts.reduce((sum, { durationMs }) => sum + durationMs, 0)
    return attempts + (this.streamingSince === undefined ? 0 : now - this.streamingSince)
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

  private close(usage: TokenUsage | undefined, settlement: Settlement, status: number): Effect.Effect<void> {
    return Effect.suspend(() => {
      const { hold, target } = this
      this.hold = undefined
      this.progress = undefined
      if (hold === undefined) return Effect.void
      return Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.map(hold.settle(settlement, this.details(usage, status, now)), () =>
          measured({
            operation: this.call.operation,
            provider: target?.provider.id ?? "",
            model: target?.model ?? "",
            usage: usage ?? noUsage,
            method: settlement.method,
            latencyMs: now - this.startedAt,
            upstreamMs: this.upstreamMs(now)
          })
        )
      )
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
