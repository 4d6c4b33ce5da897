/** A text as fields for text hold it: with line feeds alone. */
export const withLineFeeds = (text: string): string => text.replaceAll(/\r\n?/g, "\n")

interface Line {
  readonly text: string
  readonly end: string
}

const linesOf = (text: string): ReadonlyArray<Line> =>
  Array.from(text.matchAll(/([^\r\n]*)(\r\n|\r|\n|$)/g), ([, text = "", end = ""]) => ({ text, end }))

/** How far apart two texts may go on alike; a longer search would hold up a large file that changed everywhere. */
const farthest = 200

/** How many lines of each are left out until both go on alike. */
const gapOf = (before: ReadonlyArray<Line>, at: number, after: ReadonlyArray<string>, to: number) => {
  for (let both = 1; both <= farthest; both += 1)
    for (let skipped = 0; skipped <= both; skipped += 1) {
      const line = before[at + skipped]
      if (line !== undefined && line.text === after[to + both - skipped]) return [skipped, both - skipped] as const
    }
  return [farthest, farthest] as const
}

/**
 * An edited text with the line ends that its original has: each line keeps its own, a changed one that of the line in its place,
 * and a new one that of the line before it.
 */
export const withLineEndsOf = (original: string, edited: string): string => {
  const before = linesOf(original)
  const kinds = new Set(before.flatMap(({ end }) => (end === "" ? [] : [end])))
  const [only = "\n"] = kinds
  if (kinds.size <= 1) return edited.replaceAll("\n", only)
  const after = edited.split("\n")
  const ends: Array<string> = []
  let at = 0
  while (ends.length < after.length) {
    const [skipped, added] =
      before[at]?.text === after[ends.length] ? ([1, 1] as const) : gapOf(before, at, after, ends.length)
    for (let line = 0; line < added; line += 1) {
      const place = line < skipped ? before[at + line]?.end : undefined
      const last = ends.at(-1)
      // A line feed behind a carriage return would be one end with it.
      const isJoined = place === "\n" && last === "\r" && after[ends.length] === ""
      ends.push(isJoined ? last : place || (last ?? only))
    }
    at += skipped
  }
  return after.map((text, line) => (line === after.length - 1 ? text : text + ends[line])).join("")
}
