import { Predicate } from "effect"
import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { toCompletionUsage, usageInCompletion } from "../common-form/usage.ts"
import { type TokenUsage } from "../domain.ts"
import { errorInEvent } from "../errors.ts"
import { type ServerEvent } from "../event-reader.ts"
import { type StreamProgress, type StreamReader, type StreamTerms } from "../format.ts"
import { dataEvents, dataText, terminator } from "../streams/written-events.ts"
import { largerUsage } from "../usage.ts"
import { wordsIn } from "./words.ts"

/** A longer id is none of a provider's. */
const longestId = 256

/** Reads the chunks of a chat completion, or of a text completion (`isText`). */
export class ChunkReader implements StreamReader {
  readonly endsByTerminator = true
  readonly rewrites: boolean
  private readonly progress: StreamProgress
  private readonly terms: StreamTerms
  private readonly isText: boolean
  private id: string | undefined
  /** The largest usage so far. */
  private reported: TokenUsage | undefined
  /** The choices that have ended, and those that have begun and not ended, with whether they call tools. */
  private readonly ended = new Set<number>()
  private readonly open = new Map<number, boolean>()

  constructor(progress: StreamProgress, terms: StreamTerms, isText: boolean) {
    this.progress = progress
    this.terms = terms
    this.isText = isText
    // The provider's usage is removed where the caller did not ask for it.
    this.rewrites = !terms.includesUsage
  }

  get isOpen(): boolean {
    return this.open.size > 0
  }

  /** An error, a finish reason, or a usage. */
  get holdsTerminator(): boolean {
    const { hasFailed, holdsAnything, usage } = this.progress
    if (hasFailed) return false
    return !holdsAnything || this.isOpen || (this.terms.includesUsage && usage === undefined)
  }

  take(value: unknown, { data }: ServerEvent): string {
    const { progress, rewrites } = this
    const chunk = isJson(value) ? value : {}
    const failure = errorInEvent(value)
    const usage = usageInCompletion(chunk)
    if (usage !== undefined) this.reported = largerUsage(this.reported, usage)
    if (failure !== undefined) {
      if (usage !== undefined) progress.report(this.reported, false)
      progress.failed(failure)
      return rewrites ? dataText(data) : ""
    }
    progress.describe(chunk)
    if (typeof chunk.id === "string" && chunk.id !== "" && chunk.id.length <= longestId) this.id ??= chunk.id
    const choices = listIn(chunk.choices)
    for (const choice of choices) if (isJson(choice)) this.takeChoice(choice)
    if (usage !== undefined) progress.report(this.reported, true)
    const tellsUsageAlone = isJson(chunk.usage) && choices.length === 0
    return rewrites && !tellsUsageAlone ? dataText(this.terms.rename?.(data, value) ?? data) : ""
  }

  terminator({ data }: ServerEvent): string {
    return this.rewrites ? dataText(data) : ""
  }

  closing(usage: TokenUsage, _: boolean, isHeldBack: boolean): string {
    if (!isHeldBack && !this.holdsTerminator) return ""
    const { head, includesUsage } = this.terms
    const chunk = (members: Json) => ({
      id: this.id ?? head.id,
      object: this.isText ? "text_completion" : "chat.completion.chunk",
      created: head.createdSeconds,
      model: head.model,
      ...members
    })
    const said = this.isText ? { text: "" } : { delta: {} }
    const choices = Array.from(this.open, ([index, callsTools]) =>
      Object.assign({ index }, said, { finish_reason: callsTools ? "tool_calls" : "stop" })
    )
    const rest = [
      ...(choices.length > 0 ? [chunk({ choices })] : []),
      ...(includesUsage && this.progress.usage === undefined
        ? [chunk({ choices: [], usage: toCompletionUsage(usage) })]
        : [])
    ]
    return dataEvents(rest) + terminator
  }

  private takeChoice({ delta, finish_reason: reason, index, text }: Json): void {
    // Some providers write a text beside the delta that has it.
    this.progress.say(isJson(delta) ? wordsIn(delta) : [text, delta].filter(Predicate.isString))
    const place = typeof index === "number" ? index : 0
    if (typeof reason === "string" && reason !== "") {
      this.ended.add(place)
      this.open.delete(place)
      this.progress.finish(reason, place)
    } else if (!this.ended.has(place)) {
      const callsTools = isJson(delta) && listIn(delta.tool_calls).length > 0
      this.open.set(place, callsTools || this.open.get(place) === true)
    }
  }
}
