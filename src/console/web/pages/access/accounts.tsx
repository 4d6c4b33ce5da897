import { type Answer, type Row } from "../../api/operations.ts"
import { type Of } from "../../kit/actions.tsx"
import { Cut, Moment } from "../../kit/format.tsx"
import { ConfirmAct, formOf, SwitchAct } from "../../kit/forms/operation.tsx"
import { Chips } from "../../kit/forms/scopes.tsx"
import { SecretDialog } from "../../kit/forms/secret.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { TenantField, TenantName, useTenantFilter } from "../../kit/names/tenants.tsx"
import { NameLines, Tag } from "../../kit/parts.tsx"
import { useCaller } from "../../shell/session.tsx"
import { RolePicker } from "./role-picker.tsx"

type Account = Row<"accounts.list">
type Invited = Answer<"accounts.invite">

const write = "accounts:write"
const invite = formOf("accounts.invite")
const renew = formOf("accounts.renewInvitation")
const update = formOf("accounts.update")

/** A message with the link, for the program that the operator writes e-mail with. */
const messageOf = ({ email, link }: Invited): string => {
  const body = `Choose your password for Application Manager here:\n\n${link}\n\nThe link works once.`
  return `mailto:${encodeURIComponent(email)}?subject=${encodeURIComponent("Your account")}&body=${encodeURIComponent(body)}`
}

/** The link that was made, which the operator sends. */
const Link = ({ invited }: { readonly invited: Invited }) => (
  <SecretDialog
    title={`Link for ${invited.name}`}
    what="Link"
    secret={invited.link}
    note="Send it now: it is shown only once, and only its digest is stored."
    kept="I have sent it, or saved it to send later"
  >
    <p>
      With it {invited.email} chooses a password and is signed in. It works once, and ends{" "}
      <Moment at={invited.invitationExpiresAt ?? null} />.
    </p>
    <div>
      <a className="btn" href={messageOf(invited)}>
        Write an e-mail
      </a>
    </div>
  </SecretDialog>
)

const Life = () => (
  <invite.Field label="The link is valid for, in hours" name="ttlSeconds" unit={3600} placeholder="168" />
)

const Person = () => (
  <div className="row2">
    <invite.Field label="E-mail address" name="email" type="email" />
    <invite.Field label="Name" name="name" />
  </div>
)

const Invite = () => (
  <invite.Make
    label="Invite a person"
    title="Invite a person"
    action="Create the link"
    wide
    needs={write}
    shows={(invited) => <Link invited={invited} />}
  >
    <p>You get a link to send. The person opens it and chooses their own password.</p>
    <Person />
    <TenantField none="The whole installation" />
    <RolePicker />
    <Life />
  </invite.Make>
)

/** Why the caller does not do it to the own account. */
const useUnless = ({ id }: Account, what: string) =>
  useCaller().account?.id === id ? `An account does not ${what} itself` : undefined

const RevokeInvitation = ({ of: account }: Of<Account>) =>
  account.invitationExpiresAt === undefined ? null : (
    <ConfirmAct
      name="accounts.revokeInvitation"
      of={account}
      label="Revoke the link"
      verb="Revoke"
      what="link"
      title={`Revoke the link of ${account.name}`}
      done={`The link of ${account.name} is revoked`}
      needs={write}
    >
      {account.email} can no longer choose a password with it. The account stays.
    </ConfirmAct>
  )

const Renew = ({ of: account }: Of<Account>) => (
  <renew.Act
    label={account.lastSignInAt === null ? "Link" : "Reset password"}
    title={account.lastSignInAt === null ? `Invite ${account.name} again` : `Reset the password of ${account.name}`}
    action="Create the link"
    needs={write}
    unless={useUnless(account, "invite")}
    input={{ params: { id: account.id } }}
    acts={<RevokeInvitation of={account} />}
    shows={(invited) => <Link invited={invited} />}
  >
    <p>
      You get a link by which {account.email} chooses a new password. An earlier link ends; the password and the
      sessions stay until the new one is used.
    </p>
    <Life />
  </renew.Act>
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
    <Person />
    <RolePicker initial={account.roleIds} />
    <p className="soft">Other roles and another address end the sessions of the account.</p>
  </update.Change>
)

const Suspend = ({ of: account }: Of<Account>) => (
  <SwitchAct
    name="accounts.update"
    of={account}
    isOn={account.status === "active"}
    what="account"
    needs={write}
    unless={useUnless(account, "suspend")}
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
    unless={useUnless(account, "delete")}
  >
    The account of <code>{account.email}</code> and its sessions are deleted for good. Its actions stay in the audit
    log.
  </ConfirmAct>
)

const Status = ({ of: { invitationExpiresAt, status } }: Of<Account>) => (
  <>
    <Tag tone={status === "active" ? "ok" : "warn"}>{status}</Tag>{" "}
    {invitationExpiresAt === undefined ? null : Date.parse(invitationExpiresAt) > Date.now() ? (
      <Tag title={`The link ends at ${invitationExpiresAt}`}>invited</Tag>
    ) : (
      <Tag tone="warn">link expired</Tag>
    )}
  </>
)

/** People who sign in. */
export default () => (
  <ListPage
    title="Accounts"
    lead="People who sign in here. Their roles say what they may do."
    actions={<Invite />}
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
      { title: "Status", cell: (account) => <Status of={account} /> },
      { title: "Roles", cell: ({ roleNames }) => <Chips texts={roleNames} /> },
      { title: "Tenant", cell: ({ tenantId }) => <TenantName id={tenantId} /> },
      { title: "Last sign-in", sort: "lastSignInAt", cell: ({ lastSignInAt }) => <Moment at={lastSignInAt} /> }
    ]}
    acts={[Renew, Edit, Suspend, Delete]}
  />
)
