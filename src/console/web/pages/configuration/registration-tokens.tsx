import { type ReactNode, useState } from "react"
import { useChange } from "../../api/hooks.ts"
import { type Answer, type Row } from "../../api/operations.ts"
import { Act, Confirm, FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, numberOf, TextField } from "../../kit/forms/form.tsx"
import { Moment } from "../../kit/format.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { SecretDialog } from "../../kit/forms/secret.tsx"
import { Empty } from "../../kit/states.tsx"

type Token = Row<"registrationTokens.list">
type NewToken = Answer<"registrationTokens.create">

const write = "applications:write"

const Create = ({ onClose, onMade }: { readonly onClose: () => void; readonly onMade: (token: NewToken) => void }) => {
  const create = useChange("registrationTokens.create")
  return (
    <Dialog title="Make a registration token" onClose={onClose}>
      <Form
        cause={create.error}
        onSubmit={(data) =>
          create.mutate(
            { body: { uses: numberOf(data, "uses") ?? 1, expiresInSeconds: (numberOf(data, "hours") ?? 24) * 3600 } },
            { onSuccess: onMade }
          )
        }
        actions={<FormActions action="Make the token" isPending={create.isPending} onClose={onClose} />}
      >
        <p>An application registers with it, and waits for your approval then.</p>
        <div className="row2">
          <TextField
            label="Applications"
            member="uses"
            name="uses"
            type="number"
            min={1}
            max={10_000}
            defaultValue={1}
            required
          />
          <TextField
            label="Valid for hours"
            member="expiresInSeconds"
            name="hours"
            type="number"
            min={1}
            max={8760}
            defaultValue={24}
            required
          />
        </div>
      </Form>
    </Dialog>
  )
}

type Shown =
  | { readonly what: "create" }
  | { readonly what: "made"; readonly token: NewToken }
  | { readonly what: "delete"; readonly token: Token }

/** Tokens with which applications register themselves. */
export const RegistrationTokens = ({ above }: { readonly above: ReactNode }) => {
  const [shown, show] = useState<Shown>()
  const close = () => show(undefined)
  return (
    <ListPage
      title="Applications"
      lead="Each has roles, configuration and keys of its own."
      actions={
        <Act kind="main" icon="plus" needs={write} onClick={() => show({ what: "create" })}>
          Make a token
        </Act>
      }
      above={above}
      name="registrationTokens.list"
      input={{}}
      label="Registration tokens"
      keyOf={({ id }) => id}
      rowClass={({ remainingUses }) => (remainingUses === 0 ? "gone" : undefined)}
      empty={
        <Empty title="There is no registration token">
          <p>With one, an application registers itself at /api/applications/register.</p>
        </Empty>
      }
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
        },
        {
          title: "",
          isNumber: true,
          cell: (token) => (
            <Act kind="bad" needs={write} onClick={() => show({ what: "delete", token })}>
              Delete
            </Act>
          )
        }
      ]}
    >
      {shown?.what === "create" ? <Create onClose={close} onMade={(token) => show({ what: "made", token })} /> : null}
      {shown?.what === "made" ? (
        <SecretDialog title="Registration token" what="Token" secret={shown.token.token} onClose={close}>
          <p>
            An application sends it as <code>Authorization: Bearer …</code> to <code>/api/applications/register</code>.
            It ends <Moment at={shown.token.expiresAt} />.
          </p>
        </SecretDialog>
      ) : null}
      {shown?.what === "delete" ? (
        <Confirm
          name="registrationTokens.delete"
          input={{ params: { id: shown.token.id } }}
          title={`Delete the token ${shown.token.id.slice(-12)}`}
          action="Delete the token"
          done="The token is deleted"
          onClose={close}
        >
          <p>No application registers with it any more. What has registered stays.</p>
        </Confirm>
      ) : null}
    </ListPage>
  )
}
