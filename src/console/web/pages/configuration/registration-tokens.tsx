import { type ReactNode } from "react"
import { type Row } from "../../api/operations.ts"
import { type Of } from "../../kit/actions.tsx"
import { Moment } from "../../kit/format.tsx"
import { ConfirmAct, formOf } from "../../kit/forms/operation.tsx"
import { SecretDialog } from "../../kit/forms/secret.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { PrincipalName } from "../../kit/names/names.tsx"
import { Noted } from "../../kit/parts.tsx"

const write = "applications:write"
const { Field, Make } = formOf("registrationTokens.create")

const Create = () => (
  <Make
    label="Create a token"
    title="Create a registration token"
    action="Create the token"
    needs={write}
    shows={({ expiresAt, token }) => (
      <SecretDialog title="Registration token" what="Token" secret={token}>
        <p>
          An application sends it as <code>Authorization: Bearer …</code> to <code>/api/applications/register</code>. It
          ends <Moment at={expiresAt} />.
        </p>
      </SecretDialog>
    )}
  >
    <p>An application registers with it, and then waits for your approval.</p>
    <div className="row2">
      <Field label="Applications" name="uses" defaultValue={1} required />
      <Field label="Valid for hours" name="expiresInSeconds" unit={3600} defaultValue={24} required />
    </div>
  </Make>
)

const Delete = ({ of }: Of<Row<"registrationTokens.list">>) => (
  <ConfirmAct
    name="registrationTokens.delete"
    of={of}
    verb="Delete"
    what="token"
    title={`Delete the token ${of.id.slice(-12)}`}
    needs={write}
  >
    Applications can no longer register with it. Those already registered stay.
  </ConfirmAct>
)

/** Tokens with which applications register themselves. */
export const RegistrationTokens = ({ above }: { readonly above: ReactNode }) => (
  <ListPage
    title="Applications"
    lead="Each has roles, configuration and keys of its own."
    actions={<Create />}
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
        title: "Created",
        sort: "createdAt",
        cell: ({ createdAt, createdBy }) => (
          <Noted
            value={<Moment at={createdAt} />}
            note={
              <>
                by <PrincipalName name={createdBy} />
              </>
            }
          />
        )
      }
    ]}
    acts={[Delete]}
  />
)
