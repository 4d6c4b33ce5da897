import { useState } from "react"
import { Link, useLocation } from "wouter"
import { useCall, useChange } from "../../api/hooks.ts"
import { Act, FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, numberOf, SelectField, textOf, TextField } from "../../kit/forms/form.tsx"
import { Cut, Moment } from "../../kit/format.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { useSpendColumn } from "../../kit/lists/spend.tsx"
import { ScopeChips, ScopePicker } from "../../kit/forms/scopes.tsx"
import { Empty } from "../../kit/states.tsx"
import { TenantChoice, TenantField, useTenantColumn } from "../../kit/names/tenants.tsx"

const tones = { active: "ok", suspended: "warn", retired: "" } as const

const Create = ({ onClose }: { readonly onClose: () => void }) => {
  const [, go] = useLocation()
  const templates = useCall("agentTemplates.list", { query: { limit: 200 } })
  const register = useChange("agents.register")
  const [scopes, setScopes] = useState<ReadonlyArray<string>>([])
  const submit = (data: FormData) => {
    const templateId = textOf(data, "templateId")
    const ownerUserId = textOf(data, "ownerUserId")
    const tenantId = textOf(data, "tenantId")
    const ttl = numberOf(data, "minutes")
    const perTurnBudget = numberOf(data, "perTurnBudget")
    register.mutate(
      {
        body: {
          name: textOf(data, "name") ?? "",
          description: textOf(data, "description") ?? "",
          ...(ownerUserId === undefined ? {} : { ownerUserId }),
          ...(templateId === undefined ? {} : { templateId }),
          ...(tenantId === undefined ? {} : { tenantId }),
          ...(scopes.length === 0 && templateId !== undefined ? {} : { scopeCeiling: scopes }),
          ...(ttl === undefined ? {} : { maxCredentialTtlSeconds: Math.round(ttl * 60) }),
          ...(perTurnBudget === undefined ? {} : { perTurnBudget })
        }
      },
      { onSuccess: ({ id }) => go(`/agents/${id}`) }
    )
  }
  return (
    <Dialog title="Register an agent" onClose={onClose} wide>
      <Form
        cause={register.error}
        onSubmit={submit}
        actions={<FormActions action="Register the agent" isPending={register.isPending} onClose={onClose} />}
      >
        <div className="row2">
          <TextField label="Name" name="name" required maxLength={100} placeholder="invoice-reader" />
          <TextField label="Owner" name="ownerUserId" maxLength={200} hint="Whose agent it is, in your own terms" />
        </div>
        <TextField label="Description" name="description" maxLength={1000} />
        <TenantField />
        <SelectField
          label="Template"
          name="templateId"
          options={[["", "None"], ...(templates.data?.items ?? []).map(({ id, name }) => [id, name] as const)]}
          hint="Gives what is left empty here, and limits the agent"
        />
        <ScopePicker label="Scopes it may ever be granted" scopes={scopes} onChange={setScopes} />
        <div className="row2">
          <TextField
            label="Longest life of a token in minutes"
            member="maxCredentialTtlSeconds"
            name="minutes"
            type="number"
            min={1}
            max={1440}
            placeholder="60"
          />
          <TextField
            label="Most that one call may reserve, in US dollars"
            name="perTurnBudget"
            type="number"
            min={0}
            step="any"
            placeholder="no limit"
          />
        </div>
      </Form>
    </Dialog>
  )
}

/** Programs that act by themselves, and who they belong to. */
export default function Agents() {
  const filters = useFilters(["status", "tenantId"])
  const ofTenant = useTenantColumn()
  const spend = useSpendColumn("agent")
  const [isMaking, setMaking] = useState(false)
  return (
    <ListPage
      title="Agents"
      lead="Programs that act by themselves. Each has an owner and the most that it may ever do."
      actions={
        <Act kind="main" icon="plus" needs="agents:write" onClick={() => setMaking(true)}>
          Register an agent
        </Act>
      }
      name="agents.list"
      searches="Name, owner or id"
      filters={
        <>
          <Choice
            label="Status"
            value={filters.values.status}
            onChange={(status) => filters.set("status", status)}
            options={Object.keys(tones)}
          />
          <TenantChoice value={filters.values.tenantId} onChange={(id) => filters.set("tenantId", id)} />
        </>
      }
      input={{ query: filters.values }}
      isFiltered={filters.isFiltered}
      label="Agents"
      keyOf={({ id }) => id}
      rowClass={({ status }) => (status === "retired" ? "gone" : undefined)}
      empty={
        <Empty title="There is no agent yet">
          <p>An agent gets short-lived tokens with part of the scopes that you give it here.</p>
        </Empty>
      }
      columns={[
        {
          title: "Name",
          sort: "name",
          cell: ({ id, name }) => (
            <Link className="name" title={name} href={`/agents/${id}`}>
              {name}
            </Link>
          )
        },
        { title: "Status", cell: ({ status }) => <span className={`tag ${tones[status]}`}>{status}</span> },
        ...ofTenant,
        {
          title: "Owner",
          cell: ({ ownerUserId }) =>
            ownerUserId === null ? <span className="soft">none</span> : <Cut text={ownerUserId} />
        },
        { title: "May be granted", cell: ({ scopeCeiling }) => <ScopeChips scopes={scopeCeiling} /> },
        ...spend,
        { title: "Last seen", sort: "lastSeenAt", cell: ({ lastSeenAt }) => <Moment at={lastSeenAt} /> },
        { title: "Registered", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} /> }
      ]}
    >
      {isMaking ? <Create onClose={() => setMaking(false)} /> : null}
    </ListPage>
  )
}
