import { useState } from "react"
import { type FieldTexts, Labelled } from "./form.tsx"

interface OfPassword extends FieldTexts {
  readonly autoComplete: "current-password" | "new-password"
  readonly autoFocus?: boolean
  readonly name: string
}

/** A password, which can be shown while it is typed. */
export const PasswordField = ({ autoComplete, autoFocus, hint, label, member, name }: OfPassword) => {
  const [isShown, setShown] = useState(false)
  const isNew = autoComplete === "new-password"
  return (
    <Labelled label={label} hint={hint ?? (isNew ? "12 to 128 characters" : undefined)} member={member ?? name}>
      {(own) => (
        <span className="beside">
          <input
            {...own}
            name={name}
            type={isShown ? "text" : "password"}
            autoComplete={autoComplete}
            autoFocus={autoFocus}
            autoCapitalize="none"
            spellCheck={false}
            minLength={isNew ? 12 : undefined}
            maxLength={isNew ? 128 : undefined}
            required
          />
          <button type="button" className="btn" aria-pressed={isShown} onClick={() => setShown(!isShown)}>
            {isShown ? "Hide" : "Show"}
            <span className="hidden"> the {label.toLowerCase()}</span>
          </button>
        </span>
      )}
    </Labelled>
  )
}
