/** What a provider says of its answer beside the words. */
export interface AnswerFacts {
  readonly id: string | undefined
  /** The model that answered, which may be a dated one of the name that was asked for. */
  readonly model: string | undefined
  /** Why each of its answers ended, in the provider's own words. */
  readonly finishReasons: ReadonlyArray<string>
}

const longest = 256

/** A name, or nothing: what is longer than any is none. */
export const nameOf = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" && value.length <= longest ? value : undefined

const memberOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined

/** What a whole answer says of itself, in either dialect. */
export const factsIn = (answer: unknown): AnswerFacts => {
  const choices = memberOf(answer, "choices")
  const reasons = Array.isArray(choices)
    ? choices.map((choice) => memberOf(choice, "finish_reason"))
    : [memberOf(answer, "stop_reason")]
  return {
    id: nameOf(memberOf(answer, "id")),
    model: nameOf(memberOf(answer, "model")),
    finishReasons: reasons.flatMap((reason) => nameOf(reason) ?? [])
  }
}

/** What the events of an answer say of it, put together as they come. */
export class StreamFacts implements AnswerFacts {
  id: string | undefined
  model: string | undefined
  private readonly reasons = new Map<number, string>()

  get finishReasons(): ReadonlyArray<string> {
    return [...this.reasons.values()]
  }

  of(event: { readonly id?: string | null; readonly model?: string | null }): void {
    this.id ??= nameOf(event.id)
    this.model ??= nameOf(event.model)
  }

  finished(choice: number, reason: string): void {
    const name = nameOf(reason)
    if (name !== undefined) this.reasons.set(choice, name)
  }
}
