import { type Row } from "../../api/operations.ts"
import { Act } from "../../kit/actions.tsx"
import { Moment } from "../../kit/format.tsx"
import { Confirm, formOf } from "../../kit/forms/operation.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { TenantField, TenantName, useTenantFilter } from "../../kit/names/tenants.tsx"
import { Tag } from "../../kit/parts.tsx"
import { useCaller } from "../../shell/session.tsx"
import { RoleNames, RolePicker } from "./role-picker.tsx"

type Account = Row<"accounts.list">

const write = "accounts:write"
const create = formOf("accounts.create")
const update = formOf("accounts.update")

const Create = () => (
  <create.Dialog title="Make an account" action="Make the account" done="The account is made" wide>
    <div className="row2">
      <create.Field label="E-mail address" name="email" type="email" />
      <create.Field label="Name" name="name" />
    </div>
    <create.Field
      label="Password"
      name="password"
      type="password"
      isExact
      autoComplete="new-password"
      hint="12 to 128 characters; the person can change it after signing in"
    />
    <TenantField none="The whole installation" />
    <RolePicker />
  </create.Dialog>
)

const isSame = (one: ReadonlyArray<number>, other: ReadonlyArray<number>) =>
  one.length === other.length && one.every((id) => other.includes(id))

const Edit = ({ account }: { readonly account: Account }) => (
  <update.Dialog
    title={`Change ${account.name}`}
    action="Save"
    done={`${account.name} is changed`}
    wide
    input={{ params: { id: account.id } }}
    of={account}
    // Roles that are written end the sessions of the account.
    body={({ roleIds = account.roleIds, ...body }) => (isSame(account.roleIds, roleIds) ? body : { ...body, roleIds })}
  >
    <div className="row2">
      <update.Field label="E-mail address" name="email" type="email" />
      <update.Field label="Name" name="name" />
    </div>
    <update.Field
      label="New password"
      name="password"
      type="password"
      isExact
      autoComplete="new-password"
      hint="Empty to keep it"
    />
    <RolePicker initial={account.roleIds} />
    <p className="soft">Other roles and another password end the sessions of the account.</p>
  </update.Dialog>
)

const Suspend = ({ account: { email, id, name } }: { readonly account: Account }) => (
  <Confirm
    name="accounts.update"
    input={{ params: { id }, body: { status: "suspended" } }}
    title={`Suspend ${name}`}
    action="Suspend the account"
    done={`${name} is suspended`}
  >
    <p>Every session of {email} ends, and it cannot sign in until it is activated again.</p>
  </Confirm>
)

const Activate = ({ account: { email, id, name } }: { readonly account: Account }) => (
  <Confirm
    name="accounts.update"
    input={{ params: { id }, body: { status: "active" } }}
    title={`Activate ${name}`}
    action="Activate the account"
    kind="main"
    done={`${name} is active`}
  >
    <p>{email} can sign in again, with the roles that it has.</p>
  </Confirm>
)

const Delete = ({ account: { email, id, name } }: { readonly account: Account }) => (
  <Confirm
    name="accounts.delete"
    input={{ params: { id } }}
    title={`Delete ${name}`}
    action="Delete the account"
    done={`${name} is deleted`}
  >
    <p>
      The account of <code>{email}</code> and its sessions are gone for good. What it did stays in the audit log.
    </p>
  </Confirm>
)

/** People who sign in. */
export default function Accounts() {
  const { account: self } = useCaller()
  return (
    <ListPage
      title="Accounts"
      lead="People who sign in here. Their roles say what they may do."
      actions={
        <Act kind="main" icon="plus" needs={write} opens={<Create />}>
          Make an account
        </Act>
      }
      name="accounts.list"
      searches="Name, e-mail address or id"
      order="-createdAt"
      filters={[useTenantFilter()]}
      rowClass={({ status }) => (status === "active" ? undefined : "gone")}
      empty="There is no account yet"
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
        { title: "Status", cell: ({ status }) => <Tag tone={status === "active" ? "ok" : "warn"}>{status}</Tag> },
        { title: "Roles", cell: ({ roleIds }) => <RoleNames ids={roleIds} /> },
        { title: "Tenant", cell: ({ tenantId }) => <TenantName id={tenantId} /> },
        { title: "Last sign-in", sort: "lastSignInAt", cell: ({ lastSignInAt }) => <Moment at={lastSignInAt} /> }
      ]}
      acts={(account) => {
        const unless = account.id === self?.id ? "An account neither suspends nor deletes itself" : undefined
        return (
          <>
            <Act needs={write} opens={<Edit account={account} />}>
              Change
            </Act>
            {account.status === "active" ? (
              <Act kind="bad" needs={write} unless={unless} opens={<Suspend account={account} />}>
                Suspend
              </Act>
            ) : (
              <Act needs={write} opens={<Activate account={account} />}>
                Activate
              </Act>
            )}
            <Act kind="bad" needs={write} unless={unless} opens={<Delete account={account} />}>
              Delete
            </Act>
          </>
        )
      }}
    />
  )
}
