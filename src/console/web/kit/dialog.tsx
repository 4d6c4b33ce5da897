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

/** A modal dialog; Escape and its button close it unless what it shows must be confirmed. */
export const Dialog = ({ children, closes = true, onClose, title, wide = false }: Modal) => {
  const { close } = useDialogs()
  const leave = onClose ?? close
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
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
      // Chrome closes at the second Escape even when the first was prevented.
      onKeyDown={(event) => {
        if (event.key === "Escape" && !closes) event.preventDefault()
      }}
      onCancel={(event) => {
        event.preventDefault()
        if (closes) leave()
      }}
      onClick={(event) => {
        if (closes && event.target === dialog.current) leave()
      }}
    >
      <div className="title">
        <h2 id={id}>{title}</h2>
        {closes ? (
          <button type="button" className="btn quiet icon" aria-label="Close" onClick={leave}>
            <Icon name="close" />
          </button>
        ) : null}
      </div>
      {children}
    </dialog>
  )
}
