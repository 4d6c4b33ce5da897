import { useState } from "react"
import { useCall } from "../../api/hooks.ts"
import { useCan } from "../../shell/session.tsx"

interface Picking {
  readonly initial?: ReadonlyArray<number>
  readonly label?: string
  readonly name?: string
}

/** Chooses roles of accounts that the caller may give, for a member of a body. */
export const RolePicker = ({ initial = [], label = "Roles", name = "roleIds" }: Picking) => {
  const [chosen, choose] = useState(initial)
  const isAllowed = useCan()("accounts:write")
  const { data: roles } = useCall("accounts.assignableRoles", {}, { enabled: isAllowed })
  return (
    <fieldset className="scopes">
      <input type="hidden" name={name} data-member="json" value={JSON.stringify(chosen)} />
      <legend className="label">{label}</legend>
      {roles === undefined ? (
        <p className="soft">
          {isAllowed ? (
            "Loading …"
          ) : (
            <>
              To choose roles you need <code>accounts:write</code>.
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
