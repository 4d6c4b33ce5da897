/** Metadata of a provider's response. */
export interface AnswerFacts {
  readonly id: string | undefined
  /** The model that answered, which may be a dated version of the requested one. */
  readonly model: string | undefined
  /** The finish reason of each choice, as the provider reported it. */
  readonly finishReasons: ReadonlyArray<string>
}

const longest = 256

/** A name; undefined if it is longer than any real one. */
export const nameOf = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" && value.length <= longest ? value : undefined

const memberOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined

/** How a response of the Responses API ended: why it is incomplete, or else its status. */
export const endOfResponse = (response: unknown): unknown =>
  memberOf(memberOf(response, "incomplete_details"), "reason") ?? memberOf(response, "status")

/** The metadata of a complete response in any dialect; it is read where a span records it. */
export class WholeFacts implements AnswerFacts {
  private readonly answer: unknown

  constructor(answer: unknown) {
    this.answer = answer
  }

  get id(): string | undefined {
    return nameOf(memberOf(this.answer, "id"))
  }

  get model(): string | undefined {
    return nameOf(memberOf(this.answer, "model"))
  }

  get finishReasons(): ReadonlyArray<string> {
    const choices = memberOf(this.answer, "choices")
    const reasons = Array.isArray(choices)
      ? choices.map((choice) => memberOf(choice, "finish_reason"))
      : [memberOf(this.answer, "stop_reason") ?? endOfResponse(this.answer)]
    return reasons.flatMap((reason) => nameOf(reason) ?? [])
  }
}

/** Collects the metadata of a streamed response from its events. */
export class StreamFacts implements AnswerFacts {
  id: string | undefined
  model: string | undefined
  private readonly reasons = new Map<number, string>()

  get finishReasons(): ReadonlyArray<string> {
    return [...this.reasons.values()]
  }

  of(event: { readonly id?: unknown; readonly model?: unknown }): void {
    this.id ??= nameOf(event.id)
    this.model ??= nameOf(event.model)
  }

  finished(choice: number, reason: string): void {
    const name = nameOf(reason)
    if (name !== undefined) this.reasons.set(choice, name)
  }
}
