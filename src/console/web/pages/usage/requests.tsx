import { useEffect } from "react"
import { Link, useParams, useSearchParams } from "wouter"
import { type Row } from "../../api/operations.ts"
import { ButtonLink, Download } from "../../kit/actions.tsx"
import { count, milliseconds, Moment, Usd } from "../../kit/format.tsx"
import { type Filter, withMembers } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { rangeFilters, useRange } from "../../kit/lists/range.tsx"
import { AgentName, PrincipalName } from "../../kit/names/names.tsx"
import { Empty } from "../../kit/states.tsx"
import { Refused, RequestTabs } from "./refusals.tsx"
import { OneRequest, RequestPanel, Status } from "./request.tsx"
import { useUsageFilters } from "./usage-filters.tsx"

const statuses = [200, 400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 499, 500, 502, 503, 504, 529].map(String)

/** The filters on how requests ended, and what they took. */
const outcomes: ReadonlyArray<Filter> = [
  { key: "failed", label: "Failed", options: { true: "yes", false: "no" } },
  { key: "status", label: "Status", options: statuses, isExtra: true },
  {
    key: "minCostUsd",
    label: "Cost",
    options: { 0.01: "$0.01 or more", 0.1: "$0.10 or more", 1: "$1.00 or more", 10: "$10.00 or more" },
    isExtra: true,
    nameOf: (least) => `$${least} or more`
  },
  {
    key: "minLatencyMs",
    label: "Latency",
    options: { 1000: "1 s or more", 5000: "5 s or more", 20_000: "20 s or more", 60_000: "60 s or more" },
    isExtra: true,
    nameOf: (least) => `${least} ms or more`
  }
]

/** Tokens that were read and written. */
const Tokens = ({ of }: { readonly of: Row<"usage.list"> }) => {
  const { cachedInputTokens, inputTokens, outputTokens } = of
  if (inputTokens === null && outputTokens === null) return null
  return (
    <span
      title={`${count(inputTokens ?? 0)} read, ${count(cachedInputTokens ?? 0)} of them from the cache; ${count(outputTokens ?? 0)} written`}
    >
      {count(inputTokens ?? 0)} → {count(outputTokens ?? 0)}
    </span>
  )
}

/** Every request that was charged; beside it the one that its address names. */
const Charged = ({ id }: { readonly id: string | undefined }) => {
  const [search] = useSearchParams()
  const chosen = useRange()
  const { filters, query } = useUsageFilters(outcomes)
  const exported = { query: { ...query, ...chosen.range, format: "csv" } }
  const searched = search.get("search")
  useEffect(() => {
    const closed: unknown = history.state?.of
    if (typeof closed === "string") document.querySelector<HTMLElement>(`a[href*="${CSS.escape(closed)}"]`)?.focus()
  }, [])
  return (
    <>
      <ListPage
        title="Requests"
        lead="Every call that the gateway sent, and every reservation that was reconciled."
        above={<RequestTabs />}
        actions={
          <Download
            name="usage.export"
            input={exported}
            text="Export CSV"
            title="Each request with what it was charged, as CSV; refunds are in the billing report"
          />
        }
        filters={[...rangeFilters(chosen), ...filters]}
        name="usage.list"
        searches="Model, task, user, name or id"
        input={{ query: chosen.range }}
        hasRowKeys={id === undefined}
        rowClass={(row) => (row.id === id ? "chosen" : undefined)}
        empty={
          <Empty title="Nothing was charged in this range">
            <p>Calls through the gateway appear here a few seconds after they end.</p>
            <ButtonLink href="/try">Try a model</ButtonLink>
          </Empty>
        }
        columns={[
          {
            title: "When",
            cell: ({ id, occurredAt }) => (
              <Link className="name" href={`/requests/${id}?${withMembers(search, { panel: "1" })}`}>
                <Moment at={occurredAt} />
              </Link>
            )
          },
          {
            title: "Who",
            cell: ({ agentId, createdBy }) =>
              agentId === null ? <PrincipalName name={createdBy} /> : <AgentName id={agentId} />
          },
          {
            title: "Model",
            cell: ({ model, modelServed, provider }) => (
              <span title={[provider, modelServed].filter((name) => name !== null).join(", ")}>{model ?? "none"}</span>
            )
          },
          { title: "Status", cell: (row) => <Status of={row} /> },
          { title: "Tokens", isNumber: true, cell: (row) => <Tokens of={row} /> },
          { title: "Cost", isNumber: true, cell: ({ costUsd }) => <Usd amount={costUsd} /> },
          {
            title: "Latency",
            isNumber: true,
            cell: ({ latencyMs, timeToFirstTokenMs: first }) => (
              <span title={first === null ? undefined : `First token after ${milliseconds(first)}`}>
                {milliseconds(latencyMs)}
              </span>
            )
          }
        ]}
      />
      {id === undefined ? null : (
        <RequestPanel id={id} query={searched === null ? query : { ...query, search: searched }} range={chosen.range} />
      )}
    </>
  )
}

/** What was requested of models: what was charged, and what a cap refused; and each request that was charged, at its own address. */
export default function Requests() {
  const [search] = useSearchParams()
  const { id } = useParams()
  if (id !== undefined && !search.has("panel")) return <OneRequest id={id} />
  return id === undefined && search.get("tab") === "refused" ? <Refused /> : <Charged id={id} />
}
