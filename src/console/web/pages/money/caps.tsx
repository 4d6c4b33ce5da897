import { Link } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { Act, type Of, useFirst } from "../../kit/actions.tsx"
import { CapBar } from "../../kit/charts/cap-bar.tsx"
import { count, quantity } from "../../kit/format.tsx"
import { ConfirmAct, SwitchAct } from "../../kit/forms/operation.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { ScopeText, useAgents, useApplications } from "../../kit/names/names.tsx"
import { useTenantFilter } from "../../kit/names/tenants.tsx"
import { Noted, Tag } from "../../kit/parts.tsx"
import { Empty } from "../../kit/states.tsx"
import { EditCap, MakeCap } from "./cap-form.tsx"

export type Cap = Row<"budgetCaps.list">

const shownCounters = 2

export const modes = { hard: "refuses", approval: "asks for approval", soft: "only alerts" } as const

/** The period of a cap in words. */
export const periodText = ({ period, timeZone, windowSeconds }: Cap): string => {
  if (period === "total") return "for all time"
  if (period !== "rolling" || windowSeconds === null) {
    return timeZone === "UTC" ? `each ${period}` : `each ${period}, ${timeZone}`
  }
  const sizes = [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"]
  ] as const
  const size = sizes.find(([seconds]) => windowSeconds % seconds === 0)
  return size === undefined ? `rolling ${windowSeconds} s` : `rolling ${count(windowSeconds / size[0])} ${size[1]}`
}

/** The percentages of what is spent at which a cap alerts. */
export const spentThresholds = ({ alertThresholds }: Cap): ReadonlyArray<number> => {
  const found = alertThresholds.filter(({ measure }) => measure === "spent").map(({ percent }) => percent)
  return found.length === 0 ? [80] : found.filter((percent) => percent <= 100)
}

const Use = ({ cap }: { readonly cap: Cap }) => {
  const query = { capId: cap.id, sort: "-percentUsed", limit: shownCounters + 1 } as const
  const { data } = useCall("budgetCaps.status", { query }, { everySeconds: 30 })
  const href = `/caps/${cap.id}`
  const counters = data?.items ?? []
  if (counters.length === 0) {
    return (
      <div className="cap">
        <div className="row">
          <Link href={href}>
            <b>{cap.name}</b>
          </Link>
          <span className="chip">
            <ScopeText scope={cap.scope} tenantId={cap.tenantId} />
          </span>
          <span className="num">{quantity(cap.limit, cap.unit)} each</span>
        </div>
        <div className="legend">{data === undefined ? "…" : "nothing was spent in this period"}</div>
      </div>
    )
  }
  return (
    <div className="stack">
      {counters.slice(0, shownCounters).map((counter) => (
        <CapBar
          key={JSON.stringify(counter.scope)}
          cap={counter}
          href={href}
          mode={cap.mode}
          thresholds={spentThresholds(cap)}
        />
      ))}
      {counters.length > shownCounters ? <Link href={href}>All counters</Link> : null}
    </div>
  )
}

const write = "budgets:write"
const lead = "A limit per period and scope. A hard cap is never exceeded, however many calls run at once."

/** The order of the caps, which is in the URL. */
const Order = () => {
  const { set, values } = useFilters(["order"])
  return (
    <Choice
      label="Order"
      isRequired
      value={values.order ?? "made"}
      options={{ made: "newest first", use: "most used first" }}
      onChange={(value) => set("order", value === "made" ? "" : value)}
    />
  )
}

/** The counters of all caps, the most used first. */
const CapsByUse = () => (
  <ListPage
    title="Caps"
    lead={lead}
    name="budgetCaps.status"
    filters={[<Order key="order" />, useTenantFilter()]}
    input={{ query: { sort: "-percentUsed" } }}
    everySeconds={30}
    label="Caps by use"
    keyOf={({ capId, scope }) => `${capId} ${JSON.stringify(scope)}`}
    empty={["There is no cap yet", "A cap limits what may be spent in a period."]}
    columns={[
      {
        title: "Name and use",
        isWide: true,
        cell: (counter) => <CapBar cap={counter} href={`/caps/${counter.capId}`} />
      }
    ]}
  />
)

/** Every cap with its use: made, changed, paused and deleted. */
const CapsByCreation = () => {
  useFirst((onClose) => <MakeCap onClose={onClose} />)
  return (
    <ListPage
      title="Caps"
      lead={lead}
      actions={
        <Act kind="main" icon="plus" needs={write} opens={<MakeCap />}>
          Create a cap
        </Act>
      }
      name="budgetCaps.list"
      searches="Name, scope or id"
      order="-createdAt"
      filters={[
        <Order key="order" />,
        { key: "agentId", label: "Agent", options: useAgents() },
        { key: "applicationId", label: "Application", options: useApplications() },
        useTenantFilter()
      ]}
      input={{ query: { limit: 20 } }}
      rowClass={({ status }) => (status === "active" ? undefined : "gone")}
      empty={
        <Empty title="There is no cap yet">
          <p>
            A cap limits what may be spent in a period: by everyone, by one agent or by each, on one model or on all.
          </p>
          <Act kind="main" needs={write} opens={<MakeCap />}>
            Create a cap
          </Act>
        </Empty>
      }
      columns={[
        { title: "Name and use", sort: "name", isWide: true, cell: (cap) => <Use cap={cap} /> },
        {
          title: "Period",
          cell: (cap) => <Noted isBelow value={periodText(cap)} note={`${modes[cap.mode]} when the limit is reached`} />
        },
        { title: "Status", cell: ({ status }) => <Tag tone={status === "active" ? "ok" : ""}>{status}</Tag> }
      ]}
      acts={[EditAct, PauseCap, DeleteCap]}
    />
  )
}

export default function Caps() {
  const { values } = useFilters(["order"])
  return values.order === "use" ? <CapsByUse /> : <CapsByCreation />
}

export const EditAct = ({ of: cap }: Of<Cap>) => (
  <Act needs={write} opens={<EditCap cap={cap} />}>
    Edit
  </Act>
)

export const PauseCap = ({ of: cap }: Of<Cap>) => (
  <SwitchAct
    name="budgetCaps.update"
    of={cap}
    headers={{ "if-match": `"${cap.version}"` }}
    isOn={cap.status === "active"}
    off="Pause"
    on="Resume"
    button=""
    kind="bad"
    body={(isOn) => ({ name: cap.name, limit: cap.limit, status: isOn ? "active" : "paused" })}
    what="cap"
    needs={write}
    meaning={[
      "While it is paused it neither counts nor refuses anything.",
      <>
        It limits <ScopeText scope={cap.scope} tenantId={cap.tenantId} /> to {quantity(cap.limit, cap.unit)} again, and
        counts from now on.
      </>
    ]}
  />
)

export const DeleteCap = ({ of: cap }: Of<Cap>) => (
  <ConfirmAct name="budgetCaps.delete" of={cap} verb="Delete" what="cap" needs={write}>
    The limit of {quantity(cap.limit, cap.unit)} {periodText(cap)} on{" "}
    <ScopeText scope={cap.scope} tenantId={cap.tenantId} /> ends at once, with its raises. Past usage stays in the
    reports.
  </ConfirmAct>
)
