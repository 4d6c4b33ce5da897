import { Link } from "wouter"
import { count, Moment, Usd } from "../../kit/format.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { AgentName, Named, PrincipalName, shortId, useAgents } from "../../kit/names/names.tsx"
import { useTenantFilter } from "../../kit/names/tenants.tsx"
import { Noted, orNone, Tag } from "../../kit/parts.tsx"

const states = ["held", "open", "settled", "released", "denied", "expired"] as const
const tones = { held: "warn", open: "ok", denied: "bad", expired: "", released: "", settled: "" } as const

/** Budget that was reserved for calls, and what became of it. */
export default () => (
  <ListPage
    title="Reservations"
    lead="Budget that is reserved for a call before it is made. Settling it charges the actual cost and releases the rest."
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
      { title: "Created", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} /> },
      {
        title: "State",
        cell: ({ decidedBy, decisionReason, late, state }) => (
          <Noted
            value={<Tag tone={tones[state]}>{late ? `${state}, late` : state}</Tag>}
            note={decidedBy === null ? null : <span title={decidedBy}>{decisionReason ?? "approved"}</span>}
          />
        )
      },
      {
        title: "Who",
        cell: ({ agentId, createdBy, origin, planId }) => (
          <Noted
            isBelow
            value={agentId === null ? <PrincipalName name={createdBy} /> : <AgentName id={agentId} />}
            note={
              planId === null ? (
                origin === "api" ? (
                  "over the API"
                ) : null
              ) : (
                <Link href={`/plans?agentId=${agentId}`}>
                  <Named kind="plan" id={planId} isPlain prefix="plan " />
                </Link>
              )
            }
          />
        )
      },
      {
        title: "For",
        cell: ({ model, provider, taskType }) => <Noted value={model ?? provider ?? "any model"} note={taskType} />
      },
      {
        title: "Reserved",
        isNumber: true,
        cell: ({ amountUsd, origin, tokens }) => (
          <Noted
            value={
              <span title={`${count(tokens)} tokens`}>
                <Usd amount={amountUsd} />
              </span>
            }
            // What its calls have spent of it is no longer reserved.
            note={origin === "plan" ? "budget of the plan" : null}
          />
        )
      },
      {
        title: "Cost",
        isNumber: true,
        cell: ({ actualTokens, actualUsd, id }) =>
          orNone(actualUsd, (cost) => (
            <Link href={`/requests/${id}`} title={`${count(actualTokens ?? 0)} tokens`}>
              <Usd amount={cost} />
            </Link>
          ))
      },
      {
        title: "Expires",
        cell: ({ expiresAt, origin, state }) =>
          state !== "open" && state !== "held" ? null : origin === "plan" ? "with its plan" : <Moment at={expiresAt} />
      }
    ]}
  />
)
