interface Fragment {
  readonly index?: number | null | undefined
  readonly id?: string | null | undefined
  readonly function?: { readonly name?: string | null | undefined } | null | undefined
}

/**
 * Tells which call of a streamed completion a fragment belongs to: by its index, which some providers omit, or repeat for
 * calls with other ids. Calls are numbered without gaps.
 */
export class StreamedCalls {
  private readonly ids: Array<string> = []
  private readonly places = new Map<number, number>()
  private lastIndex = 0

  placeOf({ function: called, id, index }: Fragment): number {
    this.lastIndex = index ?? this.lastIndex
    const known = this.places.get(this.lastIndex)
    const before = known === undefined ? "" : this.ids[known]
    const isOther = Boolean(id && called?.name && before) && id !== before
    const place = known === undefined || isOther ? this.ids.push("") - 1 : known
    this.ids[place] ||= id ?? ""
    this.places.set(this.lastIndex, place)
    return place
  }
}

/** Tells when the arguments of a call are complete: its object has ended. */
export class ArgumentsEnd {
  isComplete = false
  private depth = 0
  private isInText = false
  private isEscaped = false

  push(json: string): void {
    for (const character of json) {
      if (this.isEscaped) this.isEscaped = false
      else if (character === "\\") this.isEscaped = this.isInText
      else if (character === '"') this.isInText = !this.isInText
      else if (this.isInText) continue
      else if (character === "{") this.depth++
      else if (character === "}" && --this.depth === 0) this.isComplete = true
    }
  }
}
