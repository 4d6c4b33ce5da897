import { type ReactNode } from "react"
import { count } from "../format.tsx"
import { AskDialog, type Asked } from "../forms/ask.tsx"
import { type Selection } from "./table.tsx"

/** How many rows are chosen, and what can be done with them together. */
export const BulkBar = <Item,>({
  children,
  selection: { chosen, clear }
}: {
  readonly children: ReactNode
  readonly selection: Selection<Item>
}) =>
  chosen.size === 0 ? null : (
    <div className="bulk" role="group" aria-label="With the chosen rows">
      <strong>{count(chosen.size)} chosen</strong>
      {children}
      <button type="button" className="btn quiet" onClick={clear}>
        Choose none
      </button>
    </div>
  )

const together = 5

/** Changes many rows, a few at a time; says how many could not be changed, and why the first could not. */
const changeAll = async <Item,>(rows: ReadonlyArray<Item>, each: (row: Item) => Promise<unknown>): Promise<number> => {
  const causes: Array<unknown> = []
  const waiting = [...rows]
  const work = (): Promise<unknown> => {
    const row = waiting.shift()
    return row === undefined
      ? Promise.resolve()
      : each(row)
          .catch((cause: unknown) => causes.push(cause))
          .then(work)
  }
  await Promise.all(Array.from({ length: together }, work))
  const [first] = causes
  if (first !== undefined) {
    const why = first instanceof Error ? first.message : ""
    throw new Error(`${causes.length} of ${rows.length} could not be changed. ${why}`)
  }
  return rows.length
}

/** Asks before the chosen rows are changed together, and names them. */
export const BulkDialog = <Item,>({
  children,
  each,
  nameOf,
  selection: { chosen, clear },
  ...asked
}: Asked<number> & {
  readonly each: (row: Item, data: FormData) => Promise<unknown>
  readonly nameOf: (row: Item) => string
  readonly selection: Selection<Item>
}) => {
  const rows = [...chosen.values()]
  const names = rows.slice(0, 5).map(nameOf).join(", ")
  return (
    <AskDialog
      {...asked}
      submit={(form) => changeAll(rows, (row) => each(row, new FormData(form)))}
      done={(changed) => `${count(changed)} changed`}
      onDone={clear}
    >
      <p>
        <strong>{names}</strong>
        {rows.length > 5 ? ` and ${count(rows.length - 5)} more` : ""}
      </p>
      {children}
    </AskDialog>
  )
}
