import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { type TokenUsage } from "../domain.ts"
import { type DialectError } from "../errors.ts"
import { type Gathering, type StreamProgress, type StreamReader } from "../format.ts"
import { wordsInAnswer } from "./answers.ts"
import { hasEnded } from "./answers.ts"
import { type GeminiCandidate, readAnswer } from "./domain.ts"
import { errorInAnswer } from "./errors.ts"
import { AnswerWriter } from "./stream.ts"
import { reportsUsage, toAnswerUsage, usageOfAnswer } from "./usage.ts"

/** Reads the elements of a streamed answer, which are passed on as bytes. */
export class ElementReader implements StreamReader {
  readonly endsByTerminator = true
  readonly rewrites = false
  readonly holdsTerminator = false
  private readonly progress: StreamProgress
  /** Candidates that have begun, with whether they have ended. */
  private readonly candidates = new Map<number, boolean>()

  constructor(progress: StreamProgress) {
    this.progress = progress
  }

  get isOpen(): boolean {
    return [...this.candidates.values()].includes(false)
  }

  take(value: unknown): string {
    const { progress } = this
    const failure = errorInAnswer(value)
    if (failure !== undefined) {
      progress.failed(failure)
      return ""
    }
    const answer = readAnswer(value)
    if (answer === undefined) return ""
    progress.describe({ id: answer.responseId, model: answer.modelVersion })
    progress.say(wordsInAnswer(answer))
    for (const [place, { finishReason, index = place }] of (answer.candidates ?? []).entries()) {
      const isOver = hasEnded(finishReason)
      this.candidates.set(index, isOver || this.candidates.get(index) === true)
      if (isOver) progress.finish(finishReason, index)
    }
    const blocked = answer.promptFeedback?.blockReason
    if (blocked) progress.finish(blocked, 0)
    if (reportsUsage(answer.usageMetadata)) progress.report(usageOfAnswer(answer.usageMetadata), true)
    return ""
  }

  terminator(): string {
    return ""
  }

  closing(usage: TokenUsage): string {
    return this.progress.usage === undefined
      ? new AnswerWriter("sse").write([{ usageMetadata: toAnswerUsage(usage) }])
      : ""
  }
}

/** Assembles the elements of a streamed answer: the parts of each candidate one after the other. */
export class ElementGathering implements Gathering {
  readonly endsByTerminator = true
  readonly done = false
  failure: DialectError | undefined
  private head: Json = {}
  private readonly candidates = new Map<number, { last: Json; readonly parts: Array<unknown> }>()

  get isFinished(): boolean {
    const found = [...this.candidates.values()]
    return found.length > 0 && found.every(({ last }) => hasEnded(last.finishReason as GeminiCandidate["finishReason"]))
  }

  take(value: Json): void {
    this.failure ??= errorInAnswer(value)
    const { candidates, ...head } = value
    this.head = { ...this.head, ...head }
    for (const [place, candidate] of (Array.isArray(candidates) ? candidates : []).entries()) {
      if (!isJson(candidate)) continue
      const { content, index = place, ...members } = candidate
      const known = this.candidates.get(Number(index)) ?? { last: {}, parts: [] }
      known.last = { ...known.last, ...members, index }
      if (isJson(content) && Array.isArray(content.parts)) for (const part of content.parts) known.parts.push(part)
      this.candidates.set(Number(index), known)
    }
  }

  whole(): Json {
    const candidates = [...this.candidates.values()].map(({ last, parts }) =>
      Object.assign({ content: { role: "model", parts } }, last)
    )
    return { candidates, ...this.head }
  }
}

/** A whole answer as the one element of a stream; undefined if it cannot be read. */
export const streamedAnswer = (answer: unknown): string | undefined =>
  isJson(answer) ? new AnswerWriter("sse").write([answer]) : undefined
