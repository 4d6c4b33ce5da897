import { Link } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { TabLinks, useNow } from "../../kit/actions.tsx"
import { count, Moment } from "../../kit/format.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { rangeFilters, useRange } from "../../kit/lists/range.tsx"
import { type Column } from "../../kit/lists/table.tsx"
import { AgentName, CapName, EntityName, Named, PrincipalName } from "../../kit/names/names.tsx"
import { useTenantFilter } from "../../kit/names/tenants.tsx"
import { Page } from "../../kit/page.tsx"
import { Noted, Soft } from "../../kit/parts.tsx"
import { NotAllowed } from "../../kit/states.tsx"
import { useRefusal } from "../../shell/session.tsx"

type Entry = Row<"auditLogs.list">

/** The entries of the audit log about calls that a cap or a plan refused. */
export const refused = { actionType: "SpendRefused", outcome: "denied" } as const

/** When, why and to whom something was refused; an entry counts those of a minute that are alike. */
export const refusalColumns: ReadonlyArray<Column<Entry>> = [
  { title: "When", cell: ({ occurredAt }) => <Moment at={occurredAt} /> },
  {
    title: "Refusals",
    isNumber: true,
    // The repetitions of a minute become an entry of their own when it is over.
    cell: ({ count: times, occurredAt }) =>
      Date.now() - Date.parse(occurredAt) < countedSeconds * 1000 ? <Soft>{count(times)} so far</Soft> : count(times)
  },
  { title: "Requested by", cell: ({ userId }) => <PrincipalName name={userId} /> },
  {
    title: "Why",
    cell: ({ id, reason }) => {
      const [why = "", given] = (reason ?? "").replace(/^.*has no room: (.)/, toStart).split(/ (?=Asked for: )/)
      const [figures, resetsAt] = (given ?? "").split(/; resets: (\S+Z)\.$/)
      const note =
        resetsAt === undefined ? (
          given
        ) : (
          <>
            {figures}; resets <Moment at={resetsAt} style="date" />
          </>
        )
      return <Noted isBelow value={<Link href={`/audit/${id}`}>{why}</Link>} note={note} />
    }
  }
]

/** How long like refusals are counted together, with the time that it takes to write that. */
const countedSeconds = 70

const toStart = (_: string, first: string) => first.toUpperCase()

/** What had no room: a cap, a plan, or an agent's budget for one turn; the reason says which. */
export const refusedBy: Column<Entry> = {
  title: "Refused by",
  cell: ({ entityId, reason }) =>
    entityId === null ? (
      <Soft>no cap</Soft>
    ) : reason?.startsWith("The plan ") === true ? (
      <Named kind="plan" id={entityId} prefix="plan " />
    ) : reason?.startsWith("The call ") === true ? (
      <AgentName id={entityId} />
    ) : (
      <CapName id={entityId} />
    )
}

const hour = 3_600_000

/** How often caps refused something in the last day, and the latest refusals. */
export const useRefusals = (filter: { readonly entityId?: string }) => {
  // From a whole hour on, so that one question is asked for an hour.
  const startDate = new Date((Math.floor(useNow(60) / hour) - 24) * hour).toISOString()
  const query = { ...refused, ...filter, startDate, limit: 200 }
  const { data } = useCall("auditLogs.list", { query }, { everySeconds: 30 })
  const times = data?.items.reduce((sum, entry) => sum + entry.count, 0) ?? 0
  return { latest: data?.items ?? [], times: data?.nextCursor == null ? count(times) : `More than ${count(times)}` }
}

/** The parts of the page of requests. */
export const RequestTabs = () => (
  <TabLinks label="About requests" tabs={{ charged: "Charged", refused: "Refused by a cap" }} />
)

/** Every call, reservation and plan that a cap had no room for. */
export const Refused = () => {
  const chosen = useRange()
  const { from, to } = chosen.range
  const ofTenant = useTenantFilter()
  const refusal = useRefusal()("audit-logs:read")
  if (refusal !== undefined) {
    return (
      <Page title="Requests">
        <RequestTabs />
        <NotAllowed because={refusal} capability="audit-logs:read" />
      </Page>
    )
  }
  const removes = "Remove the filter"
  return (
    <ListPage
      title="Requests"
      lead="Requests that a cap or a plan refused. They cost nothing, and were not sent to a provider."
      above={<RequestTabs />}
      filters={[
        ...rangeFilters(chosen),
        ofTenant,
        { key: "entityId", label: "Cap", nameOf: (id) => <EntityName type="BudgetCap" id={id} isPlain />, removes },
        { key: "userId", label: "Requested by", nameOf: (name) => <PrincipalName name={name} isPlain />, removes }
      ]}
      name="auditLogs.list"
      input={{ query: { ...refused, startDate: from, ...(to === undefined ? {} : { endDate: to }) } }}
      everySeconds={15}
      label="Refused requests"
      empty={[
        "No cap refused anything in this range",
        "A refused call appears here at once; repeated ones are counted by the minute."
      ]}
      columns={[...refusalColumns.slice(0, 1), refusedBy, ...refusalColumns.slice(1)]}
    />
  )
}
