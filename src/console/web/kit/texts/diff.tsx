import { useQuery } from "@tanstack/react-query"
import { Answered } from "../parts.tsx"

const shownLines = 2000

const classOf = (line: string): string =>
  line.startsWith("@@") ? "hunk" : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : ""

/** A unified diff; each line begins with what happened to it. */
export const UnifiedDiff = ({ diff, label }: { readonly diff: string; readonly label: string }) => {
  const all = diff.replace(/\n$/, "").split("\n")
  const first = all.findIndex((line) => line.startsWith("@@"))
  const lines = first === -1 ? [] : all.slice(first)
  if (lines.length === 0) return <p className="soft">Nothing differs.</p>
  return (
    <pre className="diff" tabIndex={0} role="region" aria-label={label}>
      {lines.slice(0, shownLines).map((line, at) => (
        <span key={at} className={classOf(line)}>
          {line === "" ? " " : line}
        </span>
      ))}
      {lines.length > shownLines ? <span className="hunk">{lines.length - shownLines} lines more</span> : null}
    </pre>
  )
}

const timeoutMilliseconds = 2000

/** How `after` came out of `before`, as a unified diff; undefined where they are too different to say in time. */
export const diffOf = async (before: string, after: string): Promise<string | undefined> => {
  const { createTwoFilesPatch } = await import("diff")
  return createTwoFilesPatch("before", "after", before, after, undefined, undefined, { timeout: timeoutMilliseconds })
}

interface Compared {
  readonly after: string
  readonly before: string
  /** Names what is compared, apart from everything else that is. */
  readonly id: string
  readonly label: string
}

/** Two texts compared in the browser. */
export const Compare = ({ after, before, id, label }: Compared) => {
  const asked = useQuery({
    queryKey: ["compare", id],
    queryFn: () => diffOf(before, after).then((diff) => ({ diff })),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0
  })
  return (
    <Answered asked={asked} rows={3}>
      {({ diff }) =>
        diff === undefined ? (
          <p className="soft">The two are too different to be compared here.</p>
        ) : (
          <UnifiedDiff diff={diff} label={label} />
        )
      }
    </Answered>
  )
}
