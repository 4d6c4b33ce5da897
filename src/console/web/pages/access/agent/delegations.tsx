import { useState } from "react"
import { type Row } from "../../../api/operations.ts"
import { type Of } from "../../../kit/actions.tsx"
import { Cut, Moment } from "../../../kit/format.tsx"
import { ConfirmAct, formOf } from "../../../kit/forms/operation.tsx"
import { ScopeChips, ScopePicker } from "../../../kit/forms/scopes.tsx"
import { ThingPicker } from "../../../kit/forms/thing-picker.tsx"
import { List } from "../../../kit/lists/list.tsx"
import { Named } from "../../../kit/names/names.tsx"
import { Soft } from "../../../kit/parts.tsx"
import { useCan } from "../../../shell/session.tsx"
import { inactive, type Agent, rowClass, Status, write } from "./status.tsx"

const { Field, Make } = formOf("delegations.create")

/** For whom it acts: an agent or an account by its name, where the caller may read those. */
const Subject = ({ of: agent }: Of<Agent>) => {
  const may = useCan()
  const [type, setType] = useState("agent")
  const list = type === "agent" ? "agents.list" : "accounts.list"
  const isChosen = type !== "external" && may(type === "agent" ? "agents:read" : "accounts:read")
  return (
    <div
      className="stack"
      onChange={({ target }) => {
        if (target instanceof HTMLSelectElement && target.name === "subjectType") setType(target.value)
      }}
    >
      <Field
        label="It acts for"
        name="subjectType"
        options={{ agent: "another agent", user: "an account", external: "a user of an identity provider" }}
      />
      {isChosen ? (
        <ThingPicker
          key={type}
          list={list}
          label={type === "agent" ? "Agent" : "Account"}
          name="subject"
          isLeftOut={(id) => id === agent.id}
        />
      ) : (
        <Field
          label="Subject"
          name="subject"
          hint={type === "external" ? "<issuer>|<sub>" : `The id of the ${type === "agent" ? "agent" : "account"}`}
        />
      )}
    </div>
  )
}

/** Lets an agent act for another subject. */
export const Delegate = ({ of: agent }: Of<Agent>) => (
  <Make
    label="Delegate"
    title={`Let ${agent.name} act for another`}
    action="Create the delegation"
    done="The delegation is created"
    wide
    button=""
    needs={write}
    unless={inactive(agent)}
    input={{ params: { id: agent.id } }}
  >
    <Subject of={agent} />
    <ScopePicker within={agent.scopeCeiling} isRequired />
    <div className="row2">
      <Field label="Reason" name="reason" />
      <Field label="Expires" name="expiresAt" hint="Local time; empty for no end" />
    </div>
  </Make>
)

const Revoke = ({ agent, of }: Of<Row<"delegations.list">> & { readonly agent: Agent }) => (
  <ConfirmAct
    name="delegations.revoke"
    input={{ params: { id: agent.id, grantId: of.id } }}
    verb="Revoke"
    what="delegation"
    needs={write}
    unless={of.status === "active" ? undefined : `The delegation is ${of.status}`}
  >
    {agent.name} can no longer act for <code>{of.subject}</code>, and every token that it got for that ends.
  </ConfirmAct>
)

/** For whom an agent may act. */
export const Delegations = ({ of: agent }: Of<Agent>) => (
  <List
    name="delegations.list"
    input={{ params: { id: agent.id } }}
    label="Delegations"
    order="-createdAt"
    rowClass={rowClass}
    empty={[
      "The agent acts only on its own behalf",
      "A delegation lets it act on behalf of an account or of another agent."
    ]}
    columns={[
      {
        title: "For",
        cell: ({ subject, subjectType }) =>
          subjectType === "external" ? (
            <Cut as="code" text={subject} />
          ) : (
            <Named kind={subjectType === "user" ? "account" : "agent"} id={subject} prefix={`${subjectType} `} />
          )
      },
      { title: "Status", cell: ({ status }) => <Status of={status} /> },
      { title: "Scopes", cell: ({ scopes }) => <ScopeChips scopes={scopes} /> },
      { title: "Reason", cell: ({ reason }) => reason ?? <Soft>none</Soft> },
      { title: "Last used", sort: "lastUsedAt", cell: ({ lastUsedAt }) => <Moment at={lastUsedAt} /> },
      { title: "Expires", cell: ({ expiresAt }) => <Moment at={expiresAt} style="date" /> }
    ]}
    acts={(of) => <Revoke agent={agent} of={of} />}
  />
)
