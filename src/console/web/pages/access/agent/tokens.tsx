import { type Answer, type Row } from "../../../api/operations.ts"
import { type Of } from "../../../kit/actions.tsx"
import { Moment } from "../../../kit/format.tsx"
import { ConfirmAct, formOf } from "../../../kit/forms/operation.tsx"
import { ScopeChips, ScopePicker } from "../../../kit/forms/scopes.tsx"
import { SecretDialog } from "../../../kit/forms/secret.tsx"
import { List } from "../../../kit/lists/list.tsx"
import { PrincipalName } from "../../../kit/names/names.tsx"
import { Noted } from "../../../kit/parts.tsx"
import { inactive, type Agent, rowClass, Status, write } from "./status.tsx"

const { Field, Make } = formOf("agentCredentials.issue")

const Issued = ({ of: agent, token }: Of<Agent> & { readonly token: Answer<"agentCredentials.issue"> }) => (
  <SecretDialog title={`Token of ${agent.name}`} what="Token" secret={token.accessToken}>
    <p>
      It ends <Moment at={token.expiresAt} />. Send it as <code>Authorization: Bearer …</code>.
    </p>
  </SecretDialog>
)

/** Issues a token to hand on. */
export const IssueToken = ({ of: agent }: Of<Agent>) => {
  const minutes = agent.maxCredentialTtlSeconds / 60
  return (
    <Make
      label="Issue a token"
      title={`Issue a token for ${agent.name}`}
      action="Issue the token"
      wide
      button=""
      needs={write}
      unless={inactive(agent)}
      input={{ params: { id: agent.id } }}
      shows={(token) => <Issued of={agent} token={token} />}
    >
      <p>For an agent without a key of its own. The holder of the token acts as the agent until it ends.</p>
      <Field
        label="Lifetime in minutes"
        name="ttlSeconds"
        unit={60}
        min={1}
        max={minutes}
        defaultValue={minutes}
        required
      />
      <ScopePicker name="requestedScopes" initial={agent.scopeCeiling} within={agent.scopeCeiling} isRequired />
    </Make>
  )
}

const Revoke = ({ of: { id, status } }: Of<Row<"agentCredentials.list">>) => (
  <ConfirmAct
    name="agentCredentials.revoke"
    input={{ params: { credentialId: id } }}
    verb="Revoke"
    what="token"
    title={`Revoke the token ${id.slice(-12)}`}
    needs={write}
    unless={status === "active" ? undefined : `The token is ${status}`}
  >
    It is refused at once, and so are all tokens that were exchanged for it.
  </ConfirmAct>
)

/** The tokens that an agent has and had. */
export const Tokens = ({ of: agent }: Of<Agent>) => (
  <List
    name="agentCredentials.list"
    input={{ params: { id: agent.id } }}
    label="Tokens"
    rowClass={rowClass}
    empty={["No token was issued yet", "The agent gets them with its key, or you issue one here."]}
    columns={[
      { title: "Id", cell: ({ id }) => <code title={id}>{id.slice(-12)}</code> },
      { title: "Status", cell: ({ status }) => <Status of={status} /> },
      {
        title: "Subject",
        cell: ({ subject }) => (subject === `agent:${agent.id}` ? "itself" : <PrincipalName name={subject} />)
      },
      { title: "Scopes", cell: ({ scopes }) => <ScopeChips scopes={scopes} /> },
      {
        title: "Issued",
        cell: ({ issuedAt, issuedBy, keyId }) => (
          <Noted
            value={<Moment at={issuedAt} />}
            note={
              keyId === null ? (
                <>
                  by <PrincipalName name={issuedBy} />
                </>
              ) : (
                "with a key"
              )
            }
          />
        )
      },
      { title: "Ends", cell: ({ expiresAt }) => <Moment at={expiresAt} /> }
    ]}
    acts={[Revoke]}
  />
)
