import { type ReactNode } from "react"
import { Act } from "../actions.tsx"
import { count } from "../format.tsx"
import { AskDialog, type Asked } from "../forms/ask.tsx"
import { type Button } from "../forms/operation.tsx"
import { type Selection } from "./table.tsx"

interface Chosen<Item> {
  readonly children: ReactNode
  readonly selection: Selection<Item>
}

/** How many rows are chosen, and what can be done with them together. */
export const BulkBar = <Item,>({ children, selection: { chosen, clear } }: Chosen<Item>) =>
  chosen.size === 0 ? null : (
    <div className="bulk" role="group" aria-label="With the selected rows">
      <strong>{count(chosen.size)} selected</strong>
      {children}
      <button type="button" className="btn quiet" onClick={clear}>
        Clear the selection
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

interface OfBulk<Item> extends Asked<number>, Button {
  readonly each: (row: Item, data: FormData) => Promise<unknown>
  readonly nameOf: (row: Item) => string
  readonly selection: Selection<Item>
}

/** A button for what can be done with the chosen rows together, and the dialog that asks before and names them. */
export const BulkAct = <Item,>({ children, each, nameOf, selection: { chosen, clear }, ...asked }: OfBulk<Item>) => {
  const rows = [...chosen.values()]
  const names = rows.slice(0, 5).map(nameOf).join(", ")
  const dialog = (
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
  return (
    <Act kind={asked.button} needs={asked.needs} opens={dialog}>
      {asked.label ?? asked.action}
    </Act>
  )
}
