import { type MouseEvent, type ReactNode, useState } from "react"
import { type Acts, ActsOf } from "../actions.tsx"
import { Icon } from "../icons.tsx"
import { Nothing, type Said } from "../parts.tsx"

/** Where the cost of rows comes from: the dimension of reports that has their ids as keys, and since when. */
export interface SpendSource {
  readonly dimension: "agent" | "api-key" | "tenant"
  readonly from: string
}

/** A column: its title, how a row shows in it, and whether it holds figures. */
export interface Column<Item, Sort extends string = never> {
  readonly title: string
  /** The member that its title sorts by. */
  readonly sort?: Sort | undefined
  readonly cell: (item: Item) => ReactNode
  readonly isNumber?: boolean | undefined
  /** Takes the width that the others leave. */
  readonly isWide?: boolean | undefined
  /** That it shows what rows cost. */
  readonly spend?: SpendSource | undefined
  /** What it shows in the last row, for all rows together. */
  readonly total?: ReactNode
}

/** The first column and the actions stay in sight when the table is wider than its place. */
const classOf = (
  { isNumber, isWide, title }: Pick<Column<never>, "isNumber" | "isWide" | "title">,
  place: number
): string | undefined => {
  const kind = title === "" ? "n stick" : isNumber === true ? "n" : isWide === true ? "fill" : undefined
  return place > 0 ? kind : kind === undefined ? "first" : `${kind} first`
}

/** The rows that were chosen, by key; they stay chosen on other pages of the list. */
export interface Selection<Item> {
  readonly chosen: ReadonlyMap<string, Item>
  readonly choose: (rows: ReadonlyArray<readonly [key: string, row: Item]>, isOn: boolean) => void
  readonly clear: () => void
}

/** Rows that are chosen to be changed together. */
export const useSelection = <Item,>(): Selection<Item> => {
  const [chosen, setChosen] = useState<ReadonlyMap<string, Item>>(new Map())
  const choose: Selection<Item>["choose"] = (rows, isOn) =>
    setChosen((before) => {
      const next = new Map(before)
      for (const [key, row] of rows) {
        if (isOn) next.set(key, row)
        else next.delete(key)
      }
      return next
    })
  return { chosen, choose, clear: () => setChosen(new Map()) }
}

/** What a table is sorted by: a member, with `-` before it for descending. */
interface Sorted {
  readonly by: string | undefined
  readonly onSort: (sort: string) => void
}

interface Sorting {
  readonly isNumber: boolean
  readonly sort: string
  readonly sorted: Sorted
  readonly title: string
}

/** The title of a column, which sorts by it: by names from A on, by figures from the highest, by moments from the latest. */
const SortButton = ({ isNumber, sort, sorted: { by, onSort }, title }: Sorting) => {
  const first = isNumber || /At$|Date$/.test(sort) ? `-${sort}` : sort
  const other = first === sort ? `-${sort}` : sort
  return (
    <button type="button" className="sort" onClick={() => onSort(by === first ? other : first)}>
      {title}
      <Icon name={by === sort ? "up" : by === `-${sort}` ? "down" : "sort"} size={14} />
    </button>
  )
}

const ariaSort = (sort: string | undefined, by: string | undefined) =>
  sort === undefined ? undefined : by === sort ? "ascending" : by === `-${sort}` ? "descending" : "none"

/** The key of a row that has an id. */
export const idOf = (row: unknown): string => String((row as { readonly id: string | number }).id)

interface Rows<Item> {
  /** What can be done with a row. */
  readonly acts?: Acts<Item> | undefined
  readonly columns: ReadonlyArray<Column<Item, string>>
  /** What is said instead of a table without rows. */
  readonly empty?: Said
  /** Names a row, by its id when absent. */
  readonly keyOf?: ((item: Item) => string) | undefined
  readonly label: string
  /** What a row is called beside its checkbox. */
  readonly nameOf?: ((item: Item) => string) | undefined
  readonly rows: ReadonlyArray<Item>
  readonly rowClass?: ((item: Item) => string | undefined) | undefined
  /** Makes rows choosable. */
  readonly selection?: Selection<Item> | undefined
  readonly sorted?: Sorted | undefined
}

/** Follows the link of a row that is clicked beside its links, buttons and fields, and not to select text. */
const follow = ({ currentTarget, target }: MouseEvent<HTMLTableRowElement>): void => {
  const isOther = (target as Element).closest("a, button, input, select, label, summary") !== null
  if (!isOther && getSelection()?.isCollapsed !== false) currentTarget.querySelector<HTMLElement>("a.name")?.click()
}

/** Rows as a table. */
export const Table = <Item,>({ columns: shown, keyOf = idOf, ...table }: Rows<Item>) => {
  const { acts, empty, label, nameOf, rows, rowClass, selection, sorted } = table
  if (rows.length === 0 && empty !== undefined) return <Nothing said={empty} />
  const columns: typeof shown =
    acts === undefined
      ? shown
      : [
          ...shown,
          {
            title: "",
            isNumber: true,
            cell: (row) => (
              <span className="acts">
                <ActsOf acts={acts} of={row} />
              </span>
            )
          }
        ]
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {selection === undefined ? null : (
              <th scope="col">
                <input
                  type="checkbox"
                  aria-label="Select all on this page"
                  checked={rows.every((row) => selection.chosen.has(keyOf(row)))}
                  onChange={(event) =>
                    selection.choose(
                      rows.map((row) => [keyOf(row), row]),
                      event.target.checked
                    )
                  }
                />
              </th>
            )}
            {columns.map(({ isNumber, sort, title }, place) => (
              <th
                key={title}
                scope="col"
                className={classOf({ isNumber, title }, place)}
                aria-sort={sorted === undefined ? undefined : ariaSort(sort, sorted.by)}
              >
                {title === "" ? (
                  <span className="hidden">Actions</span>
                ) : sort === undefined || sorted === undefined ? (
                  title
                ) : (
                  <SortButton isNumber={isNumber === true} sort={sort} sorted={sorted} title={title} />
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} className={rowClass?.(row)} onClick={follow}>
              {selection === undefined ? null : (
                <td>
                  <input
                    type="checkbox"
                    aria-label={`Select ${nameOf?.(row) ?? keyOf(row)}`}
                    checked={selection.chosen.has(keyOf(row))}
                    onChange={(event) => selection.choose([[keyOf(row), row]], event.target.checked)}
                  />
                </td>
              )}
              {columns.map(({ cell, isNumber, isWide, title }, place) => (
                <td key={title} className={classOf({ isNumber, isWide, title }, place)}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
        {columns.some(({ total }) => total !== undefined) ? (
          <tfoot>
            <tr>
              {selection === undefined ? null : <td />}
              {columns.map(({ isNumber, isWide, title, total }, place) => (
                <td key={title} className={classOf({ isNumber, isWide, title }, place)}>
                  {total}
                </td>
              ))}
            </tr>
          </tfoot>
        ) : null}
      </table>
    </div>
  )
}
