import { Redirect, useParams } from "wouter"
import { Failure } from "../../api/client.ts"
import { useCall } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { CopyCurl, type Of } from "../../kit/actions.tsx"
import { CapBar } from "../../kit/charts/cap-bar.tsx"
import { Moment, percent, quantity } from "../../kit/format.tsx"
import { ConfirmAct, formOf } from "../../kit/forms/operation.tsx"
import { List } from "../../kit/lists/list.tsx"
import { Table } from "../../kit/lists/table.tsx"
import { PrincipalName, ScopeText } from "../../kit/names/names.tsx"
import { Called, Card, DetailPage, Tag } from "../../kit/parts.tsx"
import { Empty } from "../../kit/states.tsx"
import { useCan } from "../../shell/session.tsx"
import { refusalColumns, useRefusals } from "../usage/refusals.tsx"
import { type Cap, DeleteCap, EditAct, modes, PauseCap, periodText, spentThresholds } from "./caps.tsx"

type Grant = Row<"budgetCaps.listGrants">

const write = "budgets:write"
const raise = formOf("budgetCaps.createGrant")

const Raise = ({ of: cap }: Of<Cap>) => (
  <raise.Act
    title={`Raise ${cap.name}`}
    action="Raise"
    done="The cap is raised"
    needs={write}
    input={{ params: { id: cap.id } }}
  >
    <p>A raise is added to the limit of {quantity(cap.limit, cap.unit)} until it expires or is ended.</p>
    <raise.Field label={`By how much, in ${cap.unit === "usd" ? "US dollars" : cap.unit}`} name="amount" />
    <raise.Field label="Reason" name="reason" placeholder="Month-end close" />
    <raise.Field label="Expires" name="expiresAt" hint="Local time; empty for one that lasts until it is ended" />
  </raise.Act>
)

const isOver = ({ endedAt, expiresAt }: Grant) =>
  endedAt !== null || (expiresAt !== null && Date.parse(expiresAt) <= Date.now())

const EndRaise = ({ cap, of: grant }: Of<Grant> & { readonly cap: Cap }) => (
  <ConfirmAct
    name="budgetCaps.endGrant"
    input={{ params: { id: cap.id, grantId: grant.id } }}
    verb="End"
    what="raise"
    title={`End a raise of ${cap.name}`}
    needs={write}
    unless={isOver(grant) ? "It is over" : undefined}
  >
    {quantity(grant.amount, cap.unit)}, granted for “{grant.reason}”, are no longer part of the limit. What is already
    spent stays spent.
  </ConfirmAct>
)

const Counters = ({ of: cap }: Of<Cap>) => (
  <Card title="Use in this period">
    <div className="in stack">
      <Called name="budgetCaps.status" input={{ query: { capId: cap.id, limit: 100 } }} everySeconds={15}>
        {({ items, nextCursor }) =>
          items.length === 0 ? (
            <Empty title="Nothing was spent under it in this period" />
          ) : (
            <>
              {items.map((counter) => (
                <CapBar
                  key={JSON.stringify(counter.scope)}
                  cap={counter}
                  mode={cap.mode}
                  thresholds={spentThresholds(cap)}
                />
              ))}
              {nextCursor === null ? null : <small>The first 100 counters are shown.</small>}
            </>
          )
        }
      </Called>
    </div>
  </Card>
)

const Grants = ({ of: cap }: Of<Cap>) => (
  <Card title="Raises">
    <Called name="budgetCaps.listGrants" input={{ params: { id: cap.id }, query: { limit: 50 } }}>
      {({ items }) => (
        <Table
          label="Raises"
          rows={items}
          empty="It was never raised"
          rowClass={(grant) => (isOver(grant) ? "gone" : undefined)}
          columns={[
            { title: "By", isNumber: true, cell: ({ amount }) => quantity(amount, cap.unit) },
            { title: "Reason", cell: ({ reason }) => reason },
            { title: "Granted", cell: ({ createdAt }) => <Moment at={createdAt} /> },
            { title: "By whom", cell: ({ createdBy }) => <PrincipalName name={createdBy} /> },
            {
              title: "Until",
              cell: ({ endedAt, expiresAt }) =>
                (endedAt ?? expiresAt) === null ? "it is ended" : <Moment at={endedAt ?? expiresAt} style="full" />
            }
          ]}
          acts={(grant) => <EndRaise cap={cap} of={grant} />}
        />
      )}
    </Called>
  </Card>
)

const Alerts = ({ of: cap }: Of<Cap>) => (
  <>
    <h2>Alerts</h2>
    <List
      name="budgetAlerts.list"
      input={{ query: { capId: cap.id } }}
      label="Alerts"
      empty="No threshold was passed yet"
      columns={[
        { title: "When", cell: ({ occurredAt }) => <Moment at={occurredAt} style="full" /> },
        { title: "Threshold", cell: ({ measure, percent: at }) => `${percent(at, 0)} ${measure}` },
        {
          title: "Of",
          cell: ({ scope }) => (
            <span className="chip">
              <ScopeText scope={scope} />
            </span>
          )
        },
        { title: "Spent", isNumber: true, cell: ({ spent, unit }) => quantity(spent, unit) },
        { title: "Reserved", isNumber: true, cell: ({ reserved, unit }) => quantity(reserved, unit) },
        { title: "Limit", isNumber: true, cell: ({ limit, unit }) => quantity(limit, unit) }
      ]}
    />
  </>
)

const Refusals = ({ of: cap }: Of<Cap>) => {
  const { latest, times } = useRefusals({ entityId: cap.id })
  return (
    <Card title="Refused in 24 hours" link={[`/requests?tab=refused&entityId=${cap.id}`, "All refused"]}>
      {latest.length === 0 ? (
        <Empty title="It refused nothing" />
      ) : (
        <>
          <div className="in">
            <Tag tone="warn">{times} refused</Tag>
          </div>
          <Table label="Refused" rows={latest.slice(0, 5)} columns={refusalColumns} />
        </>
      )}
    </Card>
  )
}

/** One cap: its counters, raises and alerts. */
export default function OneCap() {
  const { id = "" } = useParams()
  const may = useCan()
  const { data, error } = useCall("budgetCaps.get", { params: { id } })
  // It was just deleted, here or elsewhere.
  if (data !== undefined && error instanceof Failure && error.status === 404) return <Redirect to="/caps" />
  return (
    <DetailPage
      name="budgetCaps.get"
      what="Cap"
      lead={(cap) => (
        <>
          {quantity(cap.limit, cap.unit)} {periodText(cap)} on <ScopeText scope={cap.scope} />; when it is full it{" "}
          {modes[cap.mode]}.
        </>
      )}
      copies={
        <>
          {data?.status === "paused" ? <Tag>paused</Tag> : null}
          <CopyCurl name="budgetCaps.status" input={{ query: { capId: id } }} />
        </>
      }
      actions={[Raise, EditAct, PauseCap, DeleteCap]}
    >
      {(cap) => (
        <>
          <Counters of={cap} />
          {may("audit-logs:read") ? <Refusals of={cap} /> : null}
          <Grants of={cap} />
          <Alerts of={cap} />
        </>
      )}
    </DetailPage>
  )
}
