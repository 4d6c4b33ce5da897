import { useCall } from "../../../api/hooks.ts"
import { type Of } from "../../../kit/actions.tsx"
import { count, Moment, usd } from "../../../kit/format.tsx"
import { ConfirmAct, formOf, SwitchAct } from "../../../kit/forms/operation.tsx"
import { Chips, ScopePicker } from "../../../kit/forms/scopes.tsx"
import { lastDays } from "../../../kit/lists/range.tsx"
import { PrincipalName } from "../../../kit/names/names.tsx"
import { TenantName } from "../../../kit/names/tenants.tsx"
import { Answered, Card, Facts, orNone, Soft } from "../../../kit/parts.tsx"
import { useCan } from "../../../shell/session.tsx"
import { CapFor } from "../../money/cap-form.tsx"
import { CapsThatApply } from "../../money/caps-that-apply.tsx"
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

const Spend = ({ of: { id, name, tenantId } }: Of<Agent>) => {
  const may = useCan()
  const overview = useCall(
    "insights.overview",
    { query: { agentId: id, ...lastDays() } },
    { enabled: may("insights:read") }
  )
  return (
    <Card title="Budget" link={[`/usage?agentId=${id}`, "Open usage"]}>
      <div className="in stack">
        {may("insights:read") ? (
          <Answered asked={overview} rows={1}>
            {({ totals }) => (
              <p>
                <strong>{usd(totals.costUsd)}</strong> <Soft>in 30 days with {count(totals.requests)} requests</Soft>
              </p>
            )}
          </Answered>
        ) : (
          <p className="soft">
            Showing its spend requires the capability <code>insights:read</code>.
          </p>
        )}
        <CapsThatApply of={{ agentId: id }} />
        <div>
          <CapFor of={{ agentId: id, name, tenantId }} />
        </div>
      </div>
    </Card>
  )
}

/** Who an agent is, and what it may spend. */
export const Identity = ({ of: agent }: Of<Agent>) => (
  <div className="grid">
    <Card title="Identity" span={8}>
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
    <div className="span-4">
      <Spend of={agent} />
    </div>
  </div>
)
