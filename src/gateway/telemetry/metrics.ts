import { Context, Metric } from "effect"
import { type AvailableBudget } from "../../budgets/ledger/protocol-domain.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { type TokenUsage } from "../formats/domain.ts"
import { type Operation } from "../formats/domain.ts"
import { modalitiesOf } from "./call-spans.ts"
import { conventionNames, type Conventions, kindOf, operationName, providerName } from "./conventions.ts"
import { boundedName } from "./model-names.ts"

/** How the settled amount was determined. */
export type SettleMethod = "provider_usage" | "aborted" | "estimated" | "unanswered"

// Histogram boundaries from OpenTelemetry's conventions for generative AI.
const secondsBoundaries = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
const tokenBoundaries = [
  1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864
]
const firstTokenBoundaries = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const overheadBoundaries = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1]

type Attributes = Readonly<Record<string, string>>

const durationOf = (name: string, attributes: Attributes) =>
  Metric.histogram(name, {
    description: "Duration of calls of providers",
    boundaries: secondsBoundaries,
    attributes: { ...attributes, unit: "s" }
  })
const tokensOf = (name: string, attributes: Attributes) =>
  Metric.histogram(name, {
    description: "Tokens that calls used",
    boundaries: tokenBoundaries,
    attributes: { ...attributes, unit: "{token}" }
  })
const tokenTotalOf = (name: string, description: string, attributes: Attributes) =>
  Metric.counter(name, { description, attributes: { ...attributes, unit: "{token}" }, incremental: true })
const firstBytesOf = (name: string, boundaries: ReadonlyArray<number>, attributes: Attributes) =>
  Metric.histogram(name, {
    description: "Time until the first bytes of streamed answers of providers",
    boundaries,
    attributes: { ...attributes, unit: "s" }
  })
const overhead = Metric.histogram("app.gateway.overhead", {
  description: "What the gateway adds to calls: their whole time without the providers'",
  boundaries: overheadBoundaries,
  attributes: { unit: "s" }
})
const settlementsBy = (method: SettleMethod | "released") =>
  Metric.counter("app.gateway.settlements", {
    description: "Reservations of calls that ended, by how their cost was found",
    attributes: { method, unit: "{call}" },
    incremental: true
  })
const overruns = Metric.counter("app.gateway.overruns", {
  description:
    "Calls that were charged more than was reserved for them: their provider reported more than their limits allow",
  attributes: { unit: "{call}" },
  incremental: true
})
const denials = Metric.counter("app.gateway.denials", {
  description: "Calls that were not let in, by reason",
  attributes: { unit: "{call}" },
  incremental: true
})

/** A call that ended, as metrics record it. */
export interface MeasuredCall {
  readonly conventions: Conventions
  readonly operation: Operation
  readonly target: ModelTarget | undefined
  /** Undefined if the usage cannot be determined. */
  readonly usage: TokenUsage | undefined
  readonly method: SettleMethod
  /** Whether it was charged more than was reserved for it. */
  readonly isOverrun: boolean
  /** The error that occurred after the response had begun. */
  readonly errorType: string | undefined
  /** Duration of the successful attempt, from its start to the end of its response. */
  readonly attemptMs: number
  /** Of a stream: the time to its first bytes. */
  readonly timeToFirstTokenMs: number | undefined
  readonly latencyMs: number
  readonly upstreamMs: number
}

const defaultRegistry = Context.empty()
// Prometheus sees an increase only in a series that was there before it.
overruns.updateUnsafe(0, defaultRegistry)
const maxKnown = 1000

/** Metrics by their attributes, cached because `Metric.withAttributes` would create them at every update. */
const known = new Map<string, Series>()

/** The metrics of calls of one kind at one target. */
interface Series {
  duration(seconds: number): void
  firstBytes(seconds: number): void
  /** The usage is undefined where none is known. */
  tokens(usage: TokenUsage | undefined): void
}

const observing =
  (metric: Metric.Metric<number, unknown>) =>
  (value: number): void =>
    metric.updateUnsafe(value, defaultRegistry)

const seriesBefore = (attributes: Attributes, ofDuration: Attributes): Series => {
  const tokenType = conventionNames.tokenType.before
  const input = tokensOf(conventionNames.inputTokens.before, { ...attributes, [tokenType]: "input" })
  const output = tokensOf(conventionNames.outputTokens.before, { ...attributes, [tokenType]: "output" })
  return {
    duration: observing(durationOf(conventionNames.operationDuration.before, ofDuration)),
    firstBytes: observing(firstBytesOf(conventionNames.firstChunk.before, firstTokenBoundaries, attributes)),
    tokens: (usage) => {
      if (usage === undefined) return
      input.updateUnsafe(usage.inputTokens, defaultRegistry)
      output.updateUnsafe(usage.outputTokens, defaultRegistry)
    }
  }
}

const unknownModality = "unknown"

/** The totals of tokens of calls of models by modality, each made when it is first needed. */
const totalsOf = (attributes: Attributes) => {
  const made = new Map<string, ReturnType<typeof totalsAt>>()
  return (modality: string) => {
    let found = made.get(modality)
    if (found === undefined) made.set(modality, (found = totalsAt(modality, attributes)))
    return found
  }
}

const totalsAt = (modality: string, shared: Attributes) => {
  const attributes = { ...shared, [conventionNames.tokenModality.since]: modality }
  const total = (name: string, description: string) => observing(tokenTotalOf(name, description, attributes))
  return {
    input: total(conventionNames.inputTotal.since, "Input tokens of calls of models"),
    output: total(conventionNames.outputTotal.since, "Output tokens of calls of models"),
    cacheRead: total(conventionNames.cacheReadTotal.since, "Input tokens that providers' caches had"),
    cacheWrite: total(conventionNames.cacheWriteTotal.since, "Input tokens written into providers' caches"),
    reasoning: total(conventionNames.reasoningTotal.since, "Output tokens that are reasoning")
  }
}

const inferenceSeries = (attributes: Attributes, ofDuration: Attributes): Series => {
  const input = tokensOf(conventionNames.inputTokens.since, attributes)
  const output = tokensOf(conventionNames.outputTokens.since, attributes)
  const totals = totalsOf(attributes)
  return {
    duration: observing(durationOf(conventionNames.inferenceDuration.since, ofDuration)),
    firstBytes: observing(firstBytesOf(conventionNames.firstChunk.since, secondsBoundaries, attributes)),
    tokens: (usage) => {
      if (usage === undefined) {
        // An answer without a usage is counted, too, so that rates of calls and of tokens have the same series.
        totals(unknownModality).input(0)
        return totals(unknownModality).output(0)
      }
      input.updateUnsafe(usage.inputTokens, defaultRegistry)
      output.updateUnsafe(usage.outputTokens, defaultRegistry)
      const whole = { input: usage.inputTokens, cacheRead: usage.cachedInputTokens, output: usage.outputTokens }
      const parts = modalitiesOf(usage) ?? [{ modality: unknownModality, ...whole }]
      for (const part of parts) {
        const of = totals(part.modality)
        of.input(part.input)
        of.output(part.output)
        of.cacheRead(part.cacheRead)
      }
      // Reasoning is text, and so is what is written into a cache as far as a provider says.
      const rest = totals(parts[0]?.modality ?? unknownModality)
      rest.cacheWrite(usage.cacheWriteTokens)
      rest.reasoning(usage.reasoningTokens)
    }
  }
}

const embeddingsSeries = (attributes: Attributes, ofDuration: Attributes): Series => {
  const input = tokensOf(conventionNames.embeddingsTokens.since, attributes)
  return {
    duration: observing(durationOf(conventionNames.embeddingsDuration.since, ofDuration)),
    firstBytes: () => {},
    tokens: (usage) => {
      if (usage !== undefined) input.updateUnsafe(usage.inputTokens, defaultRegistry)
    }
  }
}

const otherSeries = (_: Attributes, ofDuration: Attributes): Series => ({
  duration: observing(durationOf(conventionNames.operationDuration.since, ofDuration)),
  firstBytes: () => {},
  tokens: () => {}
})

const seriesSince = { inference: inferenceSeries, embeddings: embeddingsSeries, operation: otherSeries } as const

/** What a call is, and where it went, as its metrics name it. */
interface MeasuredAttempt {
  readonly conventions: Conventions
  readonly operation: Operation
  readonly target: ModelTarget
}

const seriesFor = ({ conventions, operation, target }: MeasuredAttempt, errorType = ""): Series => {
  const model = boundedName(target)
  const { provider } = target
  const key = `${conventions} ${operation} ${provider.id} ${providerName(conventions, provider)} ${errorType} ${model}`
  let found = known.get(key)
  if (found === undefined) {
    const attributes = {
      "gen_ai.operation.name": operationName(conventions, operation, target),
      "gen_ai.provider.name": providerName(conventions, provider),
      "gen_ai.request.model": model,
      "app.provider.id": provider.id
    }
    const ofDuration = errorType === "" ? attributes : { ...attributes, "error.type": errorType }
    const make = conventions === "before" ? seriesBefore : seriesSince[kindOf(operation)]
    if (known.size === maxKnown) known.clear()
    known.set(key, (found = make(attributes, ofDuration)))
  }
  return found
}

const settlements: Readonly<Record<SettleMethod | "released", Metric.Counter<number>>> = {
  provider_usage: settlementsBy("provider_usage"),
  aborted: settlementsBy("aborted"),
  estimated: settlementsBy("estimated"),
  unanswered: settlementsBy("unanswered"),
  released: settlementsBy("released")
}

/** Counts a settled call. An attempt without a response was recorded when it failed. */
export const measured = (call: MeasuredCall): void => {
  const { attemptMs, conventions, errorType, latencyMs, method, operation, target } = call
  const { timeToFirstTokenMs, upstreamMs, usage } = call
  if (target !== undefined && usage !== undefined) {
    const series = seriesFor({ conventions, operation, target }, errorType)
    series.duration(attemptMs / 1000)
    series.tokens(usage)
    if (timeToFirstTokenMs !== undefined) series.firstBytes(timeToFirstTokenMs / 1000)
  }
  overhead.updateUnsafe(Math.max(0, latencyMs - upstreamMs) / 1000, defaultRegistry)
  settlements[method].updateUnsafe(1, defaultRegistry)
  if (call.isOverrun) overruns.updateUnsafe(1, defaultRegistry)
}

/** Records an attempt that was sent and got no response. */
export const attemptMeasured = (attempt: MeasuredAttempt, errorType: string, durationMs: number): void => {
  const series = seriesFor(attempt, errorType)
  series.duration(durationMs / 1000)
  series.tokens(undefined)
}

/** Counts a reservation that cost nothing. */
export const released = (): void => settlements.released.updateUnsafe(1, defaultRegistry)

/** Counts a call that was denied. */
export const denied = (reason: string) => Metric.update(Metric.withAttributes(denials, { reason }), 1)

const nanoUsdPerUsd = 1e9
/** Caps beyond this number share one series, because the number of cap names is unbounded. */
const maxCaps = 1000

const reservedUsd = Metric.counter("app.budget.reserved", {
  description: "US dollars that calls of this replica keep free now",
  attributes: { unit: "USD" }
})
const spentUsd = Metric.counter("app.budget.spent", {
  description: "The actual cost of this replica's calls, in US dollars",
  attributes: { unit: "USD" },
  incremental: true
})

const headrooms = new Map<string, Metric.Gauge<number>>()

const headroomOf = ({ cap: { id, unit } }: AvailableBudget): Metric.Gauge<number> | undefined => {
  const known = headrooms.get(id)
  if (known !== undefined || headrooms.size >= maxCaps) return known
  const gauge = Metric.gauge("app.budget.headroom", {
    description: "What a cap had left when it last let a call in, in its own unit",
    attributes: { "app.cap.id": id, "app.cap.unit": unit }
  })
  headrooms.set(id, gauge)
  return gauge
}

/** Records an amount that was reserved. */
export const budgetHeld = (amountNanoUsd: bigint): void =>
  reservedUsd.updateUnsafe(Number(amountNanoUsd) / nanoUsdPerUsd, defaultRegistry)

/** Records what the caps leave after the reservation. */
export const budgetLeft = (available: ReadonlyArray<AvailableBudget>): void => {
  for (const budget of available) {
    const left = Number(budget.headroom)
    headroomOf(budget)?.updateUnsafe(budget.cap.unit === "usd" ? left / nanoUsdPerUsd : left, defaultRegistry)
  }
}

/** Records a closed reservation and the amount spent from it. */
export const budgetClosed = (amountNanoUsd: bigint, costNanoUsd: bigint): void => {
  reservedUsd.updateUnsafe(-Number(amountNanoUsd) / nanoUsdPerUsd, defaultRegistry)
  spentUsd.updateUnsafe(Number(costNanoUsd) / nanoUsdPerUsd, defaultRegistry)
}

/** Counts what a batch cost of the requests of one model, which no replica counts among what its calls keep free. */
export const batchCharged = (heldNanoUsd: bigint, costNanoUsd: bigint, method: SettleMethod): void => {
  budgetClosed(0n, costNanoUsd)
  settlements[method].updateUnsafe(1, defaultRegistry)
  if (costNanoUsd > heldNanoUsd) overruns.updateUnsafe(1, defaultRegistry)
}
