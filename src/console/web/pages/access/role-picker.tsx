import { useState } from "react"
import { useCall } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { ownSlug } from "../../kit/names/built-in.ts"
import { Named } from "../../kit/names/names.tsx"
import { Soft } from "../../kit/parts.tsx"
import { useCan, useRefusal } from "../../shell/session.tsx"

/** The roles that accounts can have, which are those of this service itself; undefined where the caller may not see them. */
export const useOwnRoles = (): ReadonlyArray<Row<"roles.list">> | undefined => {
  const may = useCan()
  const isAllowed = may("roles:read") && may("applications:read")
  const applications = useCall("applications.list", { query: { limit: 200 } }, { enabled: isAllowed })
  const own = applications.data?.items.find(({ slug }) => slug === ownSlug)
  const roles = useCall("roles.list", { query: { applicationId: own?.id ?? 0 } }, { enabled: own !== undefined })
  return roles.data
}

interface Picking {
  readonly initial?: ReadonlyArray<number>
  readonly label?: string
  readonly name?: string
}

/** Chooses roles of accounts, for a member of a body. */
export const RolePicker = ({ initial = [], label = "Roles", name = "roleIds" }: Picking) => {
  const [chosen, choose] = useState(initial)
  const roles = useOwnRoles()
  const refusal = useRefusal()("roles:read")
  return (
    <fieldset className="scopes">
      <input type="hidden" name={name} data-member="json" value={JSON.stringify(chosen)} />
      <legend className="label">{label}</legend>
      {roles === undefined ? (
        <p className="soft">
          {refusal === "installation-only" ? (
            "Only accounts of the whole installation can see and assign roles."
          ) : (
            <>
              To choose roles you need <code>roles:read</code> and <code>applications:read</code>.
            </>
          )}
        </p>
      ) : (
        <div className="choices">
          {roles.map(({ description, id, name }) => (
            <label key={id} className="option">
              <input
                type="checkbox"
                checked={chosen.includes(id)}
                onChange={(event) =>
                  choose(event.target.checked ? [...chosen, id] : chosen.filter((role) => role !== id))
                }
              />
              <span>
                {name} <small>{description}</small>
              </span>
            </label>
          ))}
        </div>
      )}
    </fieldset>
  )
}

/** The names of roles. */
export const RoleNames = ({ ids }: { readonly ids: ReadonlyArray<number> }) =>
  ids.length === 0 ? (
    <Soft>none</Soft>
  ) : (
    <span className="chips">
      {ids.map((id) => (
        <Named key={id} className="chip" kind="role" id={id} isPlain />
      ))}
    </span>
  )
