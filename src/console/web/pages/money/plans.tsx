import { useState } from "react"
import { Link } from "wouter"
import { useChange } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { Act, Confirm, FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, numberOf, textOf, TextField } from "../../kit/forms/form.tsx"
import { Moment, usd } from "../../kit/format.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { AgentName, shortId, useAgents } from "../../kit/names/names.tsx"
import { Empty } from "../../kit/states.tsx"
import { TenantChoice } from "../../kit/names/tenants.tsx"

type Plan = Row<"allPlans.list">

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
      <div
        className="bar"
        role="meter"
        aria-label={`Spend of ${nameOf(plan)}`}
        aria-valuemin={0}
        aria-valuemax={total}
        aria-valuenow={Math.min(spentUsd + reservedUsd, total)}
        aria-valuetext={`${usd(spentUsd)} spent, ${usd(reservedUsd)} reserved, ${usd(remainingUsd)} left`}
      >
        <i style={{ width: share(spentUsd) }} />
        <i className="held" style={{ width: share(reservedUsd) }} />
      </div>
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

interface AboutPlan {
  readonly plan: Plan
  readonly onClose: () => void
}

const Extend = ({ onClose, plan }: AboutPlan) => {
  const { agentId, budgetUsd, id: planId } = plan
  const extend = useChange("plans.extend", "The plan is extended")
  return (
    <Dialog title={`Extend ${nameOf(plan)}`} onClose={onClose}>
      <Form
        cause={extend.error}
        onSubmit={(data) => {
          const reason = textOf(data, "reason")
          extend.mutate(
            {
              params: { agentId, planId },
              body: {
                additionalUsd: numberOf(data, "additionalUsd") ?? 0,
                ...(reason === undefined ? {} : { reason })
              }
            },
            { onSuccess: onClose }
          )
        }}
        actions={<FormActions action="Extend" isPending={extend.isPending} onClose={onClose} />}
      >
        <p>What is added to its {usd(budgetUsd)} is held on every cap that governs the plan, or on none.</p>
        <TextField label="By how much, in US dollars" name="additionalUsd" type="number" min={0} step="any" required />
        <TextField label="Reason" name="reason" maxLength={500} placeholder="More invoices than expected" />
      </Form>
    </Dialog>
  )
}

const endings = {
  complete: [
    "Complete",
    "is completed",
    "gives back what is not spent. It is refused while calls of the plan are open."
  ],
  abort: [
    "Abort",
    "is aborted",
    "gives back what is not spent and releases its open reservations. Calls in flight are still charged."
  ]
} as const

const End = ({ onClose, plan, what }: AboutPlan & { readonly what: keyof typeof endings }) => {
  const [verb, done, text] = endings[what]
  return (
    <Confirm
      name={`plans.${what}`}
      input={{ params: { agentId: plan.agentId, planId: plan.id } }}
      title={`${verb} ${nameOf(plan)}`}
      action={`${verb} the plan`}
      done={`${nameOf(plan)} ${done}`}
      onClose={onClose}
    >
      <p>
        Its {usd(plan.remainingUsd)} can no longer be drawn: this {text} A plan that has ended stays ended.
      </p>
    </Confirm>
  )
}

/** Budgets of agents for a unit of work. */
export default function Plans() {
  const [shown, setShown] = useState<{ readonly what: "extend" | keyof typeof endings; readonly plan: Plan }>()
  const { set, values } = useFilters(["status", "agentId", "tenantId"])
  const agents = useAgents()
  const close = () => setShown(undefined)
  // Those that run are what the page is for; every other status is asked for by its name.
  const { status = "active", ...others } = values
  const query = status === "all" ? others : { ...others, status }
  return (
    <ListPage
      title="Plans"
      lead="Budgets that agents hold for a unit of work and draw on call by call."
      name="allPlans.list"
      searches="Name or id"
      filters={
        <>
          <Choice
            isRequired
            label="Status"
            value={status}
            options={[...statuses, ["all", "any"]]}
            onChange={(value) => set("status", value)}
          />
          <Choice label="Agent" value={values.agentId} options={agents} onChange={(value) => set("agentId", value)} />
          <TenantChoice value={values.tenantId} onChange={(value) => set("tenantId", value)} />
        </>
      }
      input={{ query }}
      everySeconds={15}
      isFiltered={values.agentId !== undefined || values.tenantId !== undefined || values.status !== undefined}
      label="Plans"
      keyOf={({ id }) => id}
      rowClass={({ endedAt }) => (endedAt === null ? undefined : "gone")}
      empty={
        <Empty title="No plan runs">
          <p>An agent starts one before a unit of work, with POST /api/agents/:agentId/plans.</p>
        </Empty>
      }
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
        { title: "Status", cell: (plan) => <span className={`tag ${tones[plan.status]}`}>{plan.status}</span> },
        {
          title: "Began",
          sort: "createdAt",
          cell: ({ createdAt, endedAt, expiresAt }) => (
            <>
              <Moment at={createdAt} />
              <br />
              <small>
                {(endedAt ?? expiresAt) === null ? (
                  "no end is set"
                ) : (
                  <>
                    {endedAt === null ? "ends" : "ended"} <Moment at={endedAt ?? expiresAt} />
                  </>
                )}
              </small>
            </>
          )
        },
        {
          title: "",
          isNumber: true,
          cell: (plan) => {
            const unless = plan.endedAt === null ? undefined : `The plan is ${plan.status}`
            return (
              <span className="acts">
                <Act needs="plans:write" unless={unless} onClick={() => setShown({ what: "extend", plan })}>
                  Extend
                </Act>
                <Act needs="plans:write" unless={unless} onClick={() => setShown({ what: "complete", plan })}>
                  Complete
                </Act>
                <Act needs="plans:write" kind="bad" unless={unless} onClick={() => setShown({ what: "abort", plan })}>
                  Abort
                </Act>
              </span>
            )
          }
        }
      ]}
    >
      {shown?.what === "extend" ? <Extend plan={shown.plan} onClose={close} /> : null}
      {shown !== undefined && shown.what !== "extend" ? (
        <End what={shown.what} plan={shown.plan} onClose={close} />
      ) : null}
    </ListPage>
  )
}
