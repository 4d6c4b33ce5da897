import { Link } from "wouter"
import { Failure } from "../../api/client.ts"
import { type Payload, type Row } from "../../api/operations.ts"
import { Act } from "../../kit/actions.tsx"
import { Moment } from "../../kit/format.tsx"
import { TextArea, textOf } from "../../kit/forms/form.tsx"
import { Confirm, formOf } from "../../kit/forms/operation.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { useSpendColumn } from "../../kit/lists/spend.tsx"
import { Tag } from "../../kit/parts.tsx"

type Tenant = Row<"tenants.list">
type Settings = NonNullable<Payload<"tenants.update">["settings"]>

const write = "tenants:write"
const create = formOf("tenants.create")
const update = formOf("tenants.update")

/** What the fields say, with the settings as a JSON object; fails with a fault of that field. */
const withSettings = <Body,>(body: Body, data: FormData): Body & { readonly settings: Settings } => {
  try {
    return { ...body, settings: JSON.parse(textOf(data, "settings") ?? "{}") }
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : "It is no JSON."
    throw new Failure(400, { detail: "The settings are no JSON.", errors: [{ path: ["settings"], message }] })
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
      hint={tenant === undefined ? "For addresses; made of the name when empty" : "For addresses"}
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
  <create.Dialog title="Make a tenant" action="Make the tenant" done="The tenant is made" body={withSettings}>
    <Fields />
  </create.Dialog>
)

const Edit = ({ tenant }: { readonly tenant: Tenant }) => (
  <update.Dialog
    title={`Change ${tenant.name}`}
    action="Save"
    done={`${tenant.name} is changed`}
    input={{ params: { id: tenant.id } }}
    of={tenant}
    body={withSettings}
  >
    <Fields tenant={tenant} />
  </update.Dialog>
)

const Suspend = ({ tenant: { id, name } }: { readonly tenant: Tenant }) => (
  <Confirm
    name="tenants.update"
    input={{ params: { id }, body: { status: "suspended" } }}
    title={`Suspend ${name}`}
    action="Suspend the tenant"
    done={`${name} is suspended`}
  >
    <p>Every account, key and agent of {name} is refused within a second, until the tenant is activated again.</p>
  </Confirm>
)

const Activate = ({ tenant: { id, name } }: { readonly tenant: Tenant }) => (
  <Confirm
    name="tenants.update"
    input={{ params: { id }, body: { status: "active" } }}
    title={`Activate ${name}`}
    action="Activate the tenant"
    kind="main"
    done={`${name} is active`}
  >
    <p>Its accounts, keys and agents are admitted again.</p>
  </Confirm>
)

/** The customers of the installation. */
export default function Tenants() {
  return (
    <ListPage
      title="Tenants"
      lead="Customers of the installation, kept apart: agents, accounts, keys and money belong to one."
      actions={
        <Act kind="main" icon="plus" needs={write} opens={<Create />}>
          Make a tenant
        </Act>
      }
      name="tenants.list"
      searches="Name, short name or id"
      filters={[{ key: "status", label: "Status", options: ["active", "suspended"] }]}
      rowClass={({ status }) => (status === "active" ? undefined : "gone")}
      empty="There is no tenant"
      columns={[
        {
          title: "Name",
          sort: "name",
          cell: ({ name }) => (
            <strong className="cut" title={name}>
              {name}
            </strong>
          )
        },
        { title: "Status", cell: ({ status }) => <Tag tone={status === "active" ? "ok" : "warn"}>{status}</Tag> },
        { title: "Short name", cell: ({ slug }) => <code className="cut">{slug}</code> },
        ...useSpendColumn("tenant"),
        { title: "Made", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} style="date" /> }
      ]}
      acts={(tenant) => (
        <>
          <Link className="btn" href={`/accounts?tenantId=${tenant.id}`}>
            Accounts
          </Link>
          <Act needs={write} opens={<Edit tenant={tenant} />}>
            Change
          </Act>
          {tenant.status === "active" ? (
            <Act
              kind="bad"
              needs={write}
              unless={tenant.slug === "default" ? "The default tenant is never suspended" : undefined}
              opens={<Suspend tenant={tenant} />}
            >
              Suspend
            </Act>
          ) : (
            <Act needs={write} opens={<Activate tenant={tenant} />}>
              Activate
            </Act>
          )}
        </>
      )}
    />
  )
}
