import { Cause, Effect } from "effect"
import { excessIn } from "../../kernel/json/json-scanner.ts"
import { isJson, type Json, listIn, parsedJson } from "../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { usageOfMessage } from "../translation/anthropic-messages/usage.ts"
import { type Dialect, type TokenUsage } from "../translation/domain.ts"
import { EventReader, isLastEvent, isTerminator, type ServerEvent } from "../translation/event-reader.ts"
import { usageOfCompletion, usageOfEmbedding } from "../translation/openai-chat/usage.ts"
import { usageOfResponse } from "../translation/openai-responses/usage.ts"
import { member, plausibleUsage } from "../translation/usage.ts"
import { type Operation, type ProviderAnswer, type ProviderFailure } from "./provider.ts"
import { bad, failure } from "./transport-failures.ts"

/** Answers of so many bytes are looked at before they are parsed. */
const smallAnswerBytes = 65_536
/** Above what the log probabilities of the longest answers have. */
const maxAnswerValues = 4_000_000

/** The JSON of a complete answer; undefined if it is none, or has more values than are parsed. Vectors have millions. */
export const answerJson = (given: Uint8Array, operation: Operation): unknown =>
  operation === "embed" || given.length <= smallAnswerBytes || excessIn(given, maxAnswerValues) === undefined
    ? parsedJson(utf8Text(given).replace(/^\uFEFF/, ""))
    : undefined

const usageReaders: Readonly<Record<Operation, (usage: unknown) => TokenUsage>> = {
  chat: usageOfCompletion,
  "count-tokens": usageOfCompletion,
  completions: usageOfCompletion,
  embed: usageOfEmbedding,
  responses: usageOfResponse,
  "count-responses": usageOfResponse,
  compact: usageOfResponse
}

/** The usage that an answer or an event of its stream reports, whatever else it holds. */
export const usageIn = (value: unknown, dialect: Dialect, operation: Operation): TokenUsage | undefined => {
  if (!isJson(value)) return undefined
  const { message, response, usage } = value
  const reported = [usage, member(message, "usage"), member(response, "usage")].find(isJson)
  if (reported === undefined) return undefined
  return plausibleUsage(dialect === "anthropic" ? usageOfMessage(reported) : usageReaders[operation](reported))
}

/** Members that say what something is, and nothing more. */
const labels = new Set(["id", "index", "object", "phase", "role", "status", "type"])

/** Whether a value has a text, at any depth; without recursion, since it may be nested to any depth. */
const saysAnything = (value: unknown): boolean => {
  const rest = [value]
  while (rest.length > 0) {
    const one = rest.pop()
    if (typeof one === "string" && one !== "") return true
    if (Array.isArray(one)) for (const inner of one) rest.push(inner)
    else if (isJson(one)) for (const name in one) if (!labels.has(name)) rest.push(one[name])
  }
  return false
}

/** Whether an answer, in any dialect, has content: a text, a call, an image, or vectors. */
export const says = (value: unknown): boolean =>
  isJson(value) &&
  (listIn(value.choices).some(choiceSays) ||
    [value.content, value.output].some((list) => saysAnything(list)) ||
    listIn(value.data).length > 0)

const choiceSays = (choice: unknown): boolean =>
  isJson(choice) && (saysAnything(choice.message) || saysAnything(choice.delta) || saysAnything(choice.text))

const isFinished = ({ choices, status, stop_reason: reason }: Json): boolean =>
  [reason, status, ...listIn(choices).map((choice) => member(choice, "finish_reason"))].some(
    (one) => typeof one === "string" && one !== ""
  )

/**
 * Whether a complete answer holds anything: content in any form, or a usage with the reason why the model said nothing, as
 * where it thought up to its limit.
 */
export const holdsAnything = (value: unknown, dialect: Dialect, operation: Operation): boolean => {
  if (!isJson(value)) return saysAnything(value)
  const { choices, content, data, output } = value
  return (
    listIn(choices).some(choiceSays) ||
    saysAnything(content) ||
    saysAnything(output) ||
    (operation === "embed" && listIn(data).length > 0) ||
    (isFinished(value) && usageIn(value, dialect, operation) !== undefined)
  )
}

/** Whether an event of a stream is passed on at once: it says something, reports a usage or an error, or is no object. */
export const tells = (value: unknown, dialect: Dialect, operation: Operation): boolean => {
  if (!isJson(value)) return true
  const { choices, content_block: block, delta, error, item, part, response, type } = value
  return (
    Boolean(error) ||
    type === "error" ||
    Boolean(member(response, "error")) ||
    listIn(choices).some(choiceSays) ||
    isJson(item) ||
    saysAnything([block, part, member(response, "output")]) ||
    (type !== "message_delta" && saysAnything(delta)) ||
    usageIn(value, dialect, operation) !== undefined
  )
}

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
  dialect: Dialect,
  operation: Operation
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
      if (tells(value, dialect, operation)) return true
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
