import { useCall } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { ownSlug } from "../../kit/names/built-in.ts"
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

/** Chooses roles of accounts. */
export const RolePicker = ({
  chosen,
  label = "Roles",
  onChange
}: {
  readonly chosen: ReadonlyArray<number>
  readonly label?: string
  readonly onChange: (roles: ReadonlyArray<number>) => void
}) => {
  const roles = useOwnRoles()
  const refusal = useRefusal()("roles:read")
  return (
    <fieldset className="scopes">
      <legend className="label">{label}</legend>
      {roles === undefined ? (
        <p className="soft">
          {refusal === "installation-only" ? (
            "Only accounts of the whole installation see and choose roles."
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
                  onChange(event.target.checked ? [...chosen, id] : chosen.filter((role) => role !== id))
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
export const RoleNames = ({ ids }: { readonly ids: ReadonlyArray<number> }) => {
  const roles = useOwnRoles()
  if (ids.length === 0) return <span className="soft">none</span>
  return (
    <span className="chips">
      {ids.map((id) => (
        <span key={id} className="chip">
          {roles?.find((role) => role.id === id)?.name ?? `role ${id}`}
        </span>
      ))}
    </span>
  )
}
