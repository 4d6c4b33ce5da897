import { Effect, Stream } from "effect"
import { noUsage, type TokenUsage } from "../compat/domain.ts"
import { wholeToStream } from "../compat/whole-to-stream.ts"
import { usdText } from "../kernel/usd.ts"
import { CurrentRequest } from "../platform/request.ts"
import { gatheredAnswer, streamedAnswer, unreadable, wholeAnswer, wordsIn } from "./answering.ts"
import { type Attempt } from "./attempts.ts"
import { type CallMeter } from "./call-meter.ts"
import { vectorsInBase64 } from "./embedding-formats.ts"
import { type Incoming } from "./outgoing.ts"
import { type ProviderAnswer } from "./providers/provider.ts"
import { type RunningTarget } from "./running.ts"

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

/** Hands a provider's answer on in the dialect of the call, and settles it: a whole one at once, a stream when it ends. */
export const answerCall = Effect.fnUntraced(function* (
  { body, dialect }: Pick<Incoming, "body" | "dialect">,
  { model, provider }: RunningTarget,
  answer: ProviderAnswer,
  meter: CallMeter
) {
  const { now } = meter
  const id = meter.reservationId ?? ""
  const head = {
    model: String(body.model),
    id: `${dialect === "openai" ? "chatcmpl" : "msg"}_${id.replaceAll("-", "")}`
  }
  const requestId = (yield* CurrentRequest)?.requestId ?? ""
  const options = { from: provider.dialect, to: dialect, head, createdSeconds: Math.floor(now / 1000), requestId }
  const report = {
    reservationId: id,
    provider: provider.id,
    model,
    attempts: meter.attempts,
    costOf: (usage: TokenUsage) => meter.cost(usage),
    latencyMs: now - meter.startedAt,
    upstreamLatencyMs: meter.attempts.at(-1)?.durationMs ?? 0,
    cached: false
  }
  const headers = { ...passedBack(answer.headers), "x-reservation-id": id }
  const asked = body.stream_options
  const includeUsage =
    typeof asked === "object" && asked !== null && "include_usage" in asked && asked.include_usage === true
  const given =
    answer.body instanceof Uint8Array || body.stream === true
      ? answer.body
      : yield* gatheredAnswer(answer.body, provider.dialect, meter)
  if (!(given instanceof Uint8Array)) {
    meter.streams(now)
    const stream = streamedAnswer(
      given.first,
      given.rest,
      { ...options, includeUsage, keepsWords: meter.countsTokens },
      meter
    )
    const remaining = meter.remaining(undefined)
    return {
      status: answer.status,
      headers: {
        ...headers,
        "content-type": "text/event-stream",
        "x-accel-buffering": "no",
        ...(remaining === null ? {} : { "x-budget-remaining-usd": usdText(remaining) })
      },
      body: stream,
      report: { ...report, usage: noUsage, costNanoUsd: 0n }
    }
  }
  const whole = yield* Effect.result(given.length === 0 ? unreadable : wholeAnswer(given, options))
  const textBytes = Math.max(given.length, meter.progress?.().textBytes ?? 0)
  const unread = { usage: undefined, facts: undefined, textBytes }
  const read = whole._tag === "Success" ? whole.success : unread
  meter.facts = read.facts
  const usage = read.usage ?? (yield* meter.estimate({ ...read, texts: meter.countsTokens ? wordsIn(given) : [] }))
  const remaining = meter.remaining(meter.cost(usage))
  const cost = meter.settle(usage, read.usage === undefined ? "estimated" : "provider_usage", answer.status)
  if (whole._tag === "Failure") return yield* whole.failure
  const { bytes } = whole.success
  const streamed =
    body.stream === true ? wholeToStream(Buffer.from(bytes).toString("utf8"), dialect, includeUsage) : undefined
  return {
    status: answer.status,
    headers: {
      ...headers,
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
  }
})

/** What callers may see of a provider's headers: its limits, and its own id of the request. */
export const passedBack = (headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> => {
  const passed: Record<string, string> = {}
  for (const name in headers) {
    const value = headers[name]!
    if (name.startsWith("x-ratelimit-") || name.startsWith("anthropic-ratelimit-")) passed[name] = value
    if (name === "x-request-id" || name === "request-id") passed["x-upstream-request-id"] = value
  }
  return passed
}
