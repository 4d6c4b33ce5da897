import { type Clock, Effect, Exit, Option, type Tracer } from "effect"
import { type ReservationId } from "../../budgets/ledger/domain.ts"
import {
  type CallDetails,
  type CallError,
  type OtherModelTerms,
  type PriceTerms,
  type UnitTerms
} from "../../budgets/ledger/protocol-domain.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { usdOf } from "../../kernel/usd.ts"
import { costOf, isPriced, pricedMedia, ratesAt, ratesFor, type TableOf } from "../catalog/cost.ts"
import { type Rates, type RateTable } from "../catalog/rate-domain.ts"
import { completedUnits, type UnitCharge, unitCharges } from "../catalog/unit-costs.ts"
import { type ServedModel, type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { answerErrorOf, callerLeft } from "../errors/call-error.ts"
import {
  noUsage,
  type OtherModel,
  type Served,
  type TokenUsage,
  type ToolUses,
  type UsageExtras
} from "../formats/domain.ts"
import { type DialectError } from "../formats/errors.ts"
import { type WireFormat } from "../formats/format.ts"
import { inputWithTools, toolLimits, usualResultTokens } from "../formats/provider-tools.ts"
import { type TokenUpperBound } from "../formats/token-upper-bound.ts"
import { type Attempt } from "../routing/router.ts"
import { type AnswerFacts } from "../telemetry/answer-facts.ts"
import { describeSettlement, exitOf, type SettledCall } from "../telemetry/call-spans.ts"
import { type ChargeNotice, countNotice, logNotices } from "../telemetry/charge-notices.ts"
import { type Conventions } from "../telemetry/conventions.ts"
import { measured, released, type SettleMethod } from "../telemetry/metrics.ts"
import { type BudgetReservation, type EarlierReservation, type Settlement } from "./budget-reservations.ts"
import { ChargeTerms } from "./charge-terms.ts"
import { type Estimate } from "./estimates.ts"
import { type RequestTexts, textsOf } from "./request-texts.ts"
import { encodingOf, type TokenCounts } from "./token-counts.ts"
import { thinksUnseen } from "./unseen-thinking.ts"

/** Bytes of text that count as one token where neither a provider nor a tokenizer counts them. */
export const bytesPerToken = 3

/** What is known of a call at its start. */
export interface MeteredCall {
  readonly format: Pick<WireFormat, "chargesBound" | "dialect" | "operation">
  /** The name that the caller used for the model. */
  readonly asked: unknown
  readonly streams: boolean
  readonly body: Readonly<Record<string, unknown>>
  readonly tenantId: TenantId
  readonly model: ServedModel
  readonly catalogueVersion: string
  /** The prices of a model that the configuration or the catalogue knows, by its provider and that one's name for it. */
  readonly ratesOf: (provider: string, model: string) => RateTable | undefined
  readonly bound: TokenUpperBound
  /** The longest that it may take with all its attempts. */
  readonly timeoutSeconds: number
  readonly metadata: Readonly<Record<string, string>> | undefined
  readonly traceId: string | undefined
  /** The names of its span and metrics. */
  readonly conventions: Conventions
}

/** The output of the model so far. */
export interface Progress {
  readonly usage: TokenUsage | undefined
  /** What was read besides the tokens. */
  readonly extras?: UsageExtras | undefined
  /** Whether the model reported its end. */
  readonly finished: boolean
  readonly textBytes: number
  /** The text itself, if there is a tokenizer for it. */
  readonly texts: ReadonlyArray<string>
}

/** The phases of a call's budget in which it holds a reservation; `failed` is an attempt that was sent and has failed. */
export type HeldPhase = "reserved" | "sent" | "answered" | "streaming" | "failed"

export type Phase = "unreserved" | HeldPhase | "ended"

type BudgetState =
  | { readonly phase: "unreserved" | "ended"; readonly reservation?: undefined }
  | { readonly phase: HeldPhase; readonly reservation: BudgetReservation }

/**
 * What may happen to a reservation, by the phase that it is in, and the phase afterwards. `ended` is final for a
 * reservation; a retry with a new one begins at `reserved` again.
 */
const steps = {
  beginAttempt: { reserved: "reserved", failed: "failed" },
  sent: { reserved: "sent", failed: "sent" },
  answered: { sent: "answered" },
  attemptFailed: { reserved: "reserved", sent: "failed", failed: "failed" },
  describe: { answered: "answered" },
  observe: { answered: "answered", streaming: "streaming" },
  streams: { answered: "streaming" },
  settle: { answered: "ended", streaming: "ended", failed: "ended" },
  chargeFullReservation: { failed: "ended" },
  abandon: { sent: "ended", answered: "ended", streaming: "ended" },
  release: { reserved: "ended", sent: "ended", answered: "ended", streaming: "ended", failed: "ended" },
  withdraw: { reserved: "unreserved" },
  moved: { reserved: "reserved", failed: "reserved" }
} as const satisfies Readonly<Record<string, Readonly<Partial<Record<HeldPhase, Phase>>>>>

const illegal = (phase: Phase, step: string, to: Iterable<Phase>): Error =>
  new Error(`The budget of a call cannot go from ${phase} to ${[...new Set(to)].join(" or ")} (${step})`)

/**
 * The budget of one call, from its first reservation to its end. Every call ends with one of four transitions, each of
 * which closes the reservation once: `settle` charges a usage, `chargeFullReservation` everything that was reserved,
 * `release` nothing, and `abandon` the output up to the moment when the caller left. `withdraw` gives back what was reserved
 * for an admission that is made again. Any other order of them is a defect that changes nothing, so that `abandon` still
 * closes the reservation when the request ends.
 */
export class UsageMeter {
  readonly attempts: Array<Attempt> = []
  private readonly notices: Array<ChargeNotice> = []
  /** The usage of a stream that was completed, and the bytes of its text. */
  completedUsage: TokenUsage | undefined
  saidBytes = 0
  private state: BudgetState = { phase: "unreserved" }
  /** Returns the output of the model so far. */
  private progress: () => Progress = noProgress
  /** The metadata of the provider's response. */
  private facts: AnswerFacts | undefined
  private timeToFirstTokenMs: number | null = null
  /** When the last attempt began, and the number of attempts. */
  private triedSince = 0
  private tries = 0
  /** When the last request left for its provider, and for how long it worked on it, once that is said or charged. */
  private sentAt = 0
  private workedMs: number | undefined
  /** When the first bytes of a stream arrived. */
  private streamingSince: number | undefined
  /** Why an answer failed that had begun. */
  private answerError: CallError | undefined
  /** The span of the successful attempt, until its cost is known. */
  private span: Tracer.Span | undefined
  private estimated: Estimate | undefined
  /** Whether the reservation is what an attempt has left, and no other one has begun. */
  private isRest = false
  private target: ModelTarget | undefined
  private readonly call: MeteredCall
  private readonly clock: Clock.Clock
  private readonly counts: TokenCounts["Service"]
  readonly startedAt: number

  constructor(call: MeteredCall, clock: Clock.Clock, counts: TokenCounts["Service"]) {
    this.call = call
    this.clock = clock
    this.counts = counts
    this.startedAt = clock.currentTimeMillisUnsafe()
  }

  /** Whether budget is reserved at this target's provider. */
  isReservedFor(target: ModelTarget): boolean {
    return this.state.reservation !== undefined && this.target?.provider.id === target.provider.id
  }

  /** unreserved, ended → reserved: budget is reserved for the call at a target. */
  reserved(reservation: BudgetReservation, target: ModelTarget, estimated: Estimate): void {
    if (this.state.reservation !== undefined) {
      // What the meter does not take would stay open.
      reservation.release()
      throw illegal(this.state.phase, "reserved", ["reserved"])
    }
    this.state = { phase: "reserved", reservation }
    this.estimated = estimated
    this.target = target
  }

  /** An attempt at a target begins; it waits for a place in the bulkhead and has cost nothing yet. */
  beginAttempt(target: ModelTarget): void {
    this.step("beginAttempt")
    this.isRest = false
    this.target = target
    this.triedSince = this.now
    this.tries++
  }

  /** What a reservation from before the call does for the next attempt at it, if the call holds one. */
  get earlier(): EarlierReservation | undefined {
    return this.state.reservation?.earlier
  }

  /** reserved, failed → reserved: an earlier reservation serves an attempt at another target. */
  moved(reservation: BudgetReservation, target: ModelTarget, estimated: Estimate): void {
    this.step("moved")
    this.state = { phase: "reserved", reservation }
    this.estimated = estimated
    this.target = target
  }

  /** reserved, failed → sent: from here on the request may cost something, even if the caller disconnects. */
  sent(): void {
    this.step("sent")
    this.progress = noProgress
    this.sentAt = this.now
    this.workedMs = undefined
  }

  /** sent → answered: the provider responded; the attempt's span ends when the call is settled, with its usage. */
  answered(attempt: Attempt, span: Tracer.Span | undefined): void {
    this.step("answered")
    this.attempts.push(attempt)
    this.span = span
  }

  /** sent → failed: the attempt failed; if that cost nothing, the next one uses the same reservation. */
  attemptFailed(attempt: Attempt): void {
    this.step("attemptFailed")
    this.attempts.push(attempt)
    this.workedMs ??= this.timeSinceSent
  }

  /** answered → streaming: the first bytes of a stream arrived. */
  streams(now: number, facts: AnswerFacts): void {
    this.step("streams")
    this.streamingSince = now
    this.timeToFirstTokenMs = now - this.startedAt
    this.facts = facts
  }

  /** Sets how to read the output of the model so far. */
  observe(progress: () => Progress): void {
    this.step("observe")
    this.progress = progress
  }

  /** Sets the metadata of a complete response. */
  describe(facts: AnswerFacts | undefined): void {
    this.step("describe")
    this.facts = facts
  }

  /** Sets why an answer failed that had begun, where it did. */
  answerFailed(error: DialectError | undefined): void {
    this.answerError = error && answerErrorOf(error)
  }

  /** The bytes of text that the model has sent so far. */
  get answeredBytes(): number {
    return this.progress().textBytes
  }

  /** Whether a stream has said anything. */
  get hasSaid(): boolean {
    return this.saidBytes > 0
  }

  /** Whether the answer did not end with an error. */
  get endedWell(): boolean {
    return this.facts?.finishReasons.some((reason) => failedEnds.has(reason)) !== true
  }

  get now(): number {
    return this.clock.currentTimeMillisUnsafe()
  }

  get reservationId(): ReservationId | undefined {
    return this.state.reservation?.id
  }

  /** What the caps in money leave after `costNanoUsd` is charged; null if none applies. */
  remaining(costNanoUsd: bigint | undefined): bigint | null {
    const { amountNanoUsd = 0n, remainingNanoUsd = null } = this.state.reservation ?? {}
    if (remainingNanoUsd === null || costNanoUsd === undefined) return remainingNanoUsd
    const left = remainingNanoUsd + amountNanoUsd - costNanoUsd
    // A provider may report more than its limits allow, which is charged.
    return left > 0n ? left : 0n
  }

  /** The cost of a usage at the target that served it; 0 if the price is unknown. */
  cost(usage: TokenUsage): bigint {
    const rates = this.target?.rates ?? null
    return usage.reportedCost?.nanoUsd ?? (rates === null ? 0n : costOf(this.completed(usage), rates, this.tableOf))
  }

  /** A usage with what is charged besides what was reported. */
  private completed(usage: TokenUsage): TokenUsage {
    return this.withTime(this.withUnits(usage))
  }

  /** Whether tokens have a price at the target. */
  get chargesTokens(): boolean {
    return this.target?.rates?.ceilings.every((rates) => rates.mediaInput === 0n && rates.mediaOutput === 0n) !== true
  }

  /** A usage with the most of each unit that has a price and was not reported. */
  private withUnits(usage: TokenUsage): TokenUsage {
    const rates = this.target?.rates?.unitRates === undefined ? null : this.target.rates
    if (rates === null || usage.reportedCost?.nanoUsd !== undefined) return usage
    const units = completedUnits(usage.units, this.call.bound.units, rates)
    return units === usage.units || units === undefined ? usage : { ...usage, units }
  }

  /** Whether the time of the call at its target is charged. */
  get isTimed(): boolean {
    return this.target?.rates?.gpuHour !== undefined
  }

  /**
   * A usage with the time that the last request took, where that is charged: from when it was sent to the end of its answer,
   * at least a millisecond and at most the time that was held. What an answer named of it does not change any more.
   */
  private withTime(usage: TokenUsage): TokenUsage {
    if (!this.isTimed) return usage
    this.workedMs ??= this.timeSinceSent
    return { ...usage, upstreamMs: this.workedMs }
  }

  private get timeSinceSent(): number {
    return Math.min(this.call.timeoutSeconds * 1000, Math.max(1, this.now - this.sentAt))
  }

  /** The prices of another model of the target's provider. */
  private readonly tableOf: TableOf = (model) =>
    this.target === undefined ? undefined : this.call.ratesOf(this.target.provider.id, model)

  /** A new reader of what the charge of an answer depends on besides its tokens. */
  makeChargeTerms(
    format: Pick<WireFormat, "servedIn" | "unitsIn">,
    headers: Readonly<Record<string, string>>
  ): ChargeTerms {
    return new ChargeTerms({
      tools: this.call.bound.tools,
      format,
      request: this.call.body,
      headers,
      costPath: this.target?.provider.costPath
    })
  }

  /** Whether to keep the text of the response: a tokenizer can count it. */
  get countsTokens(): boolean {
    return this.target !== undefined && encodingOf(this.target) !== undefined
  }

  /**
   * The usage to charge if the provider reported none, or only a part. Texts are counted by the model's tokenizer, or else
   * by their bytes; images and documents count as their upper bound. The result never exceeds the reservation.
   */
  estimate({ extras, textBytes, texts, usage }: Progress): Effect.Effect<TokenUsage> {
    const { call, counts, estimated, target } = this
    const { chargesBound } = call.format
    if (chargesBound !== undefined && usage === undefined) return Effect.succeed(this.bounded(chargesBound, extras))
    const withResults = (inputTokens: number) => this.withResults(inputTokens, extras?.toolUses, maxInput)
    const { body, bound, tenantId } = call
    const maxInput = estimated?.inputTokens ?? Infinity
    const maxOutput = estimated?.allOutputTokens ?? Infinity
    const count = (given: ReadonlyArray<string>) =>
      target === undefined || given.length === 0 ? Effect.succeedNone : counts.countFor(tenantId, target, given)
    return Effect.gen(function* () {
      const read = usage?.inputTokens ?? 0
      const asked = read > 0 ? noTexts : textsOf(body)
      const input = yield* count(asked.texts)
      const output = yield* count(texts)
      const byBytes = () =>
        Math.ceil(asked.texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0) / bytesPerToken)
      const given = bound.mediaTokens + asked.tokens + Option.getOrElse(input, byBytes)
      const answered = Option.getOrElse(output, () => Math.ceil(textBytes / bytesPerToken))
      return {
        ...(usage ?? noUsage),
        ...extras,
        inputTokens: withResults(read || Math.min(maxInput, given)),
        outputTokens: Math.max(usage?.outputTokens ?? 0, Math.min(maxOutput, answered))
      }
    })
  }

  /** What an answer was bounded by, where its cost does not depend on how much of it arrived. */
  private bounded({ medium }: NonNullable<WireFormat["chargesBound"]>, extras: UsageExtras | undefined): TokenUsage {
    const { mediaTokens, readings = 1 } = this.call.bound
    const { allOutputTokens: outputTokens = 0, inputTokens = 0 } = this.estimated ?? {}
    const read = Math.min(inputTokens, readings * mediaTokens)
    const media = medium === undefined ? {} : { [`${medium}Input`]: read, [`${medium}Output`]: outputTokens }
    return { ...noUsage, ...extras, inputTokens, outputTokens, ...(medium === undefined ? {} : { media }) }
  }

  /** Input tokens with the results of the tools that were used, which the model read, but no more than was reserved. */
  private withResults(inputTokens: number, uses: ToolUses | undefined, maxInput: number): number {
    const { bound, model } = this.call
    if (uses === undefined || bound.tools === undefined) return inputTokens
    const used = Object.values(uses).reduce((sum, count) => sum + count, 0)
    const { maxSteps } = toolLimits(bound.tools, 0)
    const results = usualResultTokens(bound.tools, model.maxTokensPerToolUse)
    const most = inputWithTools(inputTokens, { maxSteps, uses: used }, results, model.contextTokens)
    return Math.max(inputTokens, Math.min(maxInput, most))
  }

  /** answered, streaming, failed → ended: charges a usage; returns its cost. */
  settle(usage: TokenUsage, method: SettleMethod, status: number): bigint {
    return this.charge("settle", usage, method, status)
  }

  /**
   * failed → ended: charges the usage of a failed attempt, and returns its cost; → reserved: where that leaves something of an
   * earlier reservation, it is for the next attempt.
   */
  settleAttempt(usage: TokenUsage, method: SettleMethod, status: number): Effect.Effect<bigint> {
    return Effect.uninterruptibleMask((restore) => {
      const { earlier, estimated, target } = this
      if (earlier === undefined || target === undefined || estimated === undefined) {
        return Effect.sync(() => this.settle(usage, method, status))
      }
      let settling: Effect.Effect<BudgetReservation | undefined> = Effect.succeed(undefined)
      const costNanoUsd = this.charge("settle", usage, method, status, (settlement, details) => {
        settling = earlier.settlePart(settlement, details, restore)
      })
      return Effect.map(settling, (rest) => {
        if (rest !== undefined) {
          this.reserved(rest, target, estimated)
          this.isRest = true
        }
        return costNanoUsd
      })
    })
  }

  /** failed → ended: charges the whole reservation, for a request that got no response; returns its amount. */
  chargeFullReservation(status: number): bigint {
    const { amountNanoUsd = 0n, tokens = 0 } = this.state.reservation ?? {}
    this.close("chargeFullReservation", undefined, "unanswered", { costNanoUsd: amountNanoUsd, tokens }, status)
    return amountNanoUsd
  }

  /** → ended: releases the whole reservation, if there is one that is not closed. */
  release(status: number | null = this.attempts.at(-1)?.status ?? null): void {
    if (this.state.reservation === undefined) return
    const details = this.isRest ? undefined : this.details(noUsage, "released", status, this.now)
    this.step("release").release(details)
    this.endSpan()
    released()
  }

  /** answered, streaming → ended: an answer that holds nothing costs what it reports, or its time where that is charged. */
  endEmpty(usage: TokenUsage | undefined, status: number): void {
    if (usage !== undefined) this.settle(usage, "provider_usage", status)
    else if (this.isTimed) this.settle(noUsage, "unanswered", status)
    else this.release(status)
  }

  /** reserved → unreserved: releases what an admission reserved that is made again, if it reserved anything. */
  withdraw(): void {
    if (this.state.reservation !== undefined) this.step("withdraw").release()
  }

  /** → ended: the caller disconnected, or an error occurred, before the call ended on its own. */
  readonly abandon: Effect.Effect<void> = Effect.suspend(() => {
    if (!this.isUnsettled) return Effect.sync(() => this.release())
    const progress = this.progress()
    return Effect.map(this.estimate(progress), (usage) => {
      // The call may end on its own while its text is counted.
      if (!this.isUnsettled) return
      this.charge("abandon", progress.finished ? usage : this.withUnseen(usage), "aborted", 499)
    })
  })

  /** Whether the model reported its end. */
  get isFinished(): boolean {
    const { phase } = this.state
    return phase === "ended" || (phase === "streaming" && this.progress().finished)
  }

  /** Whether a request was sent, and it is not known yet what it costs. */
  private get isUnsettled(): boolean {
    return Object.hasOwn(steps.abandon, this.state.phase)
  }

  /**
   * A usage with what a model may have thought unseen until its caller left, or written of an answer that is not streamed:
   * what it can write in that time, but no more than was reserved.
   */
  private withUnseen(usage: TokenUsage): TokenUsage {
    const { call, estimated, target } = this
    const thinks = target !== undefined && thinksUnseen(call.body, target.traits)
    const isUnseen = this.state.phase !== "streaming" && !call.streams
    if (!thinks && !isUnseen) return usage
    const { choices } = call.bound
    const written = Math.ceil(((this.now - this.triedSince) / 1000) * call.model.maxTokensPerSecond) * choices
    const most = estimated?.allOutputTokens ?? Infinity
    const unseen = Math.min(written, most) - usage.outputTokens
    return unseen <= 0
      ? usage
      : {
          ...usage,
          outputTokens: usage.outputTokens + unseen,
          reasoningTokens: usage.reasoningTokens + (thinks ? unseen : 0)
        }
  }

  /** Makes a step, and returns the reservation that it is made with. */
  private step(step: keyof typeof steps): BudgetReservation {
    const { phase, reservation } = this.state
    const moves: Readonly<Partial<Record<HeldPhase, Phase>>> = steps[step]
    const to = reservation === undefined ? undefined : moves[phase]
    if (reservation === undefined || to === undefined) throw illegal(phase, step, Object.values(moves))
    if (to !== phase) {
      this.state = to === "ended" || to === "unreserved" ? { phase: to } : { phase: to, reservation }
    }
    return reservation
  }

  /** The time spent at providers: all attempts, including a pending one, and the part of a stream after its first bytes. */
  private upstreamMs(now: number): number {
    const attempts = this.attempts.reduce((sum, { durationMs }) => sum + durationMs, 0)
    const out = this.tries > this.attempts.length ? now - this.triedSince : 0
    return attempts + out + (this.streamingSince === undefined ? 0 : now - this.streamingSince)
  }

  /** Of a stream: the time to its first bytes. */
  private get firstChunkMs(): number | undefined {
    return this.streamingSince === undefined ? undefined : this.attempts.at(-1)?.durationMs
  }

  /** The details for the call's usage row; an unknown usage is omitted. */
  private details(
    usage: TokenUsage | undefined,
    method: SettleMethod | "released",
    status: number | null,
    now: number,
    isOver: boolean = false
  ): CallDetails {
    const { call, target } = this
    const rates = target?.rates ?? null
    return {
      operation: call.format.operation,
      dialect: call.format.dialect,
      modelAsked: String(call.asked),
      modelServed: target?.model,
      provider: target?.provider.id,
      usage,
      method,
      rates: rates === null || usage?.reportedCost?.nanoUsd !== undefined ? null : ratesText(rates, usage),
      priceTerms:
        usage && method !== "released" ? withHold(priceTermsOf(rates, usage, this.tableOf), isOver) : undefined,
      catalogueVersion: call.catalogueVersion,
      latencyMs: now - this.startedAt,
      upstreamLatencyMs: this.upstreamMs(now),
      timeToFirstTokenMs: this.timeToFirstTokenMs,
      status,
      attempts: this.attempts,
      // An attempt that was answered has none, whatever those before it have.
      error: method === "aborted" ? callerLeft : (this.answerError ?? this.attempts.at(-1)?.error),
      metadata: call.metadata,
      traceId: call.traceId
    }
  }

  /** Whether a charge exceeds what a hard cap relies on. */
  private exceedsHold({ costNanoUsd, tokens }: Settlement): boolean {
    const { reservation } = this.state
    const { isHardMoney = false, isHardTokens = false } = this.estimated ?? {}
    if (reservation === undefined) return false
    return (isHardMoney && costNanoUsd > reservation.amountNanoUsd) || (isHardTokens && tokens > reservation.tokens)
  }

  private endSpan(settled?: SettledCall): void {
    const { span } = this
    this.span = undefined
    if (span === undefined) return
    if (settled !== undefined) describeSettlement(this.call.conventions, span, settled)
    span.end(this.clock.currentTimeNanosUnsafe(), settled === undefined ? Exit.void : exitOf(settled))
  }

  private charge(
    step: "settle" | "abandon",
    given: TokenUsage,
    method: SettleMethod,
    status: number,
    settle?: BudgetReservation["settle"]
  ): bigint {
    const usage = this.completed(given)
    const costNanoUsd = this.cost(usage)
    const tokens = usage.inputTokens + usage.outputTokens
    this.notice(usage, step === "settle" && lacksUnits(given, usage))
    this.close(step, usage, method, { costNanoUsd, tokens }, status, settle)
    return costNanoUsd
  }

  /** Notes what is remarkable about a charge. */
  private notice({ isContradictory, otherModels, reportedCost, served }: TokenUsage, lacksUnits: boolean): void {
    if (!lacksUnits && (isContradictory ?? otherModels ?? reportedCost ?? served) === undefined) return
    const rates = this.target?.rates ?? null
    const isReported = reportedCost?.nanoUsd !== undefined
    const noted: ReadonlyArray<ChargeNotice | undefined> = [
      isContradictory === true ? "usage-contradictory" : undefined,
      reportedCost !== undefined && !isReported ? "cost-unreported" : undefined,
      lacksUnits ? "units-unreported" : undefined,
      served !== undefined && rates !== null && !isReported && !isPriced(rates, served) ? "tier-unpriced" : undefined,
      !isReported && otherModels?.some(({ model }) => this.tableOf(model) === undefined) ? "model-unpriced" : undefined
    ]
    for (const notice of noted) {
      if (notice === undefined) continue
      this.notices.push(notice)
      countNotice(notice)
    }
  }

  /** Logs what was noted of its charges. */
  readonly logNotices: Effect.Effect<void> = Effect.suspend(() =>
    this.target === undefined || this.notices.length === 0 ? Effect.void : logNotices(this.notices, this.target)
  )

  private close(
    step: "settle" | "chargeFullReservation" | "abandon",
    usage: TokenUsage | undefined,
    method: SettleMethod,
    settlement: Settlement,
    status: number,
    settle?: BudgetReservation["settle"]
  ): void {
    const { facts, firstChunkMs, now, target, timeToFirstTokenMs } = this
    const { costNanoUsd } = settlement
    const details = this.details(usage, method, status, now, this.exceedsHold(settlement))
    const reservation = this.step(step)
    // Before anything that may fail: nothing else would close it any more.
    if (settle === undefined) reservation.settle(settlement, details)
    else settle(settlement, details)
    const errorType = status >= 400 && method !== "aborted" ? String(status) : undefined
    this.endSpan({
      usage,
      costNanoUsd,
      method,
      reservationId: reservation.id,
      timeToFirstTokenMs,
      firstChunkMs,
      facts,
      errorType
    })
    measured({
      conventions: this.call.conventions,
      operation: this.call.format.operation,
      target,
      usage,
      method,
      isOverrun: costNanoUsd > reservation.amountNanoUsd,
      errorType,
      timeToFirstTokenMs: firstChunkMs,
      attemptMs: now - this.triedSince,
      latencyMs: now - this.startedAt,
      upstreamMs: this.upstreamMs(now)
    })
  }
}

/** How answers end that a provider failed or gave up. */
const failedEnds: ReadonlySet<string> = new Set([
  "error",
  "failed",
  "cancelled",
  "canceled",
  "abort",
  "in_progress",
  "queued"
])

/** Whether an answer lacks units that are charged; the characters of a request are in no answer. */
const lacksUnits = (given: TokenUsage, charged: TokenUsage): boolean =>
  charged !== given &&
  Object.keys(charged.units ?? {}).some((unit) => unit !== "characters" && !Object.hasOwn(given.units ?? {}, unit))

const noTexts: RequestTexts = { texts: [], tokens: 0, bytes: 0 }

const noProgress = (): Progress => ({ usage: undefined, finished: false, textBytes: 0, texts: [] })

/** The rates that a usage was charged at. */
export const ratesText = (table: RateTable, usage: TokenUsage | undefined): string => {
  if (table.gpuHour !== undefined) return JSON.stringify({ gpuHour: String(table.gpuHour.usd) })
  const rates = ratesFor(ratesAt(table, usage?.served), usage?.inputTokens ?? 0)
  if (usage?.toolUses === undefined) return basicRatesText(rates)
  return JSON.stringify({ ...rates, ...table.toolFees }, (_, rate: unknown) =>
    typeof rate === "bigint" ? String(rate) : rate
  )
}

/** The terms of a charge, with whether it exceeds what was held. */
const withHold = (terms: PriceTerms | undefined, isOver: boolean): PriceTerms | undefined =>
  isOver ? { ...terms, hold: "over" } : terms

/** What the charge of a usage was made by besides its rates and tokens of text; undefined where there is nothing. */
export const priceTermsOf = (table: RateTable | null, usage: TokenUsage, tableOf: TableOf): PriceTerms | undefined => {
  const { media, otherModels, reportedCost, served, upstreamMs } = usage
  const units = table === null || reportedCost?.nanoUsd !== undefined ? [] : unitCharges(usage.units, table)
  if (units.length === 0 && (served ?? media ?? otherModels ?? reportedCost ?? upstreamMs) === undefined)
    return undefined
  const tokens = table === null ? undefined : pricedMedia(usage, ratesFor(ratesAt(table, served), usage.inputTokens))
  const terms = {
    ...served,
    ...(served !== undefined && table !== null && reportedCost?.nanoUsd === undefined && !isPriced(table, served)
      ? { isUnpriced: true }
      : {}),
    ...(tokens === undefined ? {} : { tokens }),
    ...(units.length === 0 ? {} : { units: units.map(unitTermsOf) }),
    ...(upstreamMs === undefined || table?.gpuHour === undefined
      ? {}
      : { gpu: { upstreamMs, slots: table.gpuHour.slots } }),
    ...(otherModels === undefined || table === null || reportedCost?.nanoUsd !== undefined
      ? {}
      : { models: otherModels.map((other) => otherTermsOf(other, served, tableOf(other.model) ?? table)) }),
    ...(reportedCost === undefined ? {} : { cost: reportedCost.nanoUsd === undefined ? "unreported" : "reported" })
  } satisfies PriceTerms
  return Object.keys(terms).length === 0 ? undefined : terms
}

const unitTermsOf = ({ nanoUsd, quantity, rate, unit }: UnitCharge): UnitTerms => ({
  unit,
  quantity,
  usdPerUnit: usdOf(rate),
  costUsd: usdOf(nanoUsd)
})

/** What the part of another model was charged by. */
const otherTermsOf = ({ model, usage }: OtherModel, served: Served | undefined, table: RateTable): OtherModelTerms => ({
  model,
  inputTokens: usage.inputTokens,
  cachedInputTokens: usage.cachedInputTokens,
  cacheWriteTokens: usage.cacheWriteTokens,
  cacheWrite1hTokens: usage.cacheWrite1hTokens,
  outputTokens: usage.outputTokens,
  reasoningTokens: usage.reasoningTokens,
  costUsd: usdOf(costOf(served === undefined ? usage : { ...usage, served }, table))
})

/** Rates as usage rows store them, in JSON; cached, since a configuration has few. */
const written = new WeakMap<Rates, string>()
const basicRatesText = (rates: Rates) => {
  let texts = written.get(rates)
  if (texts === undefined) {
    texts = JSON.stringify(Object.fromEntries(Object.entries(rates).map(([name, rate]) => [name, String(rate)])))
    written.set(rates, texts)
  }
  return texts
}
