import { Fragment, useState } from "react"
import { useLocation } from "wouter"
import { Dialog } from "../kit/dialog.tsx"
import { Icon } from "../kit/icons.tsx"
import { type Route } from "./routes.tsx"

/** Jumps to a page by typing a part of its name. */
export const Palette = ({ onClose, pages }: { readonly onClose: () => void; readonly pages: ReadonlyArray<Route> }) => {
  const [, go] = useLocation()
  const [text, setText] = useState("")
  const [chosen, setChosen] = useState(0)
  const found = pages.filter(({ group, title }) => `${title} ${group}`.toLowerCase().includes(text.toLowerCase()))
  const open = (page: Route | undefined) => {
    if (page === undefined) return
    go(page.path)
    onClose()
  }
  return (
    <Dialog title="Jump to" onClose={onClose}>
      <div className="in palette">
        <input
          role="combobox"
          aria-label="Page"
          aria-expanded="true"
          aria-controls="palette-pages"
          aria-activedescendant={found.length === 0 ? undefined : `palette-${chosen}`}
          placeholder="Type the name of a page"
          value={text}
          onChange={(event) => {
            setText(event.target.value)
            setChosen(0)
          }}
          onKeyDown={(event) => {
            const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0
            if (step !== 0 && found.length > 0) {
              event.preventDefault()
              setChosen((chosen + step + found.length) % found.length)
            }
            if (event.key === "Enter") open(found[chosen])
          }}
        />
        <div id="palette-pages" role="listbox" aria-label="Pages">
          {found.map((page, index) => (
            <div
              key={page.path}
              id={`palette-${index}`}
              role="option"
              aria-selected={index === chosen}
              tabIndex={-1}
              onClick={() => open(page)}
              onKeyDown={undefined}
            >
              <Icon name={page.icon} />
              {page.title}
              <small>{page.group}</small>
            </div>
          ))}
        </div>
      </div>
    </Dialog>
  )
}

const keys = [
  ["jump to a page", "Ctrl", "K"],
  ["search in this list", "/"],
  ["next row or request, and the one before", "J", "K"],
  ["this help", "?"],
  ["close a dialog", "Esc"]
] as const

/** What the keyboard does. */
export const Help = ({ onClose }: { readonly onClose: () => void }) => (
  <Dialog title="Keyboard" onClose={onClose}>
    <div className="in">
      <dl className="facts">
        {keys.map(([what, ...pressed]) => (
          <Fragment key={what}>
            <dt>{pressed.flatMap((key) => [<kbd key={key}>{key}</kbd>, " "])}</dt>
            <dd>{what}</dd>
          </Fragment>
        ))}
      </dl>
    </div>
  </Dialog>
)
