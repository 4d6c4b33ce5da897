import { Cause, Effect, type Pull, Stream } from "effect"
import { isJson, type Json } from "../../kernel/json/parsed-json.ts"
import { usdText } from "../../kernel/usd.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { withoutDeadline } from "../../platform/http/deadline.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import {
  forwardedResponseHeaders,
  type GatewayError,
  providerError,
  unreadableAnswer
} from "../errors/gateway-error.ts"
import { sealedIn } from "../formats/common-form/turn-state.ts"
import { noUsage, type TokenUsage } from "../formats/domain.ts"
import { type DialectError, readError } from "../formats/errors.ts"
import { type WireFormat } from "../formats/format.ts"
import { renaming, renamingBoth } from "../json/kept-ids.ts"
import { type ChargeTerms } from "../metering/charge-terms.ts"
import { type UsageMeter, type Progress } from "../metering/usage-meter.ts"
import { isEventStream } from "../providers/exchange.ts"
import { type Bytes, type ProviderAnswer, ProviderFailure } from "../providers/provider.ts"
import { answeredNothing, answerJson } from "../providers/readable-answers.ts"
import { formatAt } from "../routing/resolve-model.ts"
import { type Attempt } from "../routing/router.ts"
import { WholeFacts } from "../telemetry/answer-facts.ts"
import { type Call } from "./call-request.ts"
import { GatheredStream } from "./gathered-stream.ts"
import { passedBytes, unframedBytes } from "./passed-bytes.ts"
import { brokenOff, maxKeptBytes, StreamTransformer, type StreamOptions } from "./stream-transformer.ts"

const utf8 = new TextEncoder()

/** A complete response in its caller's format. A translated one has the usage that is charged. */
const answerBytes = (
  given: Uint8Array,
  answer: Json,
  usage: TokenUsage,
  request: Json,
  { from, head, rename, seal, to }: Pick<StreamOptions, "from" | "head" | "rename" | "seal" | "to">
): Uint8Array => {
  const [read, write] = [from.translation?.answerToCommon, to.translation?.answerFromCommon]
  if (to === from || read === undefined || write === undefined) return to.pass(given, answer, request, rename)
  return json(write(sealedIn(read(answer, head), seal), head, usage))
}

/** The maximum size of an assembled response. */
const maxGatheredBytes = 134_217_728

/** Assembles a stream that the provider sent instead of a complete response. */
const gatheredAnswer = Effect.fnUntraced(function* (
  { first, rest }: Exclude<ProviderAnswer["body"], Uint8Array>,
  format: WireFormat,
  meter: UsageMeter
) {
  const gathering = new GatheredStream(format)
  let length = 0
  meter.observe(() => ({ usage: undefined, finished: false, textBytes: length, texts: [] }))
  let read: ReadonlyArray<Uint8Array> | undefined = first
  while (read !== undefined && length <= maxGatheredBytes) {
    for (const bytes of read) {
      length += bytes.length
      gathering.push(bytes)
    }
    read = gathering.done ? undefined : yield* Effect.orElseSucceed(rest, () => undefined)
  }
  const value = gathering.end()
  const failure = read === undefined && gathering.isComplete ? undefined : (gathering.failure ?? brokenOff)
  return { value, failure }
})

const json = (value: object): Uint8Array => utf8.encode(JSON.stringify(value))

const progressOf = (
  { finished, textBytes, texts, usage }: StreamTransformer,
  terms: ChargeTerms | undefined
): Progress => ({
  usage,
  extras: terms?.extras,
  finished,
  textBytes,
  // Truncated text would count fewer tokens than the output has.
  texts: texts.length === 0 || textBytes > maxKeptBytes ? [] : [texts.join("")]
})

/** The text of a response, for counting; undefined if it cannot be extracted. */
const extractText = (answer: unknown, format: WireFormat): ReadonlyArray<string> | undefined =>
  isJson(answer) ? format.wordsIn(answer)?.filter((one) => typeof one === "string") : undefined

/** How long the rest of a response is read, so that its connection can be reused. */
const restPatience = "1 second"

/** A streamed response in its caller's dialect; it is settled when it ends, before its last bytes are sent. */
const streamedAnswer = (
  first: ReadonlyArray<Uint8Array>,
  rest: Bytes,
  options: StreamOptions,
  meter: UsageMeter
): Stream.Stream<Uint8Array> => {
  const relay = new StreamTransformer(options)
  meter.streams(meter.now, relay.facts)
  meter.observe(() => progressOf(relay, options.chargeTerms))
  let waiting: ReadonlyArray<Uint8Array> = first
  let ended = false

  /** Settles the call, and returns the last bytes. */
  const end = Effect.fnUntraced(function* (failure: ProviderFailure | undefined) {
    ended = true
    const unanswered = relay.holdsAnything || failure !== undefined ? undefined : answeredNothing().error
    if (unanswered !== undefined) {
      relay.fail(unanswered)
      meter.answerFailed(unanswered)
      meter.endEmpty(undefined, unanswered.status)
      return relay.end(noUsage, unanswered)
    }
    const complete = relay.finished && relay.isCounted
    const usage =
      complete && relay.usage !== undefined
        ? relay.usage
        : yield* meter.estimate(progressOf(relay, options.chargeTerms))
    const last = relay.end(usage, failure?.error)
    const broken = relay.failure ?? (relay.finished ? undefined : (failure?.error ?? brokenOff))
    if (complete && broken === undefined) {
      meter.completedUsage = usage
      meter.saidBytes = relay.textBytes
    }
    meter.answerFailed(broken)
    meter.settle(usage, complete ? "provider_usage" : "estimated", broken?.status ?? 200)
    return last
  })

  const endingWith = (bytes: Uint8Array, failure?: ProviderFailure) =>
    Effect.flatMap(Effect.uninterruptible(end(failure)), (last) => {
      // Google's SDK finds an error in a read of its own alone.
      const [first, ...others] = [bytes, last].filter(({ length }) => length > 0)
      return first === undefined ? next : Effect.succeed([first, ...others] as const)
    })

  const push = (read: ReadonlyArray<Uint8Array>) => Buffer.concat(read.map((bytes) => relay.push(bytes)))

  /** The end of a stream follows an error of its provider, and may have the usage. */
  const endingAfterError = (bytes: Uint8Array) => {
    const out = [bytes]
    const read: Bytes = Effect.flatMap(rest, (more) => {
      out.push(push(more))
      return relay.done ? Cause.done() : read
    })
    return Effect.flatMap(Effect.exit(Effect.timeoutOption(read, restPatience)), () => endingWith(Buffer.concat(out)))
  }

  const next: Pull.Pull<readonly [Uint8Array, ...Array<Uint8Array>]> = Effect.suspend(() => {
    if (ended) return over
    if (waiting.length > 0) {
      const out = push(waiting)
      waiting = []
      // Callers close the connection at the last event, so the call is settled before it is sent.
      if (relay.done) return endingWith(out)
      if (relay.failure !== undefined) return relay.isUnreadable ? endingWith(out) : endingAfterError(out)
      return out.length > 0 ? Effect.succeed([out] as const) : next
    }
    return Effect.matchEffect(rest, {
      onSuccess: (read) => {
        waiting = read
        return next
      },
      onFailure: (failure) => endingWith(empty, Cause.isDone(failure) ? undefined : failure)
    })
  })

  /** Some providers leave the connection open after the last event, or send more. */
  const over: Pull.Pull<never> = Effect.matchEffect(
    Effect.timeoutOrElse(Effect.forever(rest), { duration: restPatience, orElse: () => Cause.done() }),
    { onSuccess: () => Cause.done(), onFailure: () => Cause.done() }
  )

  return Stream.fromPull(Effect.succeed(next))
}

const empty = new Uint8Array()

/** Metadata of a response. */
export interface CallReport {
  /** Null if the response costs nothing and reserved nothing. */
  readonly reservationId: string | null
  readonly provider: string
  /** The provider's own name for the model that answered. */
  readonly model: string
  readonly attempts: ReadonlyArray<Attempt>
  /** Zero for a stream, which has not ended yet. */
  readonly usage: TokenUsage
  readonly costNanoUsd: bigint
  /** What a response from the cache would have cost. */
  readonly savedNanoUsd?: bigint
  costOf(usage: TokenUsage): bigint
  readonly latencyMs: number
  readonly upstreamLatencyMs: number
  /** Whether the response comes from the response cache. */
  readonly cached: boolean
}

/** A provider's answer, in the dialect of the caller. */
export interface CallAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | Stream.Stream<Uint8Array>
  readonly report: CallReport
}

/** The options for writing a response, streamed or complete. */
const answerOptions = (call: Call, target: ModelTarget, meter: UsageMeter) => {
  const { body, format, idsFor, states, writeError } = call
  const { model, provider } = target
  const { now } = meter
  const id = meter.reservationId ?? ""
  const from = formatAt(format, target)
  return {
    options: {
      rename: renamingBoth(
        idsFor && renaming(format.idScope(body), idsFor(provider.id)),
        from === format ? format.rewriting?.(target) : undefined
      ),
      from,
      to: format,
      seal: (state: ReadonlyArray<unknown>) => states.seal(provider.id, state),
      head: {
        model: String(call.model),
        includesThoughts: format.asksForThoughts?.(body) === true,
        createdSeconds: Math.floor(now / 1000),
        id: `${format.idPrefix}_${id.replaceAll("-", "")}`
      },
      writeError
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
    includeUsage: format.asksForUsage?.(body) !== false
  }
}

/** The headers of an answer that has not ended. */
const startedHeaders = (
  { headers }: ProviderAnswer,
  contentType: string,
  reservationId: string,
  meter: UsageMeter
): Readonly<Record<string, string>> => {
  const remaining = meter.remaining(undefined)
  return {
    ...forwardedResponseHeaders(headers),
    "x-reservation-id": reservationId,
    "content-type": contentType,
    "x-accel-buffering": "no",
    ...(remaining === null ? {} : { "x-budget-remaining-usd": usdText(remaining) })
  }
}

const streamOf = (
  call: Call,
  target: ModelTarget,
  answer: ProviderAnswer,
  { first, rest }: Exclude<ProviderAnswer["body"], Uint8Array>,
  meter: UsageMeter
): CallAnswer => {
  const { includeUsage, options, report } = answerOptions(call, target, meter)
  const chargeTerms = meter.makeChargeTerms(options.from, answer.headers)
  const whole = { ...options, includeUsage, keepsWords: meter.countsTokens, chargeTerms }
  const events = streamedAnswer(first, rest, whole, meter)
  const unframing = call.format.unframed?.(call.body)
  return {
    status: answer.status,
    headers: startedHeaders(answer, unframing?.contentType ?? "text/event-stream", report.reservationId, meter),
    body: unframing === undefined ? events : unframedBytes(events, unframing),
    report: {
      ...report,
      costOf: (usage) => meter.cost(chargeTerms.complete(usage)),
      usage: noUsage,
      costNanoUsd: 0n
    }
  }
}

const bytesOf = (
  call: Call,
  target: ModelTarget,
  answer: ProviderAnswer,
  { first, rest }: Exclude<ProviderAnswer["body"], Uint8Array>,
  meter: UsageMeter
): CallAnswer => {
  const { report } = answerOptions(call, target, meter)
  const contentType = answer.headers["content-type"] ?? "application/octet-stream"
  const body = passedBytes(first, rest, meter)
  return {
    status: answer.status,
    headers: startedHeaders(answer, contentType, report.reservationId, meter),
    body,
    report: { ...report, usage: noUsage, costNanoUsd: 0n }
  }
}

/** The basis for counting a complete response without a usage: its text, or all of its bytes. */
const progressIn = (given: Uint8Array, value: unknown, format: WireFormat, meter: UsageMeter): Progress => {
  const text = extractText(value, format)
  if (text === undefined) {
    const textBytes = Math.max(given.length, meter.answeredBytes)
    return { usage: undefined, finished: true, textBytes, texts: [] }
  }
  return {
    usage: undefined,
    finished: true,
    textBytes: text.reduce((sum, word) => sum + Buffer.byteLength(word), 0),
    texts: meter.countsTokens ? text : []
  }
}

/** A complete answer, or as much of it as there is where the provider failed after it had begun. */
const wholeOf = (
  call: Call,
  target: ModelTarget,
  { headers, status }: ProviderAnswer,
  given: Uint8Array,
  value: unknown,
  failure: DialectError | undefined,
  meter: UsageMeter
): Effect.Effect<CallAnswer, GatewayError> => {
  const { body, format } = call
  const { includeUsage, options, report } = answerOptions(call, target, meter)
  const answer = isJson(value) ? value : undefined
  const reported = options.from.usageIn(answer)
  meter.describe(answer === undefined ? undefined : new WholeFacts(answer))
  const terms = meter.makeChargeTerms(options.from, headers)
  terms.read(answer)
  const known = reported && terms.complete(reported)
  const ended = options.from === options.to ? undefined : options.from.failureIn?.(answer)
  const error = failure ?? (ended === undefined ? undefined : readError(502, ended))
  const used =
    known === undefined || failure !== undefined
      ? meter.estimate({ ...progressIn(given, value, options.from, meter), usage: known, extras: terms.extras })
      : Effect.succeed(known)
  return Effect.flatMapEager(used, (usage) => {
    const remaining = meter.remaining(meter.cost(usage))
    const isReported = reported !== undefined || (terms.extras.units !== undefined && !meter.chargesTokens)
    const method = !isReported || failure !== undefined ? "estimated" : "provider_usage"
    meter.answerFailed(error)
    const cost = meter.settle(usage, method, error?.status ?? status)
    if (error !== undefined) return Effect.fail(brokenAnswer(error, target.provider.id))
    if (answer === undefined) return Effect.fail(unreadableAnswer(target.provider.id))
    const bytes = answerBytes(given, answer, usage, body, options)
    const streamed = call.streams ? format.streamed(utf8Text(bytes), includeUsage ? usage : undefined) : undefined
    return Effect.succeed({
      status,
      headers: {
        ...forwardedResponseHeaders(headers),
        "x-reservation-id": report.reservationId,
        "content-type": streamed === undefined ? (format.mediaType?.(body) ?? "application/json") : "text/event-stream",
        "x-cost-usd": usdText(cost),
        ...(remaining === null ? {} : { "x-budget-remaining-usd": usdText(remaining) })
      },
      body: streamed === undefined ? bytes : Stream.make(utf8.encode(streamed)),
      report: { ...report, usage, costNanoUsd: cost }
    })
  })
}

/** The failure of a provider whose answer cannot be given. */
const brokenAnswer = (error: DialectError, provider: string): GatewayError =>
  providerError(new ProviderFailure({ reason: "broken-off", sent: true, error }), provider)

/** A provider's answer in the dialect of the call, which is settled: a whole one at once, a stream when it ends. */
export const relayResponse = (
  call: Call,
  target: ModelTarget,
  answer: ProviderAnswer,
  meter: UsageMeter
): Effect.Effect<CallAnswer, GatewayError> => {
  const { body } = answer
  const format = formatAt(call.format, target)
  if (body instanceof Uint8Array) {
    return wholeOf(call, target, answer, body, answer.value ?? answerJson(body, format), undefined, meter)
  }
  if (call.streams) {
    const isOfBytes = format.answersBytes === true && !isEventStream(answer.headers)
    return Effect.succeed((isOfBytes ? bytesOf : streamOf)(call, target, answer, body, meter))
  }
  return Effect.flatMap(withoutDeadline(gatheredAnswer(body, format, meter)), ({ failure, value }) => {
    if (failure === undefined && !format.holdsAnything(value)) {
      const { error, usage } = answeredNothing(format.usageIn(value))
      meter.answerFailed(error)
      meter.endEmpty(usage, error.status)
      return Effect.fail(brokenAnswer(error, target.provider.id))
    }
    return wholeOf(call, target, answer, json(value), value, failure, meter)
  })
}
