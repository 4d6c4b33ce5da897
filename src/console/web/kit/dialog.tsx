import { createContext, Fragment, type ReactNode, useContext, useEffect, useId, useMemo, useRef, useState } from "react"
import { useLocation } from "wouter"
import { Icon } from "./icons.tsx"

interface Dialogs {
  /** Shows a dialog in the place of the one that is open. */
  readonly open: (dialog: ReactNode) => void
  readonly close: () => void
}

const Current = createContext<Dialogs>({ open: () => undefined, close: () => undefined })

export const useDialogs = (): Dialogs => useContext(Current)

/**
 * Where the dialogs of pages are, one at a time and until the page changes; apart from what opened them, since a row may leave its
 * list while its dialog is open.
 */
export const DialogHost = ({ children }: { readonly children: ReactNode }) => {
  const [path] = useLocation()
  const [shown, show] = useState<{ readonly dialog: ReactNode; readonly round: number; readonly path: string }>()
  const dialogs = useMemo(
    () => ({
      open: (dialog: ReactNode) => show((before) => ({ dialog, round: (before?.round ?? 0) + 1, path })),
      close: () => show((before) => before && { ...before, dialog: null })
    }),
    [path]
  )
  return (
    <Current value={dialogs}>
      {children}
      {shown?.path === path ? <Fragment key={shown.round}>{shown.dialog}</Fragment> : null}
    </Current>
  )
}

interface Modal {
  readonly children: ReactNode
  readonly closes?: boolean
  readonly onClose?: (() => void) | undefined
  readonly title: string
  readonly wide?: boolean | undefined
}

/** Whether a form of the dialog holds what was entered and is not sent; `before` is what fields held when they got the focus. */
const isEntered = (dialog: HTMLDialogElement, before: ReadonlyMap<Element, string>): boolean =>
  Array.from(dialog.querySelectorAll<HTMLInputElement>("form :is(input, select, textarea)")).some((field) =>
    field.type === "checkbox" || field.type === "radio"
      ? field.checked !== field.defaultChecked
      : field.type !== "search" &&
        field.type !== "hidden" &&
        field.value !== (before.get(field) ?? field.defaultValue ?? field.value)
  )

/**
 * A modal dialog; Escape and its button close it unless what it shows must be confirmed. What was entered is not thrown away by
 * them without a question.
 */
export const Dialog = ({ children, closes = true, onClose, title, wide = false }: Modal) => {
  const { close } = useDialogs()
  const leave = onClose ?? close
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  const [isAsking, ask] = useState(false)
  // React writes the value of a controlled field as its default, too.
  const before = useRef(new Map<Element, string>()).current
  const tryToLeave = () => {
    if (dialog.current !== null && isEntered(dialog.current, before)) ask(true)
    else leave()
  }
  useEffect(() => {
    const shown = dialog.current
    if (shown !== null && !shown.open) {
      shown.showModal()
      // The browser would begin with the button that closes it; nothing in it takes the focus before it is open.
      shown.querySelector<HTMLElement>("input:not([type=checkbox], [type=radio]), select, textarea")?.focus()
    }
    return () => shown?.close()
  }, [])
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      className={wide ? "wide" : undefined}
      onFocus={({ target }) => {
        if ("value" in target && !before.has(target)) before.set(target, String(target.value))
      }}
      // Chrome closes at the second Escape even when the first was prevented.
      onKeyDown={(event) => {
        if (event.key !== "Escape") return
        if (isAsking) ask(false)
        else if (closes && isEntered(event.currentTarget, before)) ask(true)
        else if (closes) return
        event.preventDefault()
      }}
      onCancel={(event) => {
        event.preventDefault()
        if (closes) tryToLeave()
      }}
      onClick={(event) => {
        if (closes && !isAsking && event.target === dialog.current) tryToLeave()
      }}
    >
      <div className="title">
        <h2 id={id}>{title}</h2>
        {closes ? (
          <button type="button" className="btn quiet icon" aria-label="Close" onClick={tryToLeave}>
            <Icon name="close" />
          </button>
        ) : null}
      </div>
      {isAsking ? (
        <div className="asking" role="alertdialog" aria-label="Discard what you entered?">
          <strong>Discard what you entered?</strong>
          <button type="button" className="btn bad" onClick={leave}>
            Discard
          </button>
          <button type="button" className="btn" autoFocus onClick={() => ask(false)}>
            Keep editing
          </button>
        </div>
      ) : null}
      {children}
    </dialog>
  )
}
