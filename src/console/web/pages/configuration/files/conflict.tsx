import { useRef } from "react"
import { Tabs } from "../../../kit/actions.tsx"
import { Moment } from "../../../kit/format.tsx"
import { PrincipalName } from "../../../kit/names/names.tsx"
import { Card, Verbatim } from "../../../kit/parts.tsx"
import { Compare } from "../../../kit/texts/diff.tsx"
import { type Editing, Editor } from "../../../kit/texts/editor.tsx"
import { type Node } from "./nodes.ts"

/** What an edit began from. */
export interface Base {
  readonly version: number
  readonly content: string
}
export interface Draft {
  readonly base: Base
  readonly text: string
}

export interface Conflict {
  readonly base: Base
  readonly mine: string
  readonly theirs: Node
  /** Both changes in one text, where they do not touch the same lines. */
  readonly merged: string | undefined
}

export const baseOf = ({ content, version }: Node): Base => ({ version: version ?? 0, content: content ?? "" })

interface Resolving {
  readonly conflict: Conflict
  readonly isPending: boolean
  readonly onDrop: () => void
  readonly onSave: (text: string) => void
}

/** Two people saved: what each changed, and one text to save instead of both. */
export const Resolve = ({ conflict: { base, merged, mine, theirs }, isPending, onDrop, onSave }: Resolving) => {
  const editing = useRef<Editing>(null)
  const of = `${theirs.id} ${base.version} ${theirs.version}`
  const fromBase = (side: string, label: string, after: string) => (
    <Compare key={side} id={`${of} ${side} ${after.length}`} label={label} before={base.content} after={after} />
  )
  return (
    <Card label="Conflict" title={`Version ${theirs.version} was saved while you edited`}>
      <div className="in stack">
        <p>
          <PrincipalName name={theirs.updatedBy} /> saved it <Moment at={theirs.updatedAt} />. You began with version{" "}
          {base.version}.{" "}
          {merged === undefined
            ? "Both changed the same lines, so the result begins with your text."
            : "The two changes do not touch the same lines, so the result has both."}
        </p>
        <Tabs
          label="What changed"
          tabs={[
            ["Theirs", fromBase("theirs", "What they changed", theirs.content ?? "")],
            ["Mine", fromBase("mine", "What you changed", mine)],
            ["Base", <Verbatim key="base" label={`Version ${base.version}`} text={base.content} />]
          ]}
        />
        <Editor
          editing={editing}
          initial={merged ?? mine}
          label="Result"
          name={theirs.name}
          onInput={() => undefined}
        />
        <div className="acts">
          <button
            type="button"
            className="btn main"
            disabled={isPending}
            onClick={() => onSave(editing.current?.read() ?? "")}
          >
            Save the result as version {(theirs.version ?? 0) + 1}
          </button>
          <button type="button" className="btn bad" onClick={onDrop}>
            Discard my changes and take version {theirs.version}
          </button>
        </div>
      </div>
    </Card>
  )
}
