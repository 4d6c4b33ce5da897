import { Cause, Data, Effect, type Pull, Stream } from "effect"
import { parsedJson } from "../../kernel/json/parsed-json.ts"
import { EventReader } from "../formats/event-reader.ts"
import { type Unframing } from "../formats/format.ts"
import { type UsageMeter } from "../metering/usage-meter.ts"
import { type Bytes } from "../providers/provider.ts"
import { type AnswerFacts } from "../telemetry/answer-facts.ts"
import { brokenOff } from "./stream-transformer.ts"

/** Bytes that have no place for an error end without their end, so that their caller does not take them for the whole. */
export class BytesBrokenOff extends Data.TaggedError("BytesBrokenOff") {}

const noFacts: AnswerFacts = { id: undefined, model: undefined, finishReasons: [] }

const empty = new Uint8Array()

/**
 * An answer that is no text, passed on as it arrives. It reports no usage; the call is settled when it ends, before its last
 * bytes are sent.
 */
export const passedBytes = (
  first: ReadonlyArray<Uint8Array>,
  rest: Bytes,
  meter: UsageMeter
): Stream.Stream<Uint8Array> => {
  let length = 0
  const progress = () => ({ usage: undefined, finished: false, textBytes: length, texts: [] })
  meter.streams(meter.now, noFacts)
  meter.observe(progress)
  let waiting: ReadonlyArray<Uint8Array> = first
  let ended = false

  const settle = Effect.fnUntraced(function* (isWhole: boolean) {
    ended = true
    const usage = yield* meter.estimate({ ...progress(), finished: isWhole })
    meter.answerFailed(isWhole ? undefined : brokenOff)
    meter.settle(usage, "estimated", isWhole ? 200 : brokenOff.status)
  })

  const pass = (read: ReadonlyArray<Uint8Array>) => {
    for (const bytes of read) length += bytes.length
    const [one = empty, ...more] = read
    return [one, ...more] as const
  }

  const next: Pull.Pull<readonly [Uint8Array, ...Array<Uint8Array>]> = Effect.suspend(() => {
    if (waiting.length > 0) {
      const read = waiting
      waiting = []
      return Effect.succeed(pass(read))
    }
    return Effect.matchEffect(rest, {
      onSuccess: (read) => Effect.succeed(pass(read)),
      onFailure: (failure) => {
        const isWhole = Cause.isDone(failure)
        const over = isWhole ? Cause.done() : Effect.die(new BytesBrokenOff())
        return ended ? over : Effect.andThen(Effect.uninterruptible(settle(isWhole)), over)
      }
    })
  })

  return Stream.fromPull(Effect.succeed(next))
}

/** The bytes that events have, for a caller that did not ask for events; the stream dies with an event that is an error. */
export const unframedBytes = (
  events: Stream.Stream<Uint8Array>,
  { bytesIn, hasFailed }: Unframing
): Stream.Stream<Uint8Array> => {
  const reader = new EventReader()
  return events.pipe(
    Stream.mapEffect((bytes) => {
      const found: Array<Uint8Array> = []
      for (const { data } of reader.push(bytes)) {
        const value = parsedJson(data)
        if (hasFailed(value)) return Effect.die(new BytesBrokenOff())
        const part = bytesIn(value)
        if (part !== undefined) found.push(part)
      }
      return Effect.succeed(Buffer.concat(found))
    }),
    Stream.filter(({ length }) => length > 0)
  )
}
