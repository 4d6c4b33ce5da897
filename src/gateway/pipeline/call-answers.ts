import { Effect, Result, Stream } from "effect"
import { noUsage, type TokenUsage } from "../translation/domain.ts"
import { wholeToStream } from "../translation/whole-to-stream.ts"
import { usdText } from "../../kernel/usd.ts"
import { gatheredAnswer, streamedAnswer, wholeAnswer, withUsage, wordsIn } from "./response-relay.ts"
import { type Attempt } from "../routing/router.ts"
import { type UsageMeter, type Progress } from "../metering/usage-meter.ts"
import { vectorsInBase64 } from "./embedding-formats.ts"
import { type DialectRequest } from "./provider-request.ts"
import { type ProviderAnswer } from "../providers/provider.ts"
import { type GatewayError } from "../errors/gateway-error.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"

/** What is known of an answer beside its words. */
export interface CallReport {
  /** Null where it costs nothing and reserved nothing. */
  readonly reservationId: string | null
  readonly provider: string
  /** The provider's own name for the model that answered. */
  readonly model: string
  readonly attempts: ReadonlyArray<Attempt>
  /** Nothing of a stream, whose end is still to come. */
  readonly usage: TokenUsage
  readonly costNanoUsd: bigint
  costOf(usage: TokenUsage): bigint
  readonly latencyMs: number
  readonly upstreamLatencyMs: number
  /** Whether it was given before, and comes from the response cache. */
  readonly cached: boolean
}

/** A provider's answer, in the dialect of the caller. */
export interface CallAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | Stream.Stream<Uint8Array>
  readonly report: CallReport
}

/** What an answer is told with, whether it streams or not. */
const told = ({ body, dialect }: Spoken, { provider, model }: ModelTarget, meter: UsageMeter, requestId: string) => {
  const { now } = meter
  const id = meter.reservationId ?? ""
  const asked = body.stream_options
  return {
    now,
    options: {
      from: provider.dialect,
      to: dialect,
      head: {
        model: String(body.model),
        id: `${dialect === "openai" ? "chatcmpl" : "msg"}_${id.replaceAll("-", "")}`
      },
      createdSeconds: Math.floor(now / 1000),
      requestId
    },
    report: {
      reservationId: id,
      provider: provider.id,
      model,
      attempts: meter.attempts,
      costOf: (usage: TokenUsage) => meter.cost(usage),
      latencyMs: now - meter.startedAt,
      upstreamLatencyMs: meter.attempts.at(-1)?.durationMs ?? 0,
      cached: false
    },
    includeUsage:
      typeof asked === "object" && asked !== null && "include_usage" in asked && asked.include_usage === true
  }
}

type Spoken = Pick<DialectRequest, "body" | "dialect" | "operation">

const streamOf = (
  spoken: Spoken,
  target: ModelTarget,
  { headers, status }: ProviderAnswer,
  { first, rest }: Exclude<ProviderAnswer["body"], Uint8Array>,
  meter: UsageMeter,
  requestId: string
): CallAnswer => {
  const { includeUsage, now, options, report } = told(spoken, target, meter, requestId)
  meter.streams(now)
  const body = streamedAnswer(first, rest, { ...options, includeUsage, keepsWords: meter.countsTokens }, meter)
  const remaining = meter.remaining(undefined)
  return {
    status,
    headers: {
      ...forwardedResponseHeaders(headers),
      "x-reservation-id": report.reservationId,
      "content-type": "text/event-stream",
      "x-accel-buffering": "no",
      ...(remaining === null ? {} : { "x-budget-remaining-usd": usdText(remaining) })
    },
    body,
    report: { ...report, usage: noUsage, costNanoUsd: 0n }
  }
}

/** What a whole answer without a usage is counted by: its words, or all of its bytes; a vector is none of both. */
const saidIn = (given: Uint8Array, { operation }: Spoken, target: ModelTarget, meter: UsageMeter): Progress => {
  if (operation === "embed") return { usage: undefined, textBytes: 0, texts: [] }
  const words = wordsIn(given, target.provider.dialect)
  if (words === undefined) {
    return { usage: undefined, textBytes: Math.max(given.length, meter.progress?.().textBytes ?? 0), texts: [] }
  }
  return {
    usage: undefined,
    textBytes: words.reduce((sum, word) => sum + Buffer.byteLength(word), 0),
    texts: meter.countsTokens ? words : []
  }
}

const wholeOf = (
  spoken: Spoken,
  target: ModelTarget,
  { headers, status }: ProviderAnswer,
  given: Uint8Array,
  meter: UsageMeter,
  requestId: string
): Effect.Effect<CallAnswer, GatewayError> => {
  const { body, dialect, operation } = spoken
  const { includeUsage, options, report } = told(spoken, target, meter, requestId)
  const whole = wholeAnswer(given, options, operation)
  const read = Result.getOrElse(whole, () => ({ usage: undefined, facts: undefined }))
  meter.facts = read.facts
  const used =
    read.usage === undefined ? meter.estimate(saidIn(given, spoken, target, meter)) : Effect.succeed(read.usage)
  return Effect.flatMapEager(used, (usage) => {
    const remaining = meter.remaining(meter.cost(usage))
    const cost = meter.settle(usage, read.usage === undefined ? "estimated" : "provider_usage", status)
    if (Result.isFailure(whole)) return Effect.fail(whole.failure)
    // Whoever asked in another dialect is told a usage in any case, and so the one that is charged.
    const bytes =
      read.usage === undefined && options.from !== options.to
        ? withUsage(whole.success.bytes, dialect, usage)
        : whole.success.bytes
    const streamed =
      body.stream === true ? wholeToStream(Buffer.from(bytes).toString("utf8"), dialect, includeUsage) : undefined
    return Effect.succeed({
      status,
      headers: {
        ...forwardedResponseHeaders(headers),
        "x-reservation-id": report.reservationId,
        "content-type": streamed === undefined ? "application/json" : "text/event-stream",
        "x-cost-usd": usdText(cost),
        ...(remaining === null ? {} : { "x-budget-remaining-usd": usdText(remaining) })
      },
      body:
        streamed === undefined
          ? body.encoding_format === "base64"
            ? vectorsInBase64(bytes)
            : bytes
          : Stream.make(new TextEncoder().encode(streamed)),
      report: { ...report, usage, costNanoUsd: cost }
    })
  })
}

/** Hands a provider's answer on in the dialect of the call, and settles it: a whole one at once, a stream when it ends. */
export const answerCall = (
  spoken: Spoken,
  target: ModelTarget,
  answer: ProviderAnswer,
  meter: UsageMeter,
  requestId: string
): Effect.Effect<CallAnswer, GatewayError> => {
  const given = answer.body
  if (given instanceof Uint8Array) return wholeOf(spoken, target, answer, given, meter, requestId)
  if (spoken.body.stream === true) {
    return Effect.succeed(streamOf(spoken, target, answer, given, meter, requestId))
  }
  return Effect.flatMap(gatheredAnswer(given, target.provider.dialect, meter), (gathered) =>
    wholeOf(spoken, target, answer, gathered, meter, requestId)
  )
}

/** What callers may see of a provider's headers: its limits, and its own id of the request. */
export const forwardedResponseHeaders = (
  headers: Readonly<Record<string, string>>
): Readonly<Record<string, string>> => {
  const passed: Record<string, string> = {}
  for (const name in headers) {
    const value = headers[name]!
    if (name.startsWith("x-ratelimit-") || name.startsWith("anthropic-ratelimit-")) passed[name] = value
    if (name === "x-request-id" || name === "request-id") passed["x-upstream-request-id"] = value
  }
  return passed
}
