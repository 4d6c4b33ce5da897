import { Failure } from "../../api/client.ts"
import { type Payload, type Row } from "../../api/operations.ts"
import { type Of } from "../../kit/actions.tsx"
import { Moment } from "../../kit/format.tsx"
import { TextArea, textOf } from "../../kit/forms/form.tsx"
import { formOf, SwitchAct } from "../../kit/forms/operation.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { useSpendColumn } from "../../kit/lists/spend.tsx"
import { NameLink, Tag } from "../../kit/parts.tsx"

export type Tenant = Row<"tenants.list">
type Settings = NonNullable<Payload<"tenants.update">["settings"]>

const write = "tenants:write"
const create = formOf("tenants.create")
const update = formOf("tenants.update")

/** What the fields say, with the settings as a JSON object; fails with a fault of that field. */
const withSettings = <Body,>(body: Body, data: FormData): Body & { readonly settings: Settings } => {
  try {
    return { ...body, settings: JSON.parse(textOf(data, "settings") ?? "{}") }
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : "This is not valid JSON."
    throw new Failure(400, { detail: "The settings are not valid JSON.", errors: [{ path: ["settings"], message }] })
  }
}

const Fields = ({ tenant }: { readonly tenant?: Tenant }) => (
  <>
    <create.Field label="Name" name="name" />
    <create.Field
      label="Short name"
      name="slug"
      maxLength={63}
      readOnly={tenant?.slug === "default"}
      hint={tenant === undefined ? "For addresses; derived from the name when empty" : "For addresses"}
    />
    <TextArea
      label="Settings"
      name="settings"
      className="code"
      spellCheck={false}
      defaultValue={JSON.stringify(tenant?.settings ?? {}, null, 2)}
      hint="A JSON object of your own"
    />
  </>
)

const Create = () => (
  <create.Make
    title="Create a tenant"
    action="Create the tenant"
    done="The tenant is created"
    leads={({ id }) => `/tenants/${id}`}
    needs={write}
    body={withSettings}
  >
    <Fields />
  </create.Make>
)

export const Edit = ({ of: tenant }: Of<Tenant>) => (
  <update.Change of={tenant} needs={write} body={withSettings}>
    <Fields tenant={tenant} />
  </update.Change>
)

export const Suspend = ({ of: tenant }: Of<Tenant>) => (
  <SwitchAct
    name="tenants.update"
    of={tenant}
    isOn={tenant.status === "active"}
    what="tenant"
    needs={write}
    unless={tenant.slug === "default" ? "The default tenant cannot be suspended" : undefined}
    meaning={[
      `Every account, key and agent of ${tenant.name} is refused within a second, until the tenant is activated again.`,
      "Its accounts, keys and agents work again."
    ]}
  />
)

/** The customers of the installation. */
export default () => (
  <ListPage
    title="Tenants"
    lead="Customers of the installation, isolated from each other. Each has its own agents, accounts, keys and spend."
    actions={<Create />}
    name="tenants.list"
    searches="Name, short name or id"
    filters={[{ key: "status", label: "Status", options: ["active", "suspended"] }]}
    rowClass={({ status }) => (status === "active" ? undefined : "gone")}
    empty="There is no tenant"
    columns={[
      { title: "Name", sort: "name", cell: ({ id, name }) => <NameLink name={name} to={`/tenants/${id}`} /> },
      { title: "Status", cell: ({ status }) => <Tag tone={status === "active" ? "ok" : "warn"}>{status}</Tag> },
      { title: "Short name", cell: ({ slug }) => <code className="cut">{slug}</code> },
      ...useSpendColumn("tenant"),
      { title: "Created", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} style="date" /> }
    ]}
    acts={[Edit, Suspend]}
  />
)
