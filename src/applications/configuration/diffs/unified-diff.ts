import * as TextDiff from "effect/TextDiff"

/** What the search for a small diff may cost, in compared lines; past it a region is shown as removed and added. */
const maxComparisons = 20_000_000

/** Two versions of a file. */
export interface DiffRequest {
  readonly path: string
  readonly before: { readonly version: number; readonly content: string }
  readonly after: { readonly version: number; readonly content: string }
}

/** How one version came out of the other, as a unified diff; empty where nothing differs. */
export const unifiedDiff = ({ after, before, path }: DiffRequest): string => {
  const lineCount = before.content.split("\n").length + after.content.split("\n").length
  const edits = TextDiff.lines(before.content, after.content, { maxEdits: Math.ceil(maxComparisons / lineCount) })
  // A line break in a name would end the header line.
  const name = /[\p{Cc}"\\]/u.test(path) ? JSON.stringify(path) : path
  return TextDiff.unified(edits, {
    fromFile: `${name}\tversion ${before.version}`,
    toFile: `${name}\tversion ${after.version}`
  })
}
