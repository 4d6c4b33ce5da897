import { useId, useState } from "react"
import capabilities from "virtual:capabilities"
import { covers, useHas, useRefusal } from "../../shell/session.tsx"
import { words } from "../format.tsx"
import { Soft } from "../parts.tsx"
import { useFaults, useInvalid } from "./form.tsx"

/** What programs commonly need, each with a name. */
const presets: Readonly<Record<string, ReadonlyArray<string>>> = {
  "Call models": ["llm:complete", "llm:embed", "llm:read"],
  "Reserve and report spend": ["budgets:read", "spend:read", "spend:write"],
  "Read reports": ["budgets:read", "insights:read", "spend:read"],
  "Read everything": ["*:read"]
}

interface Picking {
  readonly initial?: ReadonlyArray<string>
  /** Whether one has to be chosen. */
  readonly isRequired?: boolean
  readonly label?: string
  readonly name?: string
  /** What may be granted at most, where that is less than what the caller has. */
  readonly within?: ReadonlyArray<string>
}

/** Chooses capabilities, by resource or several at once, for a member of a body; what the caller lacks cannot be granted. */
export const ScopePicker = ({
  initial = [],
  isRequired = false,
  label = "Scopes",
  name = "scopes",
  within
}: Picking) => {
  const has = useHas()
  const refusalOf = useRefusal()
  const id = useId()
  const invalid = useInvalid(id)
  const refused = useFaults(name)
  const [filter, setFilter] = useState("")
  const [scopes, setScopes] = useState(initial)
  const mayGrant = (scope: string) => has(scope) && (within === undefined || within.some((held) => covers(held, scope)))
  /** What nothing of a tenant may do is of no use there. */
  const isUseful = (scope: string) => refusalOf(scope) !== "installation-only" || initial.includes(scope)
  const isCovered = (scope: string) => scopes.some((held) => covers(held, scope))
  const remove = (scope: string) => setScopes(scopes.filter((held) => held !== scope))
  const shown = Object.entries(capabilities)
    .filter(([resource]) => resource.includes(filter.trim().toLowerCase().replaceAll(" ", "-")))
    .map(
      ([resource, actions]) =>
        [
          resource,
          actions
            .map((action) => [action, `${resource}:${action}`] as const)
            .filter(([, scope]) => isUseful(scope) && (within === undefined || mayGrant(scope)))
        ] as const
    )
    .filter(([, actions]) => actions.length > 0)
  const faults = scopes.length === 0 && invalid !== undefined ? [invalid] : refused
  return (
    <fieldset className="scopes">
      <input type="hidden" name={name} data-member="json" value={JSON.stringify(scopes)} />
      <legend className="label">{label}</legend>
      <div className="presets">
        {Object.entries(presets)
          .filter(([, granted]) => granted.every(mayGrant))
          .map(([title, granted]) => (
            <button
              key={title}
              type="button"
              className="btn"
              onClick={() => setScopes([...scopes, ...granted.filter((scope) => !isCovered(scope))])}
            >
              {title}
            </button>
          ))}
      </div>
      <div className="chips" role="group" aria-label={`Chosen ${label.toLowerCase()}`}>
        {scopes.length === 0 ? <Soft>None selected yet.</Soft> : null}
        {scopes.map((scope) => (
          <span key={scope} className="chip">
            {scope}
            <button type="button" aria-label={`Remove ${scope}`} onClick={() => remove(scope)}>
              ×
            </button>
          </span>
        ))}
      </div>
      <input
        id={id}
        ref={(field) => field?.setCustomValidity(isRequired && scopes.length === 0 ? "Select one or more scopes" : "")}
        type="search"
        aria-label={`Filter ${label.toLowerCase()}`}
        aria-describedby={faults.length > 0 ? `${id}-hint` : undefined}
        aria-invalid={faults.length > 0}
        placeholder="Filter by resource"
        value={filter}
        onChange={(event) => setFilter(event.target.value)}
      />
      {faults.length === 0 ? null : (
        <small id={`${id}-hint`} className="fault">
          {faults.join("; ")}
        </small>
      )}
      <div className="choices">
        {shown.map(([resource, actions]) => (
          <div key={resource} role="group" aria-label={words(resource)}>
            <span>{words(resource)}</span>
            <span className="actions">
              {actions.map(([action, scope]) => {
                const isOwn = scopes.includes(scope)
                const isByStar = !isOwn && isCovered(scope)
                const may = mayGrant(scope)
                return (
                  <span
                    key={action}
                    className="check"
                    title={isByStar ? "A wider scope has it" : may ? scope : `You do not have ${scope}`}
                  >
                    <input
                      id={`${id}-${scope}`}
                      type="checkbox"
                      aria-label={scope}
                      checked={isOwn || isByStar}
                      disabled={isByStar || (!may && !isOwn)}
                      onChange={(event) => (event.target.checked ? setScopes([...scopes, scope]) : remove(scope))}
                    />
                    <label htmlFor={`${id}-${scope}`}>{action}</label>
                  </span>
                )
              })}
            </span>
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
