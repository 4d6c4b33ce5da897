import { useState } from "react"
import { useChange } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { Act, Confirm, FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, textOf, TextField } from "../../kit/forms/form.tsx"
import { Moment } from "../../kit/format.tsx"
import { useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { RoleNames, RolePicker } from "./role-picker.tsx"
import { Empty } from "../../kit/states.tsx"
import { TenantChoice, TenantField, TenantName } from "../../kit/names/tenants.tsx"
import { useCaller } from "../../shell/session.tsx"

type Account = Row<"accounts.list">

const write = "accounts:write"

const Create = ({ onClose }: { readonly onClose: () => void }) => {
  const create = useChange("accounts.create", "The account is made")
  const [roleIds, setRoleIds] = useState<ReadonlyArray<number>>([])
  const submit = (data: FormData) => {
    const tenantId = textOf(data, "tenantId")
    create.mutate(
      {
        body: {
          email: textOf(data, "email") ?? "",
          name: textOf(data, "name") ?? "",
          password: String(data.get("password") ?? ""),
          roleIds,
          ...(tenantId === undefined ? {} : { tenantId })
        }
      },
      { onSuccess: onClose }
    )
  }
  return (
    <Dialog title="Make an account" onClose={onClose} wide>
      <Form
        cause={create.error}
        onSubmit={submit}
        actions={<FormActions action="Make the account" isPending={create.isPending} onClose={onClose} />}
      >
        <div className="row2">
          <TextField label="E-mail address" name="email" type="email" required maxLength={254} />
          <TextField label="Name" name="name" required maxLength={100} />
        </div>
        <TextField
          label="Password"
          name="password"
          type="password"
          required
          autoComplete="new-password"
          hint="12 to 128 characters; the person can change it after signing in"
        />
        <TenantField none="The whole installation" />
        <RolePicker chosen={roleIds} onChange={setRoleIds} />
      </Form>
    </Dialog>
  )
}

const Edit = ({ account, onClose }: { readonly account: Account; readonly onClose: () => void }) => {
  const update = useChange("accounts.update", `${account.name} is changed`)
  const [roleIds, setRoleIds] = useState<ReadonlyArray<number>>(account.roleIds)
  const submit = (data: FormData) => {
    const password = String(data.get("password") ?? "")
    const isSame = roleIds.length === account.roleIds.length && roleIds.every((id) => account.roleIds.includes(id))
    update.mutate(
      {
        params: { id: account.id },
        body: {
          email: textOf(data, "email") ?? "",
          name: textOf(data, "name") ?? "",
          ...(isSame ? {} : { roleIds }),
          ...(password === "" ? {} : { password })
        }
      },
      { onSuccess: onClose }
    )
  }
  return (
    <Dialog title={`Change ${account.name}`} onClose={onClose} wide>
      <Form
        cause={update.error}
        onSubmit={submit}
        actions={<FormActions action="Save" isPending={update.isPending} onClose={onClose} />}
      >
        <div className="row2">
          <TextField label="E-mail address" name="email" type="email" required defaultValue={account.email} />
          <TextField label="Name" name="name" required maxLength={100} defaultValue={account.name} />
        </div>
        <TextField
          label="New password"
          name="password"
          type="password"
          autoComplete="new-password"
          hint="Empty to keep it"
        />
        <RolePicker chosen={roleIds} onChange={setRoleIds} />
        <p className="soft">Other roles and another password end the sessions of the account.</p>
      </Form>
    </Dialog>
  )
}

interface Shown {
  readonly what: "edit" | "suspend" | "activate" | "delete"
  readonly account: Account
}

/** People who sign in. */
export default function Accounts() {
  const { account: self } = useCaller()
  const filters = useFilters(["tenantId"])
  const [isMaking, setMaking] = useState(false)
  const [shown, show] = useState<Shown>()
  const close = () => show(undefined)
  return (
    <ListPage
      title="Accounts"
      lead="People who sign in here. Their roles say what they may do."
      actions={
        <Act kind="main" icon="plus" needs={write} onClick={() => setMaking(true)}>
          Make an account
        </Act>
      }
      name="accounts.list"
      searches="Name, e-mail address or id"
      order="-createdAt"
      filters={<TenantChoice value={filters.values.tenantId} onChange={(id) => filters.set("tenantId", id)} />}
      input={{ query: filters.values }}
      isFiltered={filters.isFiltered}
      label="Accounts"
      keyOf={({ id }) => id}
      rowClass={({ status }) => (status === "active" ? undefined : "gone")}
      empty={<Empty title="There is no account yet" />}
      columns={[
        {
          title: "Name",
          sort: "name",
          cell: ({ email, name }) => (
            <span className="lines">
              <strong className="cut" title={name}>
                {name}
              </strong>
              <small className="cut" title={email}>
                {email}
              </small>
            </span>
          )
        },
        {
          title: "Status",
          cell: ({ status }) => <span className={status === "active" ? "tag ok" : "tag warn"}>{status}</span>
        },
        { title: "Roles", cell: ({ roleIds }) => <RoleNames ids={roleIds} /> },
        { title: "Tenant", cell: ({ tenantId }) => <TenantName id={tenantId} /> },
        { title: "Last sign-in", sort: "lastSignInAt", cell: ({ lastSignInAt }) => <Moment at={lastSignInAt} /> },
        {
          title: "",
          isNumber: true,
          cell: (account) => {
            const unless = account.id === self?.id ? "An account neither suspends nor deletes itself" : undefined
            return (
              <span className="acts">
                <Act needs={write} onClick={() => show({ what: "edit", account })}>
                  Change
                </Act>
                {account.status === "active" ? (
                  <Act kind="bad" needs={write} unless={unless} onClick={() => show({ what: "suspend", account })}>
                    Suspend
                  </Act>
                ) : (
                  <Act needs={write} onClick={() => show({ what: "activate", account })}>
                    Activate
                  </Act>
                )}
                <Act kind="bad" needs={write} unless={unless} onClick={() => show({ what: "delete", account })}>
                  Delete
                </Act>
              </span>
            )
          }
        }
      ]}
    >
      {isMaking ? <Create onClose={() => setMaking(false)} /> : null}
      {shown?.what === "edit" ? <Edit account={shown.account} onClose={close} /> : null}
      {shown?.what === "suspend" ? (
        <Confirm
          name="accounts.update"
          input={{ params: { id: shown.account.id }, body: { status: "suspended" } }}
          title={`Suspend ${shown.account.name}`}
          action="Suspend the account"
          done={`${shown.account.name} is suspended`}
          onClose={close}
        >
          <p>Every session of {shown.account.email} ends, and it cannot sign in until it is activated again.</p>
        </Confirm>
      ) : null}
      {shown?.what === "activate" ? (
        <Confirm
          name="accounts.update"
          input={{ params: { id: shown.account.id }, body: { status: "active" } }}
          title={`Activate ${shown.account.name}`}
          action="Activate the account"
          kind="main"
          done={`${shown.account.name} is active`}
          onClose={close}
        >
          <p>{shown.account.email} can sign in again, with the roles that it has.</p>
        </Confirm>
      ) : null}
      {shown?.what === "delete" ? (
        <Confirm
          name="accounts.delete"
          input={{ params: { id: shown.account.id } }}
          title={`Delete ${shown.account.name}`}
          action="Delete the account"
          done={`${shown.account.name} is deleted`}
          onClose={close}
        >
          <p>
            The account of <code>{shown.account.email}</code> and its sessions are gone for good. What it did stays in
            the audit log.
          </p>
        </Confirm>
      ) : null}
    </ListPage>
  )
}
