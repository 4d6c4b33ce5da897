import { useState } from "react"
import capabilities from "virtual:capabilities"
import { useHas } from "../../shell/session.tsx"
import { words } from "../format.tsx"
import { Soft } from "../parts.tsx"

interface Picking {
  readonly initial?: ReadonlyArray<string>
  readonly label?: string
  readonly name?: string
}

/** Chooses capabilities, by resource, for a member of a body; what the caller lacks cannot be granted. */
export const ScopePicker = ({ initial = [], label = "Scopes", name = "scopes" }: Picking) => {
  const has = useHas()
  const [filter, setFilter] = useState("")
  const [scopes, setScopes] = useState(initial)
  const toggle = (scope: string, isOn: boolean) =>
    setScopes(isOn ? [...scopes, scope] : scopes.filter((held) => held !== scope))
  const shown = Object.entries(capabilities).filter(([resource]) =>
    resource.includes(filter.toLowerCase().replaceAll(" ", "-"))
  )
  return (
    <fieldset className="scopes">
      <input type="hidden" name={name} data-member="json" value={JSON.stringify(scopes)} />
      <legend className="label">
        {label}{" "}
        <small title={scopes.join("\n")}>
          {scopes.length === 0 ? "none" : scopes.slice(0, 4).join(", ")}
          {scopes.length > 4 ? ` and ${scopes.length - 4} more` : ""}
        </small>
      </legend>
      <input
        type="search"
        aria-label={`Filter ${label.toLowerCase()}`}
        placeholder="Filter by resource"
        value={filter}
        onChange={(event) => setFilter(event.target.value)}
      />
      <div className="choices">
        {shown.map(([resource, actions]) => (
          <div key={resource} role="group" aria-label={words(resource)}>
            <span>{words(resource)}</span>
            {actions.map((action) => {
              const scope = `${resource}:${action}`
              const id = `scope-${resource}-${action}`
              const isHeld = has(scope)
              return (
                <span key={action} className="check" title={isHeld ? scope : `You do not have ${scope}`}>
                  <input
                    id={id}
                    type="checkbox"
                    aria-label={scope}
                    checked={scopes.includes(scope)}
                    disabled={!isHeld && !scopes.includes(scope)}
                    onChange={(event) => toggle(scope, event.target.checked)}
                  />
                  <label htmlFor={id}>{action}</label>
                </span>
              )
            })}
          </div>
        ))}
      </div>
    </fieldset>
  )
}

const chipsOf = (texts: ReadonlyArray<string>) =>
  texts.map((text) => (
    <span key={text} className="chip">
      {text}
    </span>
  ))

/** Texts one beside the other, and what stands for none. */
export const Chips = ({ none = "none", texts }: { readonly none?: string; readonly texts: ReadonlyArray<string> }) =>
  texts.length === 0 ? <Soft>{none}</Soft> : <span className="chips">{chipsOf(texts)}</span>

/** The first of some capabilities, and how many more there are. */
export const ScopeChips = ({ scopes }: { readonly scopes: ReadonlyArray<string> }) =>
  scopes.length === 0 ? (
    <Soft>none</Soft>
  ) : (
    <span title={scopes.join("\n")}>
      {chipsOf(scopes.slice(0, 2))}
      {scopes.length > 2 ? <small> and {scopes.length - 2} more</small> : null}
    </span>
  )
