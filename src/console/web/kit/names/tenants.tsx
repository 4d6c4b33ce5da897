import { Link } from "wouter"
import { useCall, useRow } from "../../api/hooks.ts"
import { tenantScope } from "../../api/tenant-scope.ts"
import { useCaller, useCan } from "../../shell/session.tsx"
import { Field } from "../forms/operation.tsx"
import { type Filter } from "../lists/filters.tsx"
import { lastDays } from "../lists/range.tsx"
import { type Column } from "../lists/table.tsx"

/** An id and its name. */
export type Option = readonly [value: string, text: string]

/** As many as there can be to choose from, the newest. */
export const mostNames = { query: { limit: 200, sort: "-createdAt" } } as const

/** What reports name: the dimension whose keys are the ids. */
export type Reported = "agent" | "api-key" | "application" | "plan" | "tenant"

/** A thing as reports name it. */
interface ReportedThing {
  readonly id: string
  readonly name: string
  readonly tenantId: string | null
}

/** What reports name: who reads what was spent may read who spent it, and need not see the things. */
export const useReported = (dimension: Reported | undefined, enabled: boolean): ReadonlyArray<ReportedThing> => {
  const isAllowed = useCan()("insights:read")
  const { data } = useCall(
    "insights.by",
    // Names are of any tenant, also of one that is not looked at.
    { params: { dimension: dimension ?? "tenant" }, query: { ...lastDays(90), tenantId: "", limit: 200 } },
    { enabled: enabled && isAllowed && dimension !== undefined, staleSeconds: 60 }
  )
  return (data?.items ?? []).flatMap(({ key: id, label: name, tenantId = null }) =>
    id === null || name === null ? [] : { id, name, tenantId }
  )
}

/** The tenants to choose from, and whether there are more of them; none for a caller of one tenant. */
export const useTenants = () => {
  const isListed = useCan()("tenants:read")
  const isSystem = useCaller().tenant === null
  const { data } = useCall("tenants.list", mostNames, { enabled: isSystem && isListed })
  const reported = useReported("tenant", isSystem && !isListed)
  const tenants: ReadonlyArray<Option> = (data?.items ?? reported).map(({ id, name }) => [id, name] as const)
  return { isSystem, tenants, isComplete: data?.nextCursor === null }
}

interface Choosing {
  readonly none?: string
  /** Choices that are no tenants. */
  readonly others?: ReadonlyArray<Option>
}

/** Chooses the tenant of what is made, where the caller is of no tenant itself. */
export const TenantField = ({ none = "The default tenant", others = [] }: Choosing) => {
  const { isComplete, isSystem, tenants } = useTenants()
  if (!isSystem) return null
  if (!isComplete) return <Field label="Tenant" name="tenantId" placeholder={none} hint="Its id" />
  return (
    <Field
      label="Tenant"
      name="tenantId"
      defaultValue={tenantScope() ?? ""}
      options={[["", none], ...others, ...tenants]}
    />
  )
}

interface OfTenant {
  readonly id: string | null
  /** What stands for no tenant. */
  readonly none?: string
}

/** The name of a tenant, where the caller may see it. */
export const TenantText = ({ id, none = "installation" }: OfTenant) => {
  const own = useCaller().tenant
  const may = useCan()
  const { isComplete, isSystem, tenants } = useTenants()
  const known = own?.id === id ? own?.name : tenants.find((tenant) => tenant[0] === id)?.[1]
  const isAsked = isSystem && may("tenants:read") && tenants.length > 0 && !isComplete && known === undefined
  const found = useRow("tenants.list", id ?? "", isAsked)
  if (id === null) return <span className="soft">{none}</span>
  return known ?? found?.name ?? <code title={id}>…{id.slice(-8)}</code>
}

/** The same as a link to the tenant's page, where the caller may open it. */
export const TenantName = (tenant: OfTenant) => {
  const may = useCan()
  if (tenant.id === null || !may("tenants:read")) return <TenantText {...tenant} />
  return (
    <Link className="cut" href={`/tenants/${tenant.id}`} title={tenant.id}>
      <TenantText {...tenant} />
    </Link>
  )
}

/** The filter by tenant, which is shown where the caller may see more than one. */
export const useTenantFilter = (): Filter => {
  const { tenants } = useTenants()
  return { key: "tenantId", label: "Tenant", options: tenants, isHidden: tenants.length < 2 }
}

/** The column that says of which tenant a row is, where the caller may see more than one. */
export const useTenantColumn = (): ReadonlyArray<Column<{ readonly tenantId: string | null }>> =>
  useTenants().tenants.length < 2 ? [] : [{ title: "Tenant", cell: ({ tenantId }) => <TenantName id={tenantId} /> }]
