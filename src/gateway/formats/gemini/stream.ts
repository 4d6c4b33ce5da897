import { isJson, type Json, parsedJson } from "../../../kernel/json/parsed-json.ts"
import { callOf, chunkOf } from "../common-form/answers.ts"
import { type CallFragment, type ChatChunk, thoughtOf } from "../common-form/domain.ts"
import { usageOfCompletion } from "../common-form/usage.ts"
import { noUsage, type TokenUsage } from "../domain.ts"
import { EventReader, type ServerEvent } from "../event-reader.ts"
import { type AnswerHead } from "../format.ts"
import { StreamedCalls } from "../streams/streamed-calls.ts"
import { callIdOf, candidatesOf, isSpoken, searchesOf, withAnyPart } from "./answers.ts"
import { hasEnded, isIncomplete, toFinishReason, toGeminiReason } from "./answers.ts"
import { type Answer, type AnsweredPart, type GeminiCandidate, partsOf } from "./domain.ts"
import { callPart, type TurnPart, TurnParts, type WrittenPart } from "./turn-parts.ts"
import { withSealedStates } from "./turn-state.ts"
import { reportsUsage, toAnswerUsage, usageOfAnswer } from "./usage.ts"

type Chunk = Json

interface CandidateState {
  readonly index: number
  readonly turn: TurnParts
  calls: number
  /** The searches that were passed on; each element of the stream may repeat them. */
  searches: number
  reason: string | undefined
}

/** Translates the elements of a streamed answer to the chunks of a chat completion. */
export class AnswersToChunks {
  /** The usage reported last, in the provider's format. */
  private reported: Json | undefined
  private readonly head: AnswerHead
  private id: string
  private ended = false
  private readonly candidates = new Map<number, CandidateState>()

  constructor(head: AnswerHead) {
    this.head = head
    this.id = head.id
  }

  /** Whether each candidate reported its end: a stream that breaks off earlier is an error. */
  get finished(): boolean {
    return this.candidates.size > 0 && [...this.candidates.values()].every(({ reason }) => hasEnded(reason))
  }

  /** Whether a candidate ended without having been completed. */
  get isIncomplete(): boolean {
    return [...this.candidates.values()].some(({ reason }) => isIncomplete(reason))
  }

  /** The usage that the provider reported so far. */
  get usage(): TokenUsage | undefined {
    return this.reported === undefined ? undefined : usageOfAnswer(this.reported)
  }

  push(answer: Answer): ReadonlyArray<Chunk> {
    const chunks: Array<Chunk> = []
    if (this.candidates.size === 0) this.id = answer.responseId ?? this.id
    if (reportsUsage(answer.usageMetadata)) this.reported = answer.usageMetadata
    for (const [place, candidate] of candidatesOf(answer).entries()) {
      const state = this.start(chunks, candidate.index ?? place)
      for (const part of partsOf(candidate)) this.part(chunks, state, part)
      this.search(chunks, state, candidate)
      if (hasEnded(candidate.finishReason)) state.reason = candidate.finishReason
    }
    return chunks
  }

  /** Writes the finish reasons. */
  end(): ReadonlyArray<Chunk> {
    const chunks: Array<Chunk> = []
    if (this.ended) return chunks
    this.ended = true
    if (this.candidates.size === 0) this.start(chunks, 0)
    for (const { calls, index, reason } of this.candidates.values()) {
      const finish_reason = toFinishReason(reason, calls > 0)
      chunks.push(chunkOf(this.head, this.id, index, {}, finish_reason))
    }
    return chunks
  }

  private start(chunks: Array<Chunk>, index: number): CandidateState {
    const known = this.candidates.get(index)
    if (known !== undefined) return known
    const state: CandidateState = { index, turn: new TurnParts(), calls: 0, searches: 0, reason: undefined }
    this.candidates.set(index, state)
    this.say(chunks, state, { role: "assistant", content: "", refusal: null })
    return state
  }

  private part(chunks: Array<Chunk>, state: CandidateState, part: AnsweredPart): void {
    const { functionCall: called, text = "", thought } = part
    if (called === undefined) {
      if (!isSpoken(part)) return
      const signed = state.turn.add(part)
      const said = text === "" ? {} : thought === true ? { reasoning_content: text } : { content: text }
      if (text !== "" || signed.length > 0) this.say(chunks, state, { ...said, ...stateOf(signed) })
      return
    }
    const index = state.calls++
    const id = called.id || callIdOf(this.head, state.index, index)
    const signed = state.turn.add(part, id)
    this.say(chunks, state, {
      tool_calls: [{ index, ...callOf(id, called.name ?? "", called.args) }],
      ...stateOf(signed)
    })
  }

  private search(chunks: Array<Chunk>, state: CandidateState, candidate: GeminiCandidate): void {
    const fresh = searchesOf(candidate).slice(state.searches)
    if (fresh.length === 0) return
    state.searches += fresh.length
    this.say(chunks, state, { web_searches: fresh })
  }

  private say(chunks: Array<Chunk>, { index }: CandidateState, delta: Json): void {
    chunks.push(chunkOf(this.head, this.id, index, delta))
  }
}

const stateOf = (parts: ReadonlyArray<TurnPart>) => (parts.length === 0 ? {} : { turn_state: parts })

interface Call {
  id: string
  name: string
  json: string
}

type ChatChoice = NonNullable<ChatChunk["choices"]>[number]

interface ChoiceState {
  readonly calls: Map<number, Call>
  readonly streamedCalls: StreamedCalls
  /** What the provider wants back, sealed. */
  readonly states: Array<string>
  refused: boolean
  reason: string | undefined
}

/**
 * Translates the chunks of a chat completion to the elements of a streamed answer. A call is one part, so that calls are
 * written at the end, once their arguments are complete.
 */
export class ChunksToAnswers {
  /** The usage that the provider reported last. */
  usage: TokenUsage | undefined
  private readonly head: AnswerHead
  private id: string
  private ended = false
  private readonly choices = new Map<number, ChoiceState>()

  constructor(head: AnswerHead) {
    this.head = head
    this.id = head.id
  }

  /** Whether the model reported its end, of each choice: a stream that breaks off earlier is an error. */
  get finished(): boolean {
    return this.choices.size > 0 && [...this.choices.values()].every(({ reason }) => reason !== undefined)
  }

  push(chunk: ChatChunk): ReadonlyArray<Json> {
    if (this.choices.size === 0) this.id = chunk.id ?? this.id
    if (chunk.usage !== undefined) this.usage = usageOfCompletion(chunk.usage)
    const candidates = (chunk.choices ?? []).flatMap((choice, place) => {
      const index = choice.index ?? place
      const parts = this.partsOf(choice, this.stateOf(index))
      return parts.length === 0 ? [] : [{ content: { parts, role: "model" }, index }]
    })
    return candidates.length === 0 ? [] : [this.answer(candidates)]
  }

  /** Writes the calls and the finish reasons. `usage` replaces what the provider did not report. */
  end(usage: TokenUsage = this.usage ?? noUsage): ReadonlyArray<Json> {
    if (this.ended) return []
    this.ended = true
    if (this.choices.size === 0) this.stateOf(0)
    const candidates = Array.from(this.choices, ([index, { calls, reason, refused, states }]) => {
      const parts = [...calls.values()].flatMap(({ id, json, name }, place) => {
        return name === "" ? [] : [callPart(id || callIdOf(this.head, index, place), name, json)]
      })
      const finishReason = refused ? "SAFETY" : toGeminiReason(reason)
      return { content: { parts: withAnyPart(withSealedStates(parts, states)), role: "model" }, finishReason, index }
    })
    return [{ ...this.answer(candidates), usageMetadata: toAnswerUsage(usage) }]
  }

  private stateOf(index: number): ChoiceState {
    const known = this.choices.get(index)
    if (known !== undefined) return known
    const state: ChoiceState = {
      calls: new Map(),
      streamedCalls: new StreamedCalls(),
      states: [],
      refused: false,
      reason: undefined
    }
    this.choices.set(index, state)
    return state
  }

  private partsOf({ delta, finish_reason: reason }: ChatChoice, state: ChoiceState): ReadonlyArray<WrittenPart> {
    if (reason) state.reason = reason
    if (delta?.refusal) state.refused = true
    for (const fragment of delta?.tool_calls ?? []) takeCall(state, fragment)
    if (delta?.turn_state) state.states.push(delta.turn_state)
    const thought = this.head.includesThoughts === true ? thoughtOf(delta) : ""
    const text = (delta?.content ?? "") + (delta?.refusal ?? "")
    return [...(thought === "" ? [] : [{ thought: true, text: thought }]), ...(text === "" ? [] : [{ text }])]
  }

  private answer(candidates: ReadonlyArray<Json>): Json {
    return { candidates, modelVersion: this.head.model, responseId: this.id }
  }
}

const takeCall = ({ calls, streamedCalls }: ChoiceState, fragment: CallFragment): void => {
  const place = streamedCalls.placeOf(fragment)
  const call = calls.get(place) ?? { id: "", name: "", json: "" }
  calls.set(place, call)
  call.id ||= fragment.id ?? ""
  // Some providers repeat the name in every chunk; the first one counts.
  call.name ||= fragment.function?.name ?? ""
  call.json += fragment.function?.arguments ?? ""
}

/** How a streamed answer is framed: as events with `alt=sse`, and else as one JSON array. */
export type Framing = "sse" | "array"

export const framingOf = (alt: string | null): Framing => (alt === "sse" ? "sse" : "array")

export const framingTypes: Readonly<Record<Framing, string>> = {
  sse: "text/event-stream",
  array: "application/json; charset=UTF-8"
}

/** Writes the elements of a streamed answer; what each call returns is to be sent at once. */
export class AnswerWriter {
  private isFirst = true
  private readonly framing: Framing

  constructor(framing: Framing) {
    this.framing = framing
  }

  write(answers: ReadonlyArray<object>): string {
    if (this.framing === "sse") return answers.map((answer) => `data: ${JSON.stringify(answer)}\r\n\r\n`).join("")
    return answers
      .map((answer) => {
        const before = this.isFirst ? "[" : ",\r\n"
        this.isFirst = false
        return before + JSON.stringify(answer)
      })
      .join("")
  }

  /**
   * The end of a stream with an error. Google's SDK finds it only as JSON without a frame, in a read of its own: nothing may
   * be sent together with it, and no empty line after it.
   */
  fail(json: string): string {
    return this.framing === "sse" ? json : `${this.isFirst ? "[" : ",\r\n"}${json}]`
  }

  end(): string {
    if (this.framing === "sse") return ""
    return this.isFirst ? "[]" : "]"
  }
}

/** The most that an element of an array may have. */
const maxElementLength = 67_108_864

const openings = new Set(["{", "["])
const closings = new Set(["}", "]"])

const valuesOf = (events: ReadonlyArray<ServerEvent>): ReadonlyArray<unknown> =>
  events.map(({ bare, data }) => parsedJson(bare ?? data)).filter((value) => value !== undefined)

const framingIn = (text: string): Framing | undefined => {
  const first = text.trimStart()[0]
  return first === undefined ? undefined : first === "[" ? "array" : "sse"
}

/**
 * Reads the elements of a streamed answer from bytes, cut anywhere: of events, of an array, and errors that are sent as JSON
 * without a frame between events. The first character tells which it is.
 */
export class AnswerReader {
  private framing: Framing | undefined
  private readonly decoder = new TextDecoder()
  private readonly events = new EventReader()
  /** The element of an array so far, and where in it the end of the text is. */
  private element: Array<string> = []
  private elementLength = 0
  private depth = 0
  private isInText = false
  private isEscaped = false
  private isTooLong = false

  /** Whether an element is so long that no later one can be read. */
  get isUnreadable(): boolean {
    return this.isTooLong || this.events.failure !== undefined
  }

  push(bytes: Uint8Array): ReadonlyArray<unknown> {
    const text = this.decoder.decode(bytes, { stream: true })
    this.framing ??= framingIn(text)
    if (this.framing === "array") return this.ofArray(text)
    return valuesOf(this.events.push(bytes))
  }

  /** Also returns the last element of a stream that ended without what closes it. */
  end(): ReadonlyArray<unknown> {
    if (this.framing === "array") return []
    return valuesOf(this.events.end())
  }

  private ofArray(text: string): ReadonlyArray<unknown> {
    const values: Array<unknown> = []
    let from = 0
    for (let at = 0; at < text.length; at++) {
      const character = text[at] ?? ""
      if (this.isInText) {
        if (this.isEscaped) this.isEscaped = false
        else if (character === "\\") this.isEscaped = true
        else if (character === '"') this.isInText = false
      } else if (character === '"') this.isInText = true
      else if (openings.has(character)) {
        // The array itself is the outermost one.
        if (this.depth++ === 1) from = at
      } else if (closings.has(character) && --this.depth === 1) {
        values.push(parsedJson(this.element.join("") + text.slice(from, at + 1)))
        this.element = []
        this.elementLength = 0
      }
    }
    if (this.depth > 1) {
      this.element.push(text.slice(from))
      this.elementLength += text.length - from
      this.isTooLong ||= this.elementLength > maxElementLength
    }
    return values.filter(isJson)
  }
}
