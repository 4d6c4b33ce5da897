import { useCall } from "../../api/hooks.ts"
import { Cut, Moment } from "../../kit/format.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { ScopeChips, ScopePicker } from "../../kit/forms/scopes.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { useSpendColumn } from "../../kit/lists/spend.tsx"
import { TenantField, useTenantColumn, useTenantFilter } from "../../kit/names/tenants.tsx"
import { NameLink, Tag } from "../../kit/parts.tsx"

const tones = { active: "ok", suspended: "warn", retired: "" } as const
const { Field, Make } = formOf("agents.register")

const TemplateField = () => {
  const { data } = useCall("agentTemplates.list", { query: { limit: 200 } })
  return (
    <Field
      label="Template"
      name="templateId"
      options={[["", "None"], ...(data?.items ?? []).map(({ id, name }) => [id, name] as const)]}
      hint="Fills in what is left empty here, and limits the agent"
    />
  )
}

const Create = () => (
  <Make
    needs="agents:write"
    title="Register an agent"
    action="Register the agent"
    wide
    // Where no scope is chosen, a template gives its own.
    body={({ scopeCeiling = [], ...body }) =>
      scopeCeiling.length === 0 && body.templateId !== undefined ? body : { ...body, scopeCeiling }
    }
    leads={({ id }) => `/agents/${id}`}
  >
    <div className="row2">
      <Field label="Name" name="name" placeholder="invoice-reader" />
      <Field label="Owner" name="ownerUserId" hint="Who is responsible for it, in your own terms" />
    </div>
    <Field label="Description" name="description" />
    <TenantField />
    <TemplateField />
    <ScopePicker name="scopeCeiling" label="Scope ceiling" />
    <div className="row2">
      <Field label="Maximum token lifetime in minutes" name="maxCredentialTtlSeconds" unit={60} placeholder="60" />
      <Field label="Maximum reservation per call, in US dollars" name="perTurnBudget" placeholder="no limit" />
    </div>
  </Make>
)

/** Programs that act by themselves, and who they belong to. */
export default () => (
  <ListPage
    title="Agents"
    lead="Programs that act on their own. Each has an owner and a ceiling on what it may do."
    actions={<Create />}
    name="agents.list"
    searches="Name, owner or id"
    filters={[{ key: "status", label: "Status", options: Object.keys(tones) }, useTenantFilter()]}
    rowClass={({ status }) => (status === "retired" ? "gone" : undefined)}
    empty={["There is no agent yet", "An agent gets short-lived tokens, with scopes within the ceiling that you set."]}
    columns={[
      {
        title: "Name",
        sort: "name",
        cell: ({ id, name, ownerUserId }) => (
          <span className="lines">
            <NameLink name={name} to={`/agents/${id}`} />
            {ownerUserId === null ? <small>no owner</small> : <Cut as="small" text={ownerUserId} />}
          </span>
        )
      },
      { title: "Status", cell: ({ status }) => <Tag tone={tones[status]}>{status}</Tag> },
      ...useTenantColumn(),
      { title: "Scope ceiling", cell: ({ scopeCeiling }) => <ScopeChips scopes={scopeCeiling} /> },
      ...useSpendColumn("agent"),
      { title: "Last seen", sort: "lastSeenAt", cell: ({ lastSeenAt }) => <Moment at={lastSeenAt} /> },
      { title: "Registered", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} /> }
    ]}
  />
)
