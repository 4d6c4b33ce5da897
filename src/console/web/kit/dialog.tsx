import { type ReactNode, useEffect, useId, useRef } from "react"
import { Icon } from "./icons.tsx"

/** A modal dialog; Escape and its button close it unless what it shows must be confirmed. */
export const Dialog = ({
  children,
  closes = true,
  onClose,
  title,
  wide = false
}: {
  readonly children: ReactNode
  readonly closes?: boolean
  readonly onClose: () => void
  readonly title: string
  readonly wide?: boolean
}) => {
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
        if (closes) onClose()
      }}
      onClick={(event) => {
        if (closes && event.target === dialog.current) onClose()
      }}
    >
      <div className="title">
        <h2 id={id}>{title}</h2>
        {closes ? (
          <button type="button" className="btn quiet icon" aria-label="Close" onClick={onClose}>
            <Icon name="close" />
          </button>
        ) : null}
      </div>
      {children}
    </dialog>
  )
}
