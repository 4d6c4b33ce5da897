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
