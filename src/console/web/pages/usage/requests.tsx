import { useSearchParams } from "wouter"
import { ButtonLink, Download } from "../../kit/actions.tsx"
import { count, milliseconds, Moment, usd, words } from "../../kit/format.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { RangeChoice, useRange } from "../../kit/lists/range.tsx"
import { AgentName, PrincipalName } from "../../kit/names/names.tsx"
import { Soft, Tag } from "../../kit/parts.tsx"
import { Empty } from "../../kit/states.tsx"
import { Refused, RequestTabs } from "./refusals.tsx"
import { useUsageFilters } from "./usage-filters.tsx"

const Status = ({ status }: { readonly status: number | null }) =>
  status === null ? <Soft>none</Soft> : <Tag tone={status < 400 ? "ok" : status < 500 ? "warn" : "bad"}>{status}</Tag>

/** Every request that was charged. */
const Charged = () => {
  const chosen = useRange()
  const { filters, query } = useUsageFilters()
  const exported = { query: { ...query, ...chosen.range, format: "csv" } }
  return (
    <ListPage
      title="Requests"
      lead="Every gateway call that was sent, and every reservation that was reconciled."
      above={<RequestTabs />}
      actions={<Download name="usage.export" input={exported} text="Export CSV" to="usage.csv" />}
      filters={[<RangeChoice key="range" {...chosen} />, ...filters]}
      name="usage.list"
      searches="Model, task, user, name or id"
      input={{ query: chosen.range }}
      empty={
        <Empty title="Nothing was charged in this range">
          <p>Calls through the gateway appear here a few seconds after they end.</p>
          <ButtonLink href="/try">Try a model</ButtonLink>
        </Empty>
      }
      columns={[
        { title: "When", cell: ({ occurredAt }) => <Moment at={occurredAt} /> },
        {
          title: "Model",
          cell: ({ model, modelServed }) => (
            <span title={modelServed === null ? undefined : `Served by ${modelServed}`}>{model ?? "none"}</span>
          )
        },
        { title: "Provider", cell: ({ provider }) => provider },
        { title: "Agent", cell: ({ agentId }) => <AgentName id={agentId} /> },
        { title: "Task", cell: ({ taskType }) => taskType },
        { title: "Status", cell: ({ status }) => <Status status={status} /> },
        { title: "Cost", isNumber: true, cell: ({ costUsd }) => usd(costUsd) },
        {
          title: "Input",
          isNumber: true,
          cell: ({ cachedInputTokens, inputTokens }) => (
            <span title={`${count(cachedInputTokens ?? 0)} of them from the cache`}>{count(inputTokens)}</span>
          )
        },
        { title: "Output", isNumber: true, cell: ({ outputTokens }) => count(outputTokens) },
        {
          title: "Latency",
          isNumber: true,
          cell: ({ latencyMs, timeToFirstTokenMs: first }) => (
            <span title={first === null ? undefined : `First token after ${milliseconds(first)}`}>
              {milliseconds(latencyMs)}
            </span>
          )
        },
        { title: "Counted by", cell: ({ method }) => words(method) },
        { title: "User", cell: ({ userId }) => userId },
        { title: "By", cell: ({ createdBy }) => <PrincipalName name={createdBy} /> }
      ]}
    />
  )
}

/** What was asked of models: what was charged, and what a cap refused. */
export default function Requests() {
  const [search] = useSearchParams()
  return search.get("tab") === "refused" ? <Refused /> : <Charged />
}
