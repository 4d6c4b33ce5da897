import { useLocation, useSearchParams } from "wouter"
import { queries, useRow } from "../api/hooks.ts"
import { setTenantScope, useTenantScope } from "../api/tenant-scope.ts"
import { useTenants } from "../kit/names/tenants.tsx"
import { sessionKey, useCaller, useCan } from "./session.tsx"

/** Looks at one tenant from now on, or at all, and reads everything that is shown again. */
export const useTenantSwitch = (): ((id: string | undefined) => void) => {
  const [path, go] = useLocation()
  const [search] = useSearchParams()
  return (id) => {
    setTenantScope(id)
    // The place in a list is of what was listed before.
    const kept = new URLSearchParams([...search].filter(([name]) => name !== "cursor" && name !== "tenantId"))
    go(kept.size === 0 ? path : `${path}?${kept}`, { replace: true })
    void queries.resetQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionKey[0] })
  }
}

/** Says which tenant the caller sees, and chooses one where it may see several. */
export const TenantSwitch = () => {
  const { tenant } = useCaller()
  const scope = useTenantScope()
  const { isComplete, tenants } = useTenants()
  const isListed = tenants.some(([id]) => id === scope)
  const isAsked = useCan()("tenants:read") && tenant === null && scope !== undefined && !isListed
  const other = useRow("tenants.list", scope ?? "", isAsked)
  const choose = useTenantSwitch()
  if (tenant !== null) return <span className="tenant">{tenant.name}</span>
  if (scope === undefined && tenants.length < 2) return <span className="tenant">All tenants</span>
  const shown = scope === undefined || isListed ? tenants : [[scope, other?.name ?? scope] as const, ...tenants]
  return (
    <select
      className={scope === undefined ? "tenant pill" : "tenant pill on"}
      aria-label="Tenant"
      value={scope ?? ""}
      onChange={(event) => choose(event.target.value === "" ? undefined : event.target.value)}
    >
      <option value="">All tenants</option>
      {shown
        .toSorted((one, two) => one[1].localeCompare(two[1]))
        .map(([id, name]) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      {isComplete ? null : <option disabled>Find others with Ctrl K</option>}
    </select>
  )
}
