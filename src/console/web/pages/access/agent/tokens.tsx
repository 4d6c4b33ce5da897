import { type Answer, type Row } from "../../../api/operations.ts"
import { Act } from "../../../kit/actions.tsx"
import { useDialogs } from "../../../kit/dialog.tsx"
import { Moment } from "../../../kit/format.tsx"
import { Confirm, formOf } from "../../../kit/forms/operation.tsx"
import { ScopeChips, ScopePicker } from "../../../kit/forms/scopes.tsx"
import { SecretDialog } from "../../../kit/forms/secret.tsx"
import { List } from "../../../kit/lists/list.tsx"
import { type OfAgent, rowClass, Status, write } from "./status.tsx"

const { Dialog, Field } = formOf("agentCredentials.issue")

const Issued = ({ agent, token }: OfAgent & { readonly token: Answer<"agentCredentials.issue"> }) => (
  <SecretDialog title={`Token of ${agent.name}`} what="Token" secret={token.accessToken}>
    <p>
      It ends <Moment at={token.expiresAt} />. Send it as <code>Authorization: Bearer …</code>.
    </p>
  </SecretDialog>
)

/** Issues a token to hand on. */
export const IssueToken = ({ agent }: OfAgent) => {
  const { open } = useDialogs()
  const minutes = agent.maxCredentialTtlSeconds / 60
  return (
    <Dialog
      title={`Issue a token for ${agent.name}`}
      action="Issue the token"
      wide
      input={{ params: { id: agent.id } }}
      onDone={(token) => open(<Issued agent={agent} token={token} />)}
    >
      <p>For an agent without a key of its own. The holder of the token acts as the agent until it ends.</p>
      <Field
        label="Life in minutes"
        name="ttlSeconds"
        unit={60}
        min={1}
        max={minutes}
        defaultValue={minutes}
        required
      />
      <ScopePicker name="requestedScopes" initial={agent.scopeCeiling} />
    </Dialog>
  )
}

const Revoke = ({ token: { id } }: { readonly token: Row<"agentCredentials.list"> }) => (
  <Confirm
    name="agentCredentials.revoke"
    input={{ params: { credentialId: id } }}
    title={`Revoke the token ${id.slice(-12)}`}
    action="Revoke the token"
    done="The token is revoked"
  >
    <p>It is refused at once, and so is everything that was exchanged from it.</p>
  </Confirm>
)

/** The tokens that an agent has and had. */
export const Tokens = ({ agent }: OfAgent) => (
  <List
    name="agentCredentials.list"
    input={{ params: { id: agent.id } }}
    label="Tokens"
    rowClass={rowClass}
    empty={["No token was issued yet", "The agent gets them with its key, or you issue one here."]}
    columns={[
      { title: "Id", cell: ({ id }) => <code title={id}>{id.slice(-12)}</code> },
      { title: "Status", cell: ({ status }) => <Status of={status} /> },
      { title: "Subject", cell: ({ subject }) => <code title={subject}>{subject.replace(agent.id, "itself")}</code> },
      { title: "Scopes", cell: ({ scopes }) => <ScopeChips scopes={scopes} /> },
      {
        title: "Issued",
        cell: ({ issuedAt, issuedBy, keyId }) => (
          <>
            <Moment at={issuedAt} /> <small>{keyId === null ? `by ${issuedBy}` : "with a key"}</small>
          </>
        )
      },
      { title: "Ends", cell: ({ expiresAt }) => <Moment at={expiresAt} /> }
    ]}
    acts={(token) => (
      <Act
        kind="bad"
        needs={write}
        unless={token.status === "active" ? undefined : `The token is ${token.status}`}
        opens={<Revoke token={token} />}
      >
        Revoke
      </Act>
    )}
  />
)
