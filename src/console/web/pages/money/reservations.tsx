import { Link } from "wouter"
import { count, Moment, usd } from "../../kit/format.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { AgentName, PrincipalName, shortId, useAgents } from "../../kit/names/names.tsx"
import { useTenantFilter } from "../../kit/names/tenants.tsx"
import { Noted, orNone, Tag } from "../../kit/parts.tsx"

const states = ["held", "open", "settled", "released", "denied", "expired"] as const
const tones = { held: "warn", open: "ok", denied: "bad", expired: "", released: "", settled: "" } as const

/** Budget that was reserved for calls, and what became of it. */
export default () => (
  <ListPage
    title="Reservations"
    lead="Budget that is reserved for a call before it is made. Settling it charges the actual cost and gives back the rest."
    filters={[
      { key: "state", label: "State", options: states },
      { key: "agentId", label: "Agent", options: useAgents() },
      useTenantFilter(),
      { key: "capId", label: "Cap", nameOf: shortId, removes: "Remove the filter on the cap" },
      { key: "planId", label: "Plan", nameOf: shortId, removes: "Remove the filter on the plan" }
    ]}
    name="spend.list"
    searches="Model, task, user, name or id"
    everySeconds={15}
    empty={[
      "Nothing was reserved yet",
      "The gateway reserves before each call; other programs reserve with POST /api/spend/reserve."
    ]}
    columns={[
      { title: "Made", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} /> },
      {
        title: "State",
        cell: ({ late, state }) => <Tag tone={tones[state]}>{late ? `${state}, late` : state}</Tag>
      },
      { title: "Reserved", isNumber: true, cell: ({ amountUsd }) => usd(amountUsd) },
      { title: "Cost", isNumber: true, cell: ({ actualUsd }) => orNone(actualUsd, usd) },
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
          state !== "open" && state !== "held" ? null : origin === "plan" ? "with its plan" : <Moment at={expiresAt} />
      },
      {
        title: "Decision",
        cell: ({ decidedBy, decisionReason }) =>
          decidedBy === null ? null : (
            <Noted value={decisionReason ?? "approved"} note={<PrincipalName name={decidedBy} />} />
          )
      }
    ]}
  />
)
