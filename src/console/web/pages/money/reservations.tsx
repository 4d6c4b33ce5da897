import { Link } from "wouter"
import { count, Moment, usd } from "../../kit/format.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { AgentName, PrincipalName, shortId, useAgents } from "../../kit/names/names.tsx"
import { Empty } from "../../kit/states.tsx"
import { TenantChoice } from "../../kit/names/tenants.tsx"

const states = ["held", "open", "settled", "released", "denied", "expired"] as const
const tones = { held: "warn", open: "ok", denied: "bad", expired: "", released: "", settled: "" } as const

/** Budget that was reserved for calls, and what became of it. */
export default function Reservations() {
  const { isFiltered, set, values } = useFilters(["state", "agentId", "tenantId", "capId", "planId"])
  const agents = useAgents()
  return (
    <ListPage
      title="Reservations"
      lead="Budget that is reserved for a call before it is made. Settling it charges the actual cost and gives back the rest."
      filters={
        <>
          <Choice label="State" value={values.state} options={states} onChange={(value) => set("state", value)} />
          <Choice label="Agent" value={values.agentId} options={agents} onChange={(value) => set("agentId", value)} />
          <TenantChoice value={values.tenantId} onChange={(value) => set("tenantId", value)} />
          {(["capId", "planId"] as const).map((key) => {
            const value = values[key]
            return value === undefined ? null : (
              <span key={key} className="pill on">
                {key === "capId" ? "Cap" : "Plan"}: {shortId(value)}
                <button
                  type="button"
                  aria-label={`Remove the filter on the ${key === "capId" ? "cap" : "plan"}`}
                  onClick={() => set(key, "")}
                >
                  ×
                </button>
              </span>
            )
          })}
        </>
      }
      name="spend.list"
      searches="Model, task, user, name or id"
      input={{ query: values }}
      everySeconds={15}
      isFiltered={isFiltered}
      label="Reservations"
      keyOf={({ id }) => id}
      empty={
        <Empty title="Nothing was reserved yet">
          <p>The gateway reserves before each call; other programs reserve with POST /api/spend/reserve.</p>
        </Empty>
      }
      columns={[
        { title: "Made", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} /> },
        {
          title: "State",
          cell: ({ late, state }) => <span className={`tag ${tones[state]}`}>{late ? `${state}, late` : state}</span>
        },
        { title: "Reserved", isNumber: true, cell: ({ amountUsd }) => usd(amountUsd) },
        {
          title: "Cost",
          isNumber: true,
          cell: ({ actualUsd }) => (actualUsd === null ? <span className="soft">none</span> : usd(actualUsd))
        },
        { title: "Tokens", isNumber: true, cell: ({ actualTokens, tokens }) => count(actualTokens ?? tokens) },
        { title: "Agent", cell: ({ agentId }) => <AgentName id={agentId} /> },
        { title: "Model", cell: ({ model, provider }) => model ?? provider ?? "any" },
        { title: "Task", cell: ({ taskType }) => taskType },
        {
          title: "Plan",
          cell: ({ agentId, planId }) =>
            planId === null ? null : (
              <Link href={`/plans?agentId=${agentId}`}>
                <code>{shortId(planId)}</code>
              </Link>
            )
        },
        { title: "From", cell: ({ origin }) => origin },
        { title: "By", cell: ({ createdBy }) => <PrincipalName name={createdBy} /> },
        {
          title: "Expires",
          cell: ({ expiresAt, origin, state }) =>
            state !== "open" && state !== "held" ? null : origin === "plan" ? (
              "with its plan"
            ) : (
              <Moment at={expiresAt} />
            )
        },
        {
          title: "Decision",
          cell: ({ decidedBy, decisionReason }) =>
            decidedBy === null ? null : <span title={decidedBy}>{decisionReason ?? "approved"}</span>
        }
      ]}
    />
  )
}
