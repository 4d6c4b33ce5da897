import { type ReactNode, useState } from "react"
import { Copy } from "../actions.tsx"
import { Dialog, useDialogs } from "../dialog.tsx"

const noteOfKeeping = "I have saved it in a safe place"
const noteOfDigest = "Copy it now: it is shown only once, and only its digest is stored."

interface Shown {
  readonly children?: ReactNode
  /** What is confirmed before it closes. */
  readonly kept?: string
  readonly note?: string
  /** What comes after it, where that is more than to close it. */
  readonly onClose?: (() => void) | undefined
  readonly secret: string
  readonly title: string
  /** What the secret is: "API key". */
  readonly what: string
}

/** Shows a secret this once; it closes only after it was confirmed that the secret is kept. */
export const SecretDialog = ({ children, kept = noteOfKeeping, note = noteOfDigest, ...shown }: Shown) => {
  const { onClose, secret, title, what } = shown
  const { close } = useDialogs()
  const [isKept, setKept] = useState(false)
  return (
    <Dialog title={title} closes={false} wide>
      <div className="in">
        <p>{note}</p>
        <div className="secret">
          <span data-testid="secret">{secret}</span>
          <Copy text={secret} what={what} />
        </div>
        {children}
        <div className="check">
          <input id="is-kept" type="checkbox" checked={isKept} onChange={(event) => setKept(event.target.checked)} />
          <label htmlFor="is-kept">{kept}</label>
        </div>
      </div>
      <footer>
        <button type="button" className="btn main" disabled={!isKept} onClick={onClose ?? close}>
          Done
        </button>
      </footer>
    </Dialog>
  )
}

/** Shows the secret that deliveries are signed with, which the service keeps to sign the next ones. */
export const SigningSecret = ({ secret, title }: { readonly secret: string; readonly title: string }) => (
  <SecretDialog title={title} what="Secret" note="Copy it now: it is shown only once." secret={secret}>
    <p>
      The receiver verifies <code>webhook-signature</code> with it (Standard Webhooks).
    </p>
  </SecretDialog>
)
