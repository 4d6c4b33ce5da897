import * as TextDiff from "effect/TextDiff"

/** What the search for a small diff may cost, in compared lines; past it a region is shown as removed and added. */
const maxComparisons = 20_000_000

/** Two versions of a file. */
export interface DiffRequest {
  readonly path: string
  readonly before: { readonly version: number; readonly content: string }
  readonly after: { readonly version: number; readonly content: string }
}

/** The lines of both versions together. */
export const lineCountOf = ({ after, before }: DiffRequest): number =>
  before.content.split("\n").length + after.content.split("\n").length

/** How one version came out of the other, as a unified diff; empty where nothing differs. */
export const unifiedDiff = (request: DiffRequest): string => {
  const { after, before, path } = request
  const maxEdits = Math.ceil(maxComparisons / lineCountOf(request))
  const edits = TextDiff.lines(before.content, after.content, { maxEdits })
  // A line break in a name would end the header line.
  const name = /[\p{Cc}"\\]/u.test(path) ? JSON.stringify(path) : path
  return TextDiff.unified(edits, {
    fromFile: `${name}\tversion ${before.version}`,
    toFile: `${name}\tversion ${after.version}`
  })
}
