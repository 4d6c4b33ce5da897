import { Cause, Effect } from "effect"
import { excessIn } from "../../kernel/json/json-scanner.ts"
import { parsedJson } from "../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { type TokenUsage } from "../formats/domain.ts"
import { EventReader, isLastEvent, isTerminator, type ServerEvent } from "../formats/event-reader.ts"
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
 * A stream from where it says something. Nothing of one that ends before was sent to the caller, so that another target can
 * answer.
 */
export const untilItSays = (
  answer: ProviderAnswer,
  { first, rest }: Exclude<ProviderAnswer["body"], Uint8Array>,
  format: WireFormat
): Effect.Effect<ProviderAnswer, ProviderFailure> => {
  const reader = new EventReader()
  const held = [...first]
  const passOn = (remaining: typeof rest): Effect.Effect<ProviderAnswer> =>
    Effect.succeed({ ...answer, body: { first: held, rest: remaining } })

  /** Whether the events tell anything; undefined if they do not yet. */
  const told = (events: ReadonlyArray<ServerEvent>): boolean | undefined => {
    for (const event of events) {
      if (isTerminator(event)) return false
      const value = parsedJson(event.data)
      if (format.tells(value)) return true
      if (isLastEvent(event, value)) return false
    }
    return reader.failure === undefined ? undefined : true
  }

  const look = (read: ReadonlyArray<Uint8Array>): Effect.Effect<ProviderAnswer, ProviderFailure> | undefined => {
    for (const bytes of read) {
      const found = told(reader.push(bytes))
      if (found !== undefined) return found ? passOn(rest) : Effect.fail(answeredNothing())
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
      return told(last) === true ? passOn(Cause.done()) : Effect.fail(answeredNothing())
    }
  })

  return look(first) ?? Effect.timeoutOrElse(next, { duration: patience, orElse: () => passOn(rest) })
}
