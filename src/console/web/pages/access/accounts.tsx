import { type Row } from "../../api/operations.ts"
import { type Of } from "../../kit/actions.tsx"
import { Cut, Moment } from "../../kit/format.tsx"
import { ConfirmAct, formOf, SwitchAct } from "../../kit/forms/operation.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { TenantField, TenantName, useTenantFilter } from "../../kit/names/tenants.tsx"
import { NameLines, Tag } from "../../kit/parts.tsx"
import { useCaller } from "../../shell/session.tsx"
import { RoleNames, RolePicker } from "./role-picker.tsx"

type Account = Row<"accounts.list">

const write = "accounts:write"
const create = formOf("accounts.create")
const update = formOf("accounts.update")

/** Who an account is of, with a password that the hint is about. */
const Fields = ({ hint, label }: { readonly hint: string; readonly label: string }) => (
  <>
    <div className="row2">
      <create.Field label="E-mail address" name="email" type="email" />
      <create.Field label="Name" name="name" />
    </div>
    <create.Field label={label} name="password" type="password" isExact autoComplete="new-password" hint={hint} />
  </>
)

const Create = () => (
  <create.Make title="Make an account" action="Make the account" done="The account is made" wide needs={write}>
    <Fields label="Password" hint="12 to 128 characters; the person can change it after signing in" />
    <TenantField none="The whole installation" />
    <RolePicker />
  </create.Make>
)

const isSame = (one: ReadonlyArray<number>, other: ReadonlyArray<number>) =>
  one.length === other.length && one.every((id) => other.includes(id))

const Edit = ({ of: account }: Of<Account>) => (
  <update.Change
    needs={write}
    of={account}
    wide
    // Roles that are written end the sessions of the account.
    body={({ roleIds = account.roleIds, ...body }) => (isSame(account.roleIds, roleIds) ? body : { ...body, roleIds })}
  >
    <Fields label="New password" hint="Empty to keep it" />
    <RolePicker initial={account.roleIds} />
    <p className="soft">Other roles and another password end the sessions of the account.</p>
  </update.Change>
)

/** Why the caller does not do it to the own account. */
const useUnless = ({ id }: Account) =>
  useCaller().account?.id === id ? "An account neither suspends nor deletes itself" : undefined

const Suspend = ({ of: account }: Of<Account>) => (
  <SwitchAct
    name="accounts.update"
    of={account}
    isOn={account.status === "active"}
    what="account"
    needs={write}
    unless={useUnless(account)}
    meaning={[
      `Every session of ${account.email} ends, and it cannot sign in until it is activated again.`,
      `${account.email} can sign in again, with the roles that it has.`
    ]}
  />
)

const Delete = ({ of: account }: Of<Account>) => (
  <ConfirmAct
    name="accounts.delete"
    of={account}
    verb="Delete"
    what="account"
    needs={write}
    unless={useUnless(account)}
  >
    The account of <code>{account.email}</code> and its sessions are gone for good. What it did stays in the audit log.
  </ConfirmAct>
)

/** People who sign in. */
export default () => (
  <ListPage
    title="Accounts"
    lead="People who sign in here. Their roles say what they may do."
    actions={<Create />}
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
        cell: ({ email, name }) => <NameLines name={name} detail={<Cut as="small" text={email} />} />
      },
      { title: "Status", cell: ({ status }) => <Tag tone={status === "active" ? "ok" : "warn"}>{status}</Tag> },
      { title: "Roles", cell: ({ roleIds }) => <RoleNames ids={roleIds} /> },
      { title: "Tenant", cell: ({ tenantId }) => <TenantName id={tenantId} /> },
      { title: "Last sign-in", sort: "lastSignInAt", cell: ({ lastSignInAt }) => <Moment at={lastSignInAt} /> }
    ]}
    acts={[Edit, Suspend, Delete]}
  />
)
