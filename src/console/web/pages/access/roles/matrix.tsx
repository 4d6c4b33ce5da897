import { type KeyboardEvent, useRef, useState } from "react"
import { words } from "../../../kit/format.tsx"
import { Icon } from "../../../kit/icons.tsx"
import { coveredBy, type Held, type Line, type Role, stateOf } from "./capabilities.ts"

const marks: Record<Held, string> = { yes: "true", by: "true", some: "mixed", no: "false" }

interface Position {
  readonly row: number
  readonly column: number
}

const moves: Readonly<Record<string, Position>> = {
  ArrowUp: { row: -1, column: 0 },
  ArrowDown: { row: 1, column: 0 },
  ArrowLeft: { row: 0, column: -1 },
  ArrowRight: { row: 0, column: 1 },
  PageUp: { row: -10, column: 0 },
  PageDown: { row: 10, column: 0 }
}

export const clamp = (value: number, most: number) => Math.min(Math.max(value, 0), most)

interface Shown {
  readonly edits: ReadonlyMap<number, ReadonlySet<string>>
  readonly isFixed: (role: Role) => boolean
  readonly lines: ReadonlyArray<Line>
  readonly onOpen: (role: Role) => void
  readonly onToggle: (role: Role, line: Line) => void
  readonly roles: ReadonlyArray<Role>
}

/** Roles by capabilities. Arrow keys move, Space switches, Home and End go to the first and last role. */
export const Matrix = ({ edits, isFixed, lines, onOpen, onToggle, roles }: Shown) => {
  const grid = useRef<HTMLTableElement>(null)
  const [at, setAt] = useState<Position>({ row: 0, column: 0 })
  const go = (row: number, column: number) => {
    const next = { row: clamp(row, lines.length - 1), column: clamp(column, roles.length - 1) }
    setAt(next)
    grid.current?.querySelector<HTMLElement>(`[data-cell="${next.row} ${next.column}"]`)?.focus()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const move = moves[event.key]
    if (move !== undefined) go(at.row + move.row, at.column + move.column)
    else if (event.key === "Home") go(event.ctrlKey ? 0 : at.row, 0)
    else if (event.key === "End") go(event.ctrlKey ? lines.length - 1 : at.row, roles.length - 1)
    else return
    event.preventDefault()
  }
  const held = roles.map((role) => {
    const before = new Set(role.capabilities)
    return { role, before, now: edits.get(role.id) ?? before }
  })
  return (
    <div className="scroll matrix">
      <table ref={grid} role="grid" aria-label="Roles by capabilities">
        <thead>
          <tr>
            <th scope="col">Capability</th>
            {roles.map((role) => (
              <th key={role.id} scope="col">
                <button type="button" className="btn quiet" title={role.name} onClick={() => onOpen(role)}>
                  {role.name}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody onKeyDown={onKeyDown}>
          {lines.map((line, row) => {
            const title = line.kind === "group" ? `all of ${line.resource}` : line.capability
            return (
              <tr key={title} className={line.kind === "group" ? "group" : undefined}>
                <th scope="row">{line.kind === "group" ? words(line.resource) : <code>{line.capability}</code>}</th>
                {held.map(({ before, now, role }, column) => {
                  const state = stateOf(now, line)
                  const was = now === before ? state : stateOf(before, line)
                  const by = state === "by" && line.kind === "one" ? coveredBy(now, line.capability) : undefined
                  return (
                    <td key={role.id} className={state === was ? undefined : "changed"}>
                      <button
                        type="button"
                        role="checkbox"
                        aria-checked={marks[state] as "true" | "false" | "mixed"}
                        aria-disabled={isFixed(role)}
                        aria-label={`${title} for ${role.name}`}
                        title={
                          isFixed(role)
                            ? "A built-in role cannot be changed"
                            : state === "by"
                              ? `Comes from ${by}`
                              : undefined
                        }
                        className={`cell ${state}`}
                        data-cell={`${row} ${column}`}
                        tabIndex={at.row === row && at.column === column ? 0 : -1}
                        onFocus={() => setAt({ row, column })}
                        onClick={() => onToggle(role, line)}
                      >
                        {state === "no" ? null : state === "some" ? "–" : <Icon name="check" size={16} />}
                      </button>
                    </td>
                  )
                })}
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}
