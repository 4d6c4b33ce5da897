import { useId, useState } from "react"
import { useCall } from "../../api/hooks.ts"
import { TenantText } from "../names/tenants.tsx"
import { Soft } from "../parts.tsx"
import { useFaults, useInvalid } from "./form.tsx"

/** What can be chosen, with what is said of each. */
interface Choice {
  readonly id: string
  readonly name: string
  readonly email?: string
  readonly tenantId: string | null
}

interface Picking {
  /** Whether one of the list cannot be chosen. */
  readonly isLeftOut?: (id: string) => boolean
  readonly label: string
  readonly list: "accounts.list" | "agents.list"
  /** The member of the body that the id is for. */
  readonly name: string
}

const mostShown = 20

/** Chooses an account or an agent by its name, for a member of a body that takes its id. */
export const ThingPicker = ({ isLeftOut = () => false, label, list, name }: Picking) => {
  const id = useId()
  const invalid = useInvalid(id)
  const refused = useFaults(name)
  const [search, setSearch] = useState("")
  const [chosen, choose] = useState<Choice>()
  const query = { limit: mostShown, ...(search.trim() === "" ? {} : { search: search.trim() }) }
  const { data } = useCall(list, { query }, { keepsPrevious: true })
  const found = ((data?.items ?? []) as ReadonlyArray<Choice>).filter((one) => !isLeftOut(one.id))
  const faults = chosen === undefined && invalid !== undefined ? [invalid] : refused
  return (
    <fieldset className="scopes">
      <input type="hidden" name={name} data-member="text" value={chosen?.id ?? ""} />
      <legend className="label">{label}</legend>
      <div className="chips" role="group" aria-label={`Chosen ${label.toLowerCase()}`}>
        {chosen === undefined ? (
          <Soft>None selected yet.</Soft>
        ) : (
          <span className="chip" title={chosen.id}>
            {chosen.name}
          </span>
        )}
      </div>
      <input
        id={id}
        ref={(field) => field?.setCustomValidity(chosen === undefined ? "Select one" : "")}
        type="search"
        aria-label={`Search ${label.toLowerCase()}`}
        aria-describedby={faults.length > 0 ? `${id}-hint` : undefined}
        aria-invalid={faults.length > 0}
        placeholder="Name, e-mail address or id"
        value={search}
        onChange={(event) => setSearch(event.target.value)}
      />
      {faults.length === 0 ? null : (
        <small id={`${id}-hint`} className="fault">
          {faults.join("; ")}
        </small>
      )}
      <div className="choices">
        {data !== undefined && found.length === 0 ? <p className="soft option">Nothing has such a name.</p> : null}
        {found.map((one) => (
          <label key={one.id} className="option">
            <input type="radio" name={`${id}-choice`} checked={chosen?.id === one.id} onChange={() => choose(one)} />
            <span>
              {one.name}{" "}
              <small>
                {one.email ?? null} <TenantText id={one.tenantId} />
              </small>
            </span>
          </label>
        ))}
        {data?.nextCursor == null ? null : (
          <p className="soft option">There are more; search for a part of the name.</p>
        )}
      </div>
    </fieldset>
  )
}
