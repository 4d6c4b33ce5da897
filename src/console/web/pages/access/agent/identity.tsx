import { type Of } from "../../../kit/actions.tsx"
import { count, Moment, usd } from "../../../kit/format.tsx"
import { ConfirmAct, formOf, SwitchAct } from "../../../kit/forms/operation.tsx"
import { Chips, ScopePicker } from "../../../kit/forms/scopes.tsx"
import { PrincipalName } from "../../../kit/names/names.tsx"
import { TenantName } from "../../../kit/names/tenants.tsx"
import { Card, Facts, orNone, Soft } from "../../../kit/parts.tsx"
import { CapsCard, SpendCard } from "../spend.tsx"
import { type Agent, write } from "./status.tsx"

const { Change, Field } = formOf("agents.update")

const retired = ({ status }: Agent) => (status === "retired" ? "The agent is retired" : undefined)

export const Edit = ({ of: agent }: Of<Agent>) => (
  <Change of={agent} wide needs={write} unless={retired(agent)}>
    <div className="row2">
      <Field label="Name" name="name" />
      <Field label="Owner" name="ownerUserId" />
    </div>
    <Field label="Description" name="description" />
    <ScopePicker name="scopeCeiling" label="Scope ceiling" initial={agent.scopeCeiling} />
    <div className="row2">
      <Field label="Maximum token lifetime in seconds" name="maxCredentialTtlSeconds" />
      <Field label="Maximum reservation per call, in US dollars" name="perTurnBudget" placeholder="no limit" />
    </div>
    <div className="row2">
      <Field label="Task types" name="allowedTaskTypes" hint="Comma-separated; empty for any" />
      <Field label="Default task type" name="defaultTaskType" />
    </div>
  </Change>
)

export const Suspend = ({ of: agent }: Of<Agent>) => (
  <SwitchAct
    name="agents.update"
    of={agent}
    isOn={agent.status !== "suspended"}
    what="agent"
    needs={write}
    unless={retired(agent)}
    meaning={[
      "Every token of the agent is refused at once, and it gets no new one, until it is activated again.",
      "Its tokens that have not ended are accepted again, and it gets new ones."
    ]}
  />
)

export const Retire = ({ of: agent }: Of<Agent>) => (
  <ConfirmAct name="agents.retire" of={agent} verb="Retire" what="agent" needs={write} unless={retired(agent)}>
    The agent, its keys, its delegations and all its tokens end for good. Its actions stay in the audit log, and its
    name can be used again.
  </ConfirmAct>
)

/** Who an agent is, and what it may spend. */
export const Identity = ({ of: agent }: Of<Agent>) => (
  <>
    <div className="grid">
      <SpendCard filter={{ agentId: agent.id }} />
      <CapsCard
        of={{ agentId: agent.id, name: agent.name, tenantId: agent.tenantId }}
        subject={{ agentId: agent.id }}
      />
    </div>
    <Card title="Identity">
      <Facts
        className="facts in"
        facts={[
          ["Id", <code>{agent.id}</code>],
          ["Owner", orNone(agent.ownerUserId, String)],
          ["Tenant", <TenantName id={agent.tenantId} />],
          ["Description", orNone(agent.description, String)],
          ["Scope ceiling", <Chips none="nothing" texts={agent.scopeCeiling} />],
          ["Maximum token lifetime", `${count(agent.maxCredentialTtlSeconds / 60)} minutes`],
          [
            "Maximum reservation per call",
            agent.perTurnBudget === null ? <Soft>as much as its caps allow</Soft> : usd(agent.perTurnBudget)
          ],
          [
            "Task types",
            <>
              {agent.allowedTaskTypes.length === 0 ? <Soft>any</Soft> : agent.allowedTaskTypes.join(", ")}
              {agent.defaultTaskType === null ? null : <small> ({agent.defaultTaskType} by default)</small>}
            </>
          ],
          ["Last seen", <Moment at={agent.lastSeenAt} />],
          [
            "Registered",
            <>
              <Moment at={agent.createdAt} style="full" /> by <PrincipalName name={agent.createdBy} />
            </>
          ],
          agent.expiresAt === null ? null : ["Ends", <Moment at={agent.expiresAt} style="full" />]
        ]}
      />
    </Card>
  </>
)
