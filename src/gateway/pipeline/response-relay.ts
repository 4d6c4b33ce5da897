import { Cause, Effect, Option, type Pull, Result, Schema, Stream } from "effect"
import { Message } from "../translation/anthropic-messages/domain.ts"
import { completionToMessage, messageToCompletion } from "../translation/anthropic-messages/answers.ts"
import { type Dialect, type TokenUsage } from "../translation/domain.ts"
import { ChatCompletion, textOfWords, thoughtOf } from "../translation/openai-chat/domain.ts"
import { StreamToWhole } from "../translation/stream-to-whole.ts"
import {
  plausibleUsage,
  toCompletionUsage,
  toMessageUsage,
  usageOfCompletion,
  usageOfEmbedding,
  usageOfMessage
} from "../translation/usage.ts"
import { type AnswerFacts, factsIn } from "../telemetry/answer-facts.ts"
import { type UsageMeter, type Progress } from "../metering/usage-meter.ts"
import { type Bytes, type Operation, type ProviderAnswer, type ProviderFailure } from "../providers/provider.ts"
import { type GatewayError, refused } from "../errors/gateway-error.ts"
import { maxKeptBytes, StreamTransformer, type StreamOptions } from "./stream-transformer.ts"
import { parsedJson } from "../../kernel/parsed-json.ts"

/** A whole answer in the dialect of its caller, and what the provider said that it used. */
export interface Whole {
  readonly bytes: Uint8Array
  readonly usage: TokenUsage | undefined
  readonly facts: AnswerFacts | undefined
}

const decodeCompletion = Schema.decodeUnknownOption(Schema.fromJsonString(ChatCompletion))
const decodeMessage = Schema.decodeUnknownOption(Schema.fromJsonString(Message))

/** The usage that a completion or an embedding tells. */
const usageIn = (value: unknown, operation: Operation): TokenUsage | undefined => {
  if (typeof value !== "object" || value === null || !("usage" in value)) return undefined
  return plausibleUsage(operation === "embed" ? usageOfEmbedding(value.usage) : usageOfCompletion(value.usage))
}

const unreadable: GatewayError = refused(502, "provider-error", "The provider's answer cannot be read.")
const utf8 = new TextEncoder()

/** An answer that came as a whole; JSON that cannot be read is handed on in its own dialect, and counted by its bytes. */
export const wholeAnswer = (
  bytes: Uint8Array,
  { createdSeconds, from, head, to }: Pick<StreamOptions, "createdSeconds" | "from" | "head" | "to">,
  operation: Operation
): Result.Result<Whole, GatewayError> => {
  // An answer without a word was broken off.
  if (bytes.length === 0) return Result.fail(unreadable)
  const text = Buffer.from(bytes).toString("utf8")
  if (from === "anthropic") {
    const message = decodeMessage(text)
    if (Option.isNone(message)) {
      return to === from && parsedJson(text) !== undefined
        ? Result.succeed({ bytes, usage: undefined, facts: undefined })
        : Result.fail(unreadable)
    }
    const usage = plausibleUsage(message.value.usage ? usageOfMessage(message.value.usage) : undefined)
    const out = to === from ? bytes : json(messageToCompletion(message.value, head, createdSeconds))
    return Result.succeed({ bytes: out, usage, facts: factsIn(message.value) })
  }
  if (to === from) {
    const value = parsedJson(text)
    if (value === undefined) return Result.fail(unreadable)
    return Result.succeed({ bytes, usage: usageIn(value, operation), facts: factsIn(value) })
  }
  const completion = decodeCompletion(text)
  if (Option.isNone(completion)) return Result.fail(unreadable)
  const usage = plausibleUsage(usageOfCompletion(completion.value.usage))
  return Result.succeed({
    bytes: json(completionToMessage(completion.value, head)),
    usage,
    facts: factsIn(completion.value)
  })
}

/** More is no answer. */
const maxGatheredBytes = 134_217_728

/** A stream where a whole answer was asked for, put together; empty where it broke off. */
export const gatheredAnswer = Effect.fnUntraced(function* (
  { first, rest }: Exclude<ProviderAnswer["body"], Uint8Array>,
  dialect: Dialect,
  meter: UsageMeter
) {
  const gathering = new StreamToWhole(dialect)
  let length = 0
  meter.progress = () => ({ usage: undefined, textBytes: length, texts: [] })
  let read: ReadonlyArray<Uint8Array> | undefined = first
  while (read !== undefined && length <= maxGatheredBytes) {
    for (const bytes of read) {
      length += bytes.length
      gathering.push(bytes)
    }
    read = gathering.done ? undefined : yield* Effect.orElseSucceed(rest, () => undefined)
  }
  const whole = read === undefined ? gathering.end() : undefined
  return whole === undefined ? new Uint8Array() : json(whole)
})

const json = (value: object): Uint8Array => utf8.encode(JSON.stringify(value))

const progressOf = ({ textBytes, texts, usage }: StreamTransformer): Progress => ({
  usage,
  textBytes,
  // A part of the words would count for less than all of them.
  texts: texts.length === 0 || textBytes > maxKeptBytes ? [] : [texts.join("")]
})

/** The words of an answer, for whoever counts them; nothing where they cannot be told from what is around them. */
export const wordsIn = (bytes: Uint8Array, dialect: Dialect): ReadonlyArray<string> | undefined => {
  const text = Buffer.from(bytes).toString("utf8")
  const words =
    dialect === "anthropic"
      ? Option.map(decodeMessage(text), ({ content }) =>
          content.flatMap(({ input, name, text: said, thinking }) => [
            said,
            thinking,
            name,
            input === undefined ? undefined : JSON.stringify(input)
          ])
        )
      : Option.map(decodeCompletion(text), ({ choices }) =>
          choices.flatMap(({ message }) => [
            textOfWords(message.content),
            thoughtOf(message),
            message.refusal,
            ...(message.tool_calls ?? []).map(({ function: called }) => called.name + (called.arguments ?? ""))
          ])
        )
  return Option.getOrUndefined(Option.map(words, (all) => all.filter((one) => typeof one === "string")))
}

/** A translated answer that tells a usage which its provider did not. */
export const withUsage = (bytes: Uint8Array, dialect: Dialect, usage: TokenUsage): Uint8Array =>
  json({
    ...(JSON.parse(Buffer.from(bytes).toString("utf8")) as object),
    usage: dialect === "openai" ? toCompletionUsage(usage) : toMessageUsage(usage)
  })

/** A streamed answer in the dialect of its caller; it is settled when it ends, before its last bytes leave. */
export const streamedAnswer = (
  first: ReadonlyArray<Uint8Array>,
  rest: Bytes,
  options: StreamOptions,
  meter: UsageMeter
): Stream.Stream<Uint8Array> => {
  const relay = new StreamTransformer(options)
  meter.progress = () => progressOf(relay)
  meter.facts = relay.facts
  let waiting: ReadonlyArray<Uint8Array> = first
  let ended = false

  const end = Effect.fnUntraced(function* (failure: ProviderFailure | undefined) {
    ended = true
    const complete = relay.finished && relay.isCounted
    const usage = complete && relay.usage !== undefined ? relay.usage : yield* meter.estimate(progressOf(relay))
    const last = relay.end(usage, failure?.error)
    const broken = relay.failure ?? failure?.error
    if (complete && failure === undefined && relay.failure === undefined) meter.completedWith = usage
    meter.settle(usage, complete ? "provider_usage" : "estimated", broken?.status ?? (relay.finished ? 200 : 502))
    return last
  })

  // The end itself is waited for, so that the connection can be used again, but no longer than this.
  const soonOver: Bytes = Effect.timeoutOrElse(rest, { duration: "1 second", orElse: () => Cause.done() })

  const next: Pull.Pull<readonly [Uint8Array, ...Array<Uint8Array>]> = Effect.suspend(() => {
    if (ended) return Cause.done()
    if (waiting.length > 0) {
      const out = Buffer.concat(waiting.map((bytes) => relay.push(bytes)))
      waiting = []
      return out.length > 0 ? Effect.succeed([out] as const) : next
    }
    return Effect.matchEffect(relay.done ? soonOver : rest, {
      onSuccess: (read) => {
        if (relay.failure !== undefined) return finish(undefined)
        waiting = read
        return next
      },
      onFailure: (failure) => finish(Cause.isDone(failure) ? undefined : failure)
    })
  })

  const finish = (failure: ProviderFailure | undefined) =>
    Effect.flatMap(end(failure), (last) => (last.length > 0 ? Effect.succeed([last] as const) : Cause.done()))

  return Stream.fromPull(Effect.succeed(next))
}
