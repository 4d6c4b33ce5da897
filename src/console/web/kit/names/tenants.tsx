import { useCall } from "../api/hooks.ts"
import { useCaller, useCan } from "../shell/session.tsx"
import { SelectField, TextField } from "./form.tsx"
import { Choice } from "./list.tsx"

/** Whether the caller is of the whole installation and may see its tenants. */
const useTenants = () => {
  const { tenant } = useCaller()
  const may = useCan()
  const isSystem = tenant === null
  const asked = useCall("tenants.list", { query: { limit: 200 } }, { enabled: isSystem && may("tenants:read") })
  return { isSystem, tenants: asked.data?.items, isCut: asked.data !== undefined && asked.data.nextCursor !== null }
}

/** Chooses a tenant, where the caller is of no tenant itself. */
export const TenantField = ({ none = "The default tenant" }: { readonly none?: string }) => {
  const { isCut, isSystem, tenants } = useTenants()
  if (!isSystem) return null
  if (tenants === undefined || isCut)
    return <TextField label="Tenant" name="tenantId" placeholder={none} hint="Its id" />
  return (
    <SelectField
      label="Tenant"
      name="tenantId"
      options={[["", none], ...tenants.map(({ id, name }) => [id, name] as const)]}
    />
  )
}

/** The name of a tenant, where the caller may see it. */
export const TenantName = ({ id }: { readonly id: string | null }) => {
  const { tenants } = useTenants()
  if (id === null) return <span className="soft">installation</span>
  return tenants?.find((tenant) => tenant.id === id)?.name ?? <code>{id}</code>
}

/** Filters by tenant, where the caller may see more than one. */
export const TenantChoice = ({
  onChange,
  value
}: {
  readonly onChange: (id: string) => void
  readonly value?: string | undefined
}) => {
  const { tenants } = useTenants()
  if (tenants === undefined || tenants.length < 2) return null
  return (
    <Choice
      label="Tenant"
      value={value}
      onChange={onChange}
      options={tenants.map(({ id, name }) => [id, name] as const)}
    />
  )
}
