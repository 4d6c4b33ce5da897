import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { type Change } from "../../json/json-edits.ts"
import { thoughtsInContent } from "../common-form/domain.ts"
import { isSealedState, sealedPrefix } from "../common-form/turn-state.ts"
import { type CommonReader, type FormatTarget } from "../format.ts"
import { isEmpty } from "../token-upper-bound.ts"

// What callers keep.

/** Separates sealed states in one text; no sealed state contains it. */
const separator = "."

/** Clients that join what they were streamed leave no separator. */
const between = new RegExp(`\\${separator}|(?=${sealedPrefix})`)

const sealedParts = (value: unknown): ReadonlyArray<string> =>
  typeof value === "string" && value.includes(sealedPrefix) ? value.split(between).filter(isSealedState) : []

/** Where Google's clients of chat completions keep the signature of a call (Gemini API, "OpenAI compatibility"). */
export const signatureOf = ({ extra_content: extra }: Json): unknown =>
  isJson(extra) && isJson(extra.google) ? extra.google.thought_signature : undefined

/** A call with its signature. */
export const signed = (call: Json, thought_signature: string): Json => ({
  ...call,
  extra_content: { google: { thought_signature } }
})

const sealedCall = (call: Json, sealed: ReadonlyArray<string>): Json =>
  sealed.length === 0 ? call : signed(call, sealed.join(separator))

/** An element of `reasoning_details` (OpenRouter, "Reasoning Tokens"). */
const detail = (data: string, index: number): Json => ({ type: "reasoning.encrypted", data, format: "unknown", index })

/** The sealed states of a caller's message: of its `reasoning_details`, or, for clients that drop these, of its calls. */
export const sealedStatesIn = (message: unknown): ReadonlyArray<string> => {
  if (!isJson(message)) return []
  const details = listIn(message.reasoning_details)
    .filter(isJson)
    .flatMap(({ data }) => sealedParts(data))
  if (details.length > 0) return details
  return listIn(message.tool_calls)
    .filter(isJson)
    .flatMap((call) => sealedParts(signatureOf(call)))
}

/**
 * The changes that remove what other providers' models thought, and wanted back, from a caller's request. Thoughts that are
 * `replaced` before a call stay.
 */
export const withoutSealedStates = ({ messages }: Json, replaced = false): ReadonlyArray<Change> =>
  listIn(messages).flatMap((message, index) => {
    if (!isJson(message)) return []
    const sealed = sealedMembers(message)
    // A message without content and calls is refused.
    const cut = sealed.length > 0 && saysNothing(message) ? [[]] : sealed
    const stays = replaced && callsWithoutThoughts(message)
    return cut
      .filter(([name]) => !(stays && name === "reasoning_content"))
      .map((path) => ({ path: ["messages", index].concat(path), text: undefined }))
  })

const contents = ["content", "tool_calls", "function_call", "refusal", "audio"] as const

const saysNothing = (message: Json): boolean =>
  message.role === "assistant" && contents.every((name) => isEmpty(message[name]))

/** The paths of sealed states in a message, and of the thoughts that belong to them. */
const sealedMembers = (message: Json): ReadonlyArray<Change["path"]> => {
  const details = listIn(message.reasoning_details)
  const own = placesOf(details, ({ data }) => sealedParts(data).length > 0)
  const calls = placesOf(listIn(message.tool_calls), (call) => sealedParts(signatureOf(call)).length > 0)
  if (own.length + calls.length === 0) return []
  return [
    ...(own.length > 0 && own.length === details.length
      ? [["reasoning_details"]]
      : own.map((place) => ["reasoning_details", place])),
    ...calls.map((place) => ["tool_calls", place, "extra_content"]),
    ...(message.reasoning_content === undefined ? [] : [["reasoning_content"]])
  ]
}

const placesOf = (list: ReadonlyArray<unknown>, is: (element: Json) => boolean): ReadonlyArray<number> =>
  list.flatMap((element, place) => (isJson(element) && is(element) ? [place] : []))

/** Writes the states of an answer, whole or in chunks, for its caller. */
export class StateWriter {
  private details = 0
  /** States that no call carries yet, by the index of their choice. */
  private readonly waiting = new Map<unknown, Array<string>>()

  /** An answer or a chunk of the common form as a chat completion, without what only other formats show. */
  write(common: Json): Json {
    return { ...common, choices: listIn(common.choices).map((choice) => this.choice(choice)) }
  }

  private choice(choice: unknown): unknown {
    if (!isJson(choice)) return choice
    const member = isJson(choice.delta) ? "delta" : "message"
    const given = choice[member]
    if (!isJson(given)) return choice
    const { turn_state: state, web_searches: _, ...said } = given
    const waiting = this.waiting.get(choice.index) ?? []
    this.waiting.set(choice.index, waiting)
    if (typeof state === "string") waiting.push(state)
    const [first, ...others] = listIn(said.tool_calls)
    const isCall = isJson(first) && typeof first.id === "string"
    return {
      ...choice,
      [member]: {
        ...said,
        ...(typeof state === "string" ? { reasoning_details: [detail(state, this.details++)] } : {}),
        ...(isCall ? { tool_calls: [sealedCall(first, waiting.splice(0)), ...others] } : {})
      }
    }
  }
}

// What providers of chat completions want back.

/** A piece of a state: members of the message, or those of a call. */
interface StatePiece {
  readonly message?: Json
  readonly call?: string
  readonly extra_content?: unknown
}

/** Has the thoughts that were parts of a content, in a state. */
const inContent = "thinking"

/** The members that hold thoughts; a provider that writes several of them says the same in each. */
const thoughtMembers = ["reasoning_details", "reasoning_content", "reasoning", inContent] as const

/** More thoughts than any model has in a turn; what is longer is not kept. */
const maxThoughts = 4_194_304

/** The thoughts of a turn, which vendors refuse to go on without, or go on worse (DeepSeek, "Thinking Mode"). */
class Thoughts {
  private readonly texts = new Map<string, string>()
  private readonly details: Array<Json> = []
  private length = 0

  add(given: Json): void {
    const parts = thoughtsInContent(given.content)
    const said = parts === "" ? given : { ...given, [inContent]: parts }
    for (const member of thoughtMembers) {
      const value = said[member]
      if (typeof value === "string") {
        this.length += value.length
        if (this.length <= maxThoughts) this.texts.set(member, (this.texts.get(member) ?? "") + value)
      }
    }
    for (const one of listIn(said.reasoning_details)) if (isJson(one)) this.addDetail(one)
  }

  /** Returns the pieces of the thoughts so far, and forgets them. */
  take(): ReadonlyArray<StatePiece> {
    const written =
      this.length > maxThoughts ? [] : [["reasoning_details", this.details.splice(0)] as const, ...this.texts]
    const found = thoughtMembers.flatMap((member) =>
      written.filter(([name, { length }]) => name === member && length > 0)
    )
    this.texts.clear()
    const [first] = found
    return first === undefined ? [] : [{ message: Object.fromEntries([first]) }]
  }

  /** In a stream the parts of an element have its index. */
  private addDetail(given: Json): void {
    this.length += JSON.stringify(given).length
    if (this.length > maxThoughts) return
    const last = this.details.at(-1)
    const isPart =
      last !== undefined &&
      given.index !== undefined &&
      last.index === given.index &&
      last.type === given.type &&
      // Encrypted thoughts come whole.
      (last.data ?? given.data) === undefined
    if (!isPart) {
      this.details.push({ ...given })
      return
    }
    for (const [name, value] of Object.entries(given)) {
      const before = last[name]
      const continues =
        (name === "text" || name === "summary") && typeof before === "string" && typeof value === "string"
      Object.assign(last, { [name]: continues ? before + value : (value ?? before) })
    }
  }
}

const callPieces = (said: Json): ReadonlyArray<StatePiece> =>
  listIn(said.tool_calls)
    .filter(isJson)
    .flatMap(({ extra_content, id }) =>
      extra_content === undefined || extra_content === null || typeof id !== "string"
        ? []
        : [{ call: id, extra_content }]
    )

const withPieces = (said: Json, pieces: ReadonlyArray<StatePiece>): Json =>
  pieces.length === 0 ? said : { ...said, turn_state: pieces }

/** A provider's completion with what it wants back of it. */
export const withState = (completion: Json): Json => ({
  ...completion,
  choices: listIn(completion.choices).map((choice) => {
    if (!isJson(choice) || !isJson(choice.message)) return choice
    const { message } = choice
    const thoughts = new Thoughts()
    thoughts.add(message)
    return Object.assign({}, choice, { message: withPieces(message, [...thoughts.take(), ...callPieces(message)]) })
  })
})

/** Whether a content has more than thoughts. */
const saysWords = (content: unknown): boolean =>
  Array.isArray(content) ? content.some((part) => !isJson(part) || part.type !== "thinking") : Boolean(content)

/** Reads the chunks of a provider; the first chunk after the thoughts carries what it wants back. */
export class StateReader implements CommonReader {
  private readonly thoughts = new Map<unknown, Thoughts>()

  push(chunk: Json): ReadonlyArray<Json> {
    const choices = listIn(chunk.choices)
    return choices.length === 0 ? [chunk] : [{ ...chunk, choices: choices.map((choice) => this.choice(choice)) }]
  }

  end(): ReadonlyArray<Json> {
    return []
  }

  private choice(choice: unknown): unknown {
    if (!isJson(choice)) return choice
    const said = isJson(choice.delta) ? choice.delta : {}
    const thoughts = this.thoughts.get(choice.index) ?? new Thoughts()
    this.thoughts.set(choice.index, thoughts)
    thoughts.add(said)
    const hasGoneOn = saysWords(said.content) || listIn(said.tool_calls).length > 0 || Boolean(choice.finish_reason)
    return hasGoneOn ? { ...choice, delta: withPieces(said, [...thoughts.take(), ...callPieces(said)]) } : choice
  }
}

/** A content with thoughts as a part of it (Mistral, "Reasoning"). */
export const withThinking = (thinking: string, content: unknown): ReadonlyArray<unknown> => [
  { type: "thinking", thinking: [{ type: "text", text: thinking }] },
  ...(typeof content === "string" ? (content === "" ? [] : [{ type: "text", text: content }]) : listIn(content))
]

/** A message of the common form as its provider takes it back: with what it had attached to the turn. */
export const withStateGivenBack = (message: Json): Json => {
  const { turn_state: state, ...rest } = message
  const pieces = listIn(state).filter(isJson) as ReadonlyArray<StatePiece>
  if (pieces.length === 0) return rest
  const thoughts = new Thoughts()
  for (const { message: said } of pieces) if (isJson(said)) thoughts.add(said)
  const { [inContent]: parts, ...found } = Object.assign(
    {},
    ...thoughts.take().map(({ message: said }) => said)
  ) as Json
  const members = typeof parts === "string" ? { content: withThinking(parts, rest.content) } : found
  const extras = new Map<unknown, unknown>(pieces.map(({ call, extra_content }) => [call, extra_content]))
  const calls = listIn(rest.tool_calls)
  if (calls.length === 0) return { ...rest, ...members }
  const tool_calls = calls.map((call) => {
    if (!isJson(call) || !extras.has(call.id)) return call
    const extra_content = extras.get(call.id)
    // Calls of one id would multiply it.
    extras.delete(call.id)
    return Object.assign({}, call, { extra_content })
  })
  return { ...rest, ...members, tool_calls }
}

/** Whether a call in the history needs a text of thoughts, which those of other models, and some of its own, do not have. */
export const requiresThoughts = ({ traits }: FormatTarget): boolean =>
  traits.requiresThoughts === true && traits.thoughtsIn === undefined

/** What a message has for thoughts that are not there: a text that is not empty. */
export const noThoughts = { reasoning_content: " " }

/** Whether a message calls functions without thoughts of a provider of its format. */
export const callsWithoutThoughts = (message: unknown): message is Json =>
  isJson(message) &&
  message.role === "assistant" &&
  listIn(message.tool_calls).length > 0 &&
  (isEmpty(message.reasoning_content) || sealedMembers(message).length > 0)
