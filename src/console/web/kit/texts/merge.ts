const timeoutMilliseconds = 2000

/** Lines of a base, from `start` to before `end`, and what is in their place. */
interface Edit {
  readonly start: number
  end: number
  lines: ReadonlyArray<string>
}

const linesOf = (text: string): Array<string> => text.split(/(?<=\n)/)

const editsOf = async (base: string, changed: string): Promise<ReadonlyArray<Edit> | undefined> => {
  const { diffArrays } = await import("diff")
  const parts = diffArrays(linesOf(base), linesOf(changed), { timeout: timeoutMilliseconds })
  const edits: Array<Edit> = []
  let at = 0
  for (const { added, removed, value } of parts ?? []) {
    if (added || removed) {
      let edit = edits.at(-1)
      if (edit?.end !== at) edits.push((edit = { start: at, end: at, lines: [] }))
      if (removed) edit.end = at + value.length
      else edit.lines = edit.lines.concat(value)
    }
    if (!added) at += value.length
  }
  return parts === undefined ? undefined : edits
}

/** The text with two changes of one base in it; undefined where they touch the same lines, or lines side by side. */
export const mergeOf = async (base: string, theirs: string, mine: string): Promise<string | undefined> => {
  const both = await Promise.all([editsOf(base, theirs), editsOf(base, mine)])
  const edits = both
    .flatMap((all, side) => (all ?? []).map((edit) => ({ edit, side })))
    .toSorted((one, other) => one.edit.start - other.edit.start)
  const ends = [-1, -1]
  const lines = linesOf(base)
  const merged: Array<string> = []
  let at = 0
  for (const { edit, side } of edits) {
    const { end, start } = edit
    if (start <= ends[1 - side]!) return undefined
    ends[side] = end
    merged.push(...lines.slice(at, start), ...edit.lines)
    at = end
  }
  return both.includes(undefined) ? undefined : [...merged, ...lines.slice(at)].join("")
}
