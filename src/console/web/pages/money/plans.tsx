import { Link } from "wouter"
import { type Row } from "../../api/operations.ts"
import { type Of } from "../../kit/actions.tsx"
import { Meter } from "../../kit/charts/cap-bar.tsx"
import { Moment, usd } from "../../kit/format.tsx"
import { ConfirmAct, formOf } from "../../kit/forms/operation.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { AgentName, shortId, useAgents } from "../../kit/names/names.tsx"
import { useTenantFilter } from "../../kit/names/tenants.tsx"
import { Noted, Tag } from "../../kit/parts.tsx"

type Plan = Row<"allPlans.list">

const write = "plans:write"
const { Act: DialogAct, Field } = formOf("plans.extend")

const statuses = ["active", "suspended", "completed", "aborted", "expired"] as const
const tones = { active: "ok", suspended: "warn", completed: "", aborted: "", expired: "" } as const

const nameOf = ({ id, name }: Plan): string => name ?? shortId(id)

const Spend = ({ plan }: { readonly plan: Plan }) => {
  const { budgetUsd, remainingUsd, reservedUsd, spentUsd } = plan
  const total = Math.max(budgetUsd, spentUsd + reservedUsd, Number.MIN_VALUE)
  const share = (value: number) => `${(100 * value) / total}%`
  const used = spentUsd / total
  return (
    <div className={`cap ${used >= 1 ? "bad" : used >= 0.8 ? "warn" : ""}`}>
      <Meter
        label={`Spend of ${nameOf(plan)}`}
        max={total}
        now={Math.min(spentUsd + reservedUsd, total)}
        text={`${usd(spentUsd)} spent, ${usd(reservedUsd)} reserved, ${usd(remainingUsd)} left`}
      >
        <i style={{ width: share(spentUsd) }} />
        <i className="held" style={{ width: share(reservedUsd) }} />
      </Meter>
      <div className="legend">
        <span>
          {usd(spentUsd)} of {usd(budgetUsd)}
        </span>
        <span>{usd(reservedUsd)} reserved</span>
        <span className="end">{usd(remainingUsd)} left</span>
      </div>
    </div>
  )
}

const endedOf = ({ endedAt, status }: Plan) => (endedAt === null ? undefined : `The plan is ${status}`)

const Extend = ({ of: plan }: Of<Plan>) => (
  <DialogAct
    title={`Extend ${nameOf(plan)}`}
    action="Extend"
    done="The plan is extended"
    needs={write}
    unless={endedOf(plan)}
    input={{ params: { agentId: plan.agentId, planId: plan.id } }}
  >
    <p>The amount added to its {usd(plan.budgetUsd)} is held on every cap that governs the plan, or on none.</p>
    <Field label="Amount in US dollars" name="additionalUsd" />
    <Field label="Reason" name="reason" placeholder="More invoices than expected" />
  </DialogAct>
)

const endings = {
  Complete: ["plans.complete", "gives back what is not spent. It is refused while calls of the plan are open."],
  Abort: [
    "plans.abort",
    "gives back what is not spent and releases its open reservations. Calls in flight are still charged."
  ]
} as const

const End = ({ of: plan, verb }: Of<Plan> & { readonly verb: keyof typeof endings }) => (
  <ConfirmAct
    name={endings[verb][0]}
    input={{ params: { agentId: plan.agentId, planId: plan.id } }}
    verb={verb}
    what="plan"
    called={nameOf(plan)}
    button={verb === "Abort" ? "bad" : ""}
    needs={write}
    unless={endedOf(plan)}
  >
    Its {usd(plan.remainingUsd)} can no longer be spent: this {endings[verb][1]} A plan that has ended stays ended.
  </ConfirmAct>
)

/** Budgets of agents for a unit of work. */
export default () => (
  <ListPage
    title="Plans"
    lead="Budgets that agents hold for a unit of work and draw on call by call."
    name="allPlans.list"
    searches="Name or id"
    filters={[
      // Those that run are what the page is for; every other status is asked for by its name.
      { key: "status", label: "Status", initial: "active", options: [...statuses, ["all", "any"]] },
      { key: "agentId", label: "Agent", options: useAgents() },
      useTenantFilter()
    ]}
    everySeconds={15}
    rowClass={({ endedAt }) => (endedAt === null ? undefined : "gone")}
    empty={["No plan runs", "An agent starts one before a unit of work, with POST /api/agents/:agentId/plans."]}
    columns={[
      {
        title: "Plan",
        cell: (plan) => (
          <div className="wrap">
            <Link href={`/reservations?planId=${plan.id}`}>
              <strong>{nameOf(plan)}</strong>
            </Link>{" "}
            {plan.taskType === null ? null : <span className="chip">{plan.taskType}</span>}
            <br />
            <small>
              <AgentName id={plan.agentId} />
            </small>
          </div>
        )
      },
      { title: "Spend", isWide: true, cell: (plan) => <Spend plan={plan} /> },
      { title: "Status", cell: ({ status }) => <Tag tone={tones[status]}>{status}</Tag> },
      {
        title: "Started",
        sort: "createdAt",
        cell: ({ createdAt, endedAt, expiresAt }) => (
          <Noted
            isBelow
            value={<Moment at={createdAt} />}
            note={
              (endedAt ?? expiresAt) === null ? (
                "no end set"
              ) : (
                <>
                  {endedAt === null ? "ends" : "ended"} <Moment at={endedAt ?? expiresAt} />
                </>
              )
            }
          />
        )
      }
    ]}
    acts={(plan) => (
      <>
        <Extend of={plan} />
        <End verb="Complete" of={plan} />
        <End verb="Abort" of={plan} />
      </>
    )}
  />
)
