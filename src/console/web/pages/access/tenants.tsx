import { useState } from "react"
import { Link } from "wouter"
import { Failure } from "../../api/client.ts"
import { useChange } from "../../api/hooks.ts"
import { type Payload, type Row } from "../../api/operations.ts"
import { Act, Confirm, FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, TextArea, textOf, TextField } from "../../kit/forms/form.tsx"
import { Moment } from "../../kit/format.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { useSpendColumn } from "../../kit/lists/spend.tsx"
import { Empty } from "../../kit/states.tsx"

type Tenant = Row<"tenants.list">
type Settings = NonNullable<Payload<"tenants.update">["settings"]>

const write = "tenants:write"

/** The settings as a JSON object, or a fault of the field. */
const settingsOf = (data: FormData): Settings | Failure => {
  try {
    return JSON.parse(textOf(data, "settings") ?? "{}")
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : "It is no JSON."
    return new Failure(400, { detail: "The settings are no JSON.", errors: [{ path: ["settings"], message }] })
  }
}

const Fields = ({ tenant }: { readonly tenant?: Tenant }) => (
  <>
    <TextField label="Name" name="name" required maxLength={100} defaultValue={tenant?.name} />
    <TextField
      label="Short name"
      name="slug"
      maxLength={63}
      required={tenant !== undefined}
      readOnly={tenant?.slug === "default"}
      defaultValue={tenant?.slug}
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

const Create = ({ onClose }: { readonly onClose: () => void }) => {
  const create = useChange("tenants.create", "The tenant is made")
  const [fault, setFault] = useState<Failure>()
  const submit = (data: FormData) => {
    const settings = settingsOf(data)
    const slug = textOf(data, "slug")
    setFault(settings instanceof Failure ? settings : undefined)
    if (settings instanceof Failure) return
    create.mutate(
      { body: { name: textOf(data, "name") ?? "", settings, ...(slug === undefined ? {} : { slug }) } },
      { onSuccess: onClose }
    )
  }
  return (
    <Dialog title="Make a tenant" onClose={onClose}>
      <Form
        cause={fault ?? create.error}
        onSubmit={submit}
        actions={<FormActions action="Make the tenant" isPending={create.isPending} onClose={onClose} />}
      >
        <Fields />
      </Form>
    </Dialog>
  )
}

const Edit = ({ onClose, tenant }: { readonly onClose: () => void; readonly tenant: Tenant }) => {
  const update = useChange("tenants.update", `${tenant.name} is changed`)
  const [fault, setFault] = useState<Failure>()
  const submit = (data: FormData) => {
    const settings = settingsOf(data)
    setFault(settings instanceof Failure ? settings : undefined)
    if (settings instanceof Failure) return
    update.mutate(
      {
        params: { id: tenant.id },
        body: { name: textOf(data, "name") ?? "", slug: textOf(data, "slug") ?? "", settings }
      },
      { onSuccess: onClose }
    )
  }
  return (
    <Dialog title={`Change ${tenant.name}`} onClose={onClose}>
      <Form
        cause={fault ?? update.error}
        onSubmit={submit}
        actions={<FormActions action="Save" isPending={update.isPending} onClose={onClose} />}
      >
        <Fields tenant={tenant} />
      </Form>
    </Dialog>
  )
}

interface Shown {
  readonly what: "edit" | "suspend" | "activate"
  readonly tenant: Tenant
}

/** The customers of the installation. */
export default function Tenants() {
  const filters = useFilters(["status"])
  const spend = useSpendColumn("tenant")
  const [isMaking, setMaking] = useState(false)
  const [shown, show] = useState<Shown>()
  const close = () => show(undefined)
  return (
    <ListPage
      title="Tenants"
      lead="Customers of the installation, kept apart: agents, accounts, keys and money belong to one."
      actions={
        <Act kind="main" icon="plus" needs={write} onClick={() => setMaking(true)}>
          Make a tenant
        </Act>
      }
      name="tenants.list"
      searches="Name, short name or id"
      filters={
        <Choice
          label="Status"
          value={filters.values.status}
          onChange={(status) => filters.set("status", status)}
          options={["active", "suspended"]}
        />
      }
      input={{ query: filters.values }}
      isFiltered={filters.isFiltered}
      label="Tenants"
      keyOf={({ id }) => id}
      rowClass={({ status }) => (status === "active" ? undefined : "gone")}
      empty={<Empty title="There is no tenant" />}
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
        {
          title: "Status",
          cell: ({ status }) => <span className={status === "active" ? "tag ok" : "tag warn"}>{status}</span>
        },
        { title: "Short name", cell: ({ slug }) => <code className="cut">{slug}</code> },
        ...spend,
        { title: "Made", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} style="date" /> },
        {
          title: "",
          isNumber: true,
          cell: (tenant) => (
            <span className="acts">
              <Link className="btn" href={`/accounts?tenantId=${tenant.id}`}>
                Accounts
              </Link>
              <Act needs={write} onClick={() => show({ what: "edit", tenant })}>
                Change
              </Act>
              {tenant.status === "active" ? (
                <Act
                  kind="bad"
                  needs={write}
                  unless={tenant.slug === "default" ? "The default tenant is never suspended" : undefined}
                  onClick={() => show({ what: "suspend", tenant })}
                >
                  Suspend
                </Act>
              ) : (
                <Act needs={write} onClick={() => show({ what: "activate", tenant })}>
                  Activate
                </Act>
              )}
            </span>
          )
        }
      ]}
    >
      {isMaking ? <Create onClose={() => setMaking(false)} /> : null}
      {shown?.what === "edit" ? <Edit tenant={shown.tenant} onClose={close} /> : null}
      {shown?.what === "suspend" ? (
        <Confirm
          name="tenants.update"
          input={{ params: { id: shown.tenant.id }, body: { status: "suspended" } }}
          title={`Suspend ${shown.tenant.name}`}
          action="Suspend the tenant"
          done={`${shown.tenant.name} is suspended`}
          onClose={close}
        >
          <p>
            Every account, key and agent of {shown.tenant.name} is refused within a second, until the tenant is
            activated again.
          </p>
        </Confirm>
      ) : null}
      {shown?.what === "activate" ? (
        <Confirm
          name="tenants.update"
          input={{ params: { id: shown.tenant.id }, body: { status: "active" } }}
          title={`Activate ${shown.tenant.name}`}
          action="Activate the tenant"
          kind="main"
          done={`${shown.tenant.name} is active`}
          onClose={close}
        >
          <p>Its accounts, keys and agents are admitted again.</p>
        </Confirm>
      ) : null}
    </ListPage>
  )
}
