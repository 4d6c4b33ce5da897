import { Cause, Effect } from "effect"
import { excessIn } from "../../kernel/json/json-scanner.ts"
import { type Json, parsedJson } from "../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { type TokenUsage } from "../formats/domain.ts"
import { errorAlone } from "../formats/errors.ts"
import { EventReader, isTerminator, type ServerEvent } from "../formats/event-reader.ts"
import { type WireFormat } from "../formats/format.ts"
import { type ProviderAnswer, type ProviderFailure } from "./provider.ts"
import { bad, failure } from "./transport-failures.ts"

/** Answers of so many bytes are looked at before they are parsed. */
const smallAnswerBytes = 65_536
/** Above what the log probabilities of the longest answers have. */
const maxAnswerValues = 4_000_000

/** The JSON of a complete answer; undefined if it is none, or has more values than are parsed. */
export const answerJson = (given: Uint8Array, { isVast }: WireFormat): unknown =>
  isVast === true || given.length <= smallAnswerBytes || excessIn(given, maxAnswerValues) === undefined
    ? parsedJson(utf8Text(given).replace(/^\uFEFF/, ""))
    : undefined

/** The failure of an answer that holds nothing. It is charged nothing, unless it reports a usage all the same. */
export const answeredNothing = (usage?: TokenUsage): ProviderFailure =>
  failure("broken-off", bad(502, "The provider answered nothing.", "provider-unavailable"), false, { usage })

/** How long the first events of a stream are held back at most while they say nothing. */
const patience = "1 second"

/**
 * A stream from where it says something. Nothing of one that ends before, or fails with an error that `refuse` reads, was
 * sent to the caller, so that another target can answer.
 */
export const untilItSays = (
  answer: ProviderAnswer,
  { first, rest }: Exclude<ProviderAnswer["body"], Uint8Array>,
  format: WireFormat,
  refuse: (error: Json) => Effect.Effect<never, ProviderFailure>
): Effect.Effect<ProviderAnswer, ProviderFailure> => {
  const reader = new EventReader()
  const held = [...first]
  /** An error after another event may be followed by more, such as the usage; one that is no event is the end. */
  let isFirst = true
  const passOn = (remaining: typeof rest): Effect.Effect<ProviderAnswer> =>
    Effect.succeed({ ...answer, body: { first: held, rest: remaining } })
  const nothing = Effect.fail(answeredNothing())

  /** The failure of an answer that cost nothing, whatever came before. */
  const unpaidFailure = (value: unknown) =>
    format.usageIn(value) === undefined ? format.failureIn?.(value) : undefined

  /** What the events make of the answer, with what remains of it; undefined if they tell nothing yet. */
  const outcomeOf = (events: ReadonlyArray<ServerEvent>, remaining: typeof rest): typeof next | undefined => {
    for (const event of events) {
      if (isTerminator(event)) return nothing
      const value = parsedJson(event.data)
      const error = isFirst || event.bare !== undefined ? errorAlone(value) : unpaidFailure(value)
      if (error !== undefined) return refuse(error)
      isFirst = false
      if (format.tells(value)) return passOn(remaining)
      if (format.isLast?.(value, event) === true) return nothing
    }
    return reader.failure === undefined ? undefined : passOn(remaining)
  }

  const look = (read: ReadonlyArray<Uint8Array>): typeof next | undefined => {
    for (const bytes of read) {
      const found = outcomeOf(reader.push(bytes), rest)
      if (found !== undefined) return found
    }
    return undefined
  }

  const next: Effect.Effect<ProviderAnswer, ProviderFailure> = Effect.matchEffect(rest, {
    onSuccess: (read) => {
      held.push(...read)
      return look(read) ?? next
    },
    onFailure: (end) => {
      if (!Cause.isDone(end)) return passOn(Effect.fail(end))
      // An event that is cut says nothing.
      const last = reader.end().filter(({ data }) => parsedJson(data) !== undefined)
      return outcomeOf(last, Cause.done()) ?? nothing
    }
  })

  return look(first) ?? Effect.timeoutOrElse(next, { duration: patience, orElse: () => passOn(rest) })
}
