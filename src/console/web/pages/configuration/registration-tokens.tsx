import { type ReactNode } from "react"
import { type Row } from "../../api/operations.ts"
import { Act } from "../../kit/actions.tsx"
import { useDialogs } from "../../kit/dialog.tsx"
import { Moment } from "../../kit/format.tsx"
import { Confirm, formOf } from "../../kit/forms/operation.tsx"
import { SecretDialog } from "../../kit/forms/secret.tsx"
import { ListPage } from "../../kit/lists/list.tsx"

const write = "applications:write"
const { Dialog, Field } = formOf("registrationTokens.create")

const Create = () => {
  const { open } = useDialogs()
  return (
    <Dialog
      title="Make a registration token"
      action="Make the token"
      onDone={({ expiresAt, token }) =>
        open(
          <SecretDialog title="Registration token" what="Token" secret={token}>
            <p>
              An application sends it as <code>Authorization: Bearer …</code> to <code>/api/applications/register</code>
              . It ends <Moment at={expiresAt} />.
            </p>
          </SecretDialog>
        )
      }
    >
      <p>An application registers with it, and waits for your approval then.</p>
      <div className="row2">
        <Field label="Applications" name="uses" defaultValue={1} required />
        <Field label="Valid for hours" name="expiresInSeconds" unit={3600} defaultValue={24} required />
      </div>
    </Dialog>
  )
}

const Delete = ({ token: { id } }: { readonly token: Row<"registrationTokens.list"> }) => (
  <Confirm
    name="registrationTokens.delete"
    input={{ params: { id } }}
    title={`Delete the token ${id.slice(-12)}`}
    action="Delete the token"
    done="The token is deleted"
  >
    <p>No application registers with it any more. What has registered stays.</p>
  </Confirm>
)

/** Tokens with which applications register themselves. */
export const RegistrationTokens = ({ above }: { readonly above: ReactNode }) => (
  <ListPage
    title="Applications"
    lead="Each has roles, configuration and keys of its own."
    actions={
      <Act kind="main" icon="plus" needs={write} opens={<Create />}>
        Make a token
      </Act>
    }
    above={above}
    name="registrationTokens.list"
    label="Registration tokens"
    rowClass={({ remainingUses }) => (remainingUses === 0 ? "gone" : undefined)}
    empty={[
      "There is no registration token",
      "With one, an application registers itself at /api/applications/register."
    ]}
    columns={[
      { title: "Id", cell: ({ id }) => <code title={id}>{id.slice(-12)}</code> },
      { title: "Left", isNumber: true, cell: ({ remainingUses, uses }) => `${remainingUses} of ${uses}` },
      { title: "Expires", cell: ({ expiresAt }) => <Moment at={expiresAt} /> },
      {
        title: "Made",
        sort: "createdAt",
        cell: ({ createdAt, createdBy }) => (
          <>
            <Moment at={createdAt} /> <small>by {createdBy}</small>
          </>
        )
      }
    ]}
    acts={(token) => (
      <Act kind="bad" needs={write} opens={<Delete token={token} />}>
        Delete
      </Act>
    )}
  />
)
