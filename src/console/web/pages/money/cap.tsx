import { Redirect, useParams } from "wouter"
import { Failure } from "../../api/client.ts"
import { useCall } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { CopyCurl, type Of, useNow } from "../../kit/actions.tsx"
import { CapBar } from "../../kit/charts/cap-bar.tsx"
import { Moment, percent, quantity } from "../../kit/format.tsx"
import { ConfirmAct, formOf } from "../../kit/forms/operation.tsx"
import { List } from "../../kit/lists/list.tsx"
import { Table } from "../../kit/lists/table.tsx"
import { PrincipalName, ScopeText } from "../../kit/names/names.tsx"
import { Answered, Card, DetailPage, Soft, Tag } from "../../kit/parts.tsx"
import { useCan } from "../../shell/session.tsx"
import { refusalColumns, useRefusals } from "../usage/refusals.tsx"
import { CapPeriod, countsFrom, instant, requestsOf } from "./cap-period.tsx"
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
    <raise.Field label={`Amount in ${cap.unit === "usd" ? "US dollars" : cap.unit}`} name="amount" />
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
    unless={isOver(grant) ? "It has ended" : undefined}
  >
    {quantity(grant.amount, cap.unit)}, granted for “{grant.reason}”, are no longer part of the limit. Amounts already
    spent stay spent.
  </ConfirmAct>
)

const useCounters = (cap: Cap) =>
  useCall("budgetCaps.status", { query: { capId: cap.id, sort: "-percentUsed", limit: 100 } }, { everySeconds: 15 })

const Counters = ({ of: cap }: Of<Cap>) => {
  const now = useNow(60)
  return (
    <Card title="Use in this period">
      <div className="in stack">
        <Answered asked={useCounters(cap)}>
          {({ items, nextCursor }) =>
            items.length === 0 ? (
              <p className="soft">Nothing was spent under it in this period.</p>
            ) : (
              <>
                {items.map((counter) => (
                  <CapBar
                    key={JSON.stringify(counter.scope)}
                    cap={counter}
                    // Of several counters each leads to its own requests.
                    {...(items.length === 1
                      ? {}
                      : {
                          href: requestsOf(
                            { scope: counter.scope, tenantId: cap.tenantId },
                            countsFrom(cap, counter.periodStart, now)
                          )
                        })}
                    mode={cap.mode}
                    thresholds={spentThresholds(cap)}
                  />
                ))}
                {nextCursor === null ? null : <small>The first 100 counters are shown.</small>}
              </>
            )
          }
        </Answered>
      </div>
    </Card>
  )
}

/** What was spent in the period, once there is something. */
const Period = ({ of: cap }: Of<Cap>) => {
  const counter = useCounters(cap).data?.items[0]
  return counter === undefined ? null : <CapPeriod cap={cap} counter={counter} />
}

/** Since when it counts, as a sentence of its facts. */
const CountsFrom = ({ of: cap }: Of<Cap>) => {
  const periodStart = useCounters(cap).data?.items[0]?.periodStart
  const now = useNow(60)
  const from = instant(countsFrom(cap, periodStart, now))
  return (
    <>
      <Moment at={from} style="full" />
      {cap.windowSeconds !== null && from !== cap.createdAt
        ? ", the beginning of its window"
        : from === cap.createdAt
          ? ", when it was created; earlier spend does not count"
          : ", the beginning of this period"}
    </>
  )
}

const useGrants = (cap: Cap) => useCall("budgetCaps.listGrants", { params: { id: cap.id }, query: { limit: 50 } })

const useAlerts = (cap: Cap) => useCall("budgetAlerts.list", { query: { capId: cap.id, limit: 1 } })

const GrantsSoFar = ({ of: cap }: Of<Cap>) => {
  const items = useGrants(cap).data?.items
  if (items === undefined) return <Soft>…</Soft>
  const active = items.filter((grant) => !isOver(grant))
  const sum = active.reduce((total, { amount }) => total + amount, 0)
  return active.length === 0 ? <Soft>none now</Soft> : `${quantity(sum, cap.unit)} on top of the limit`
}

const LastAlert = ({ of: cap }: Of<Cap>) => {
  const { data } = useAlerts(cap)
  const [last] = data?.items ?? []
  if (data === undefined) return <Soft>…</Soft>
  return last === undefined ? (
    <Soft>none yet</Soft>
  ) : (
    <>
      {percent(last.percent, 0)} {last.measure}, <Moment at={last.occurredAt} />
    </>
  )
}

const RefusedSoFar = ({ of: cap }: Of<Cap>) => {
  const { latest, times } = useRefusals({ entityId: cap.id })
  return latest.length === 0 ? <Soft>none</Soft> : times
}

const Grants = ({ of: cap }: Of<Cap>) => {
  const items = useGrants(cap).data?.items ?? []
  return items.length === 0 ? null : (
    <Card title="Raises">
      <Table
        label="Raises"
        rows={items}
        rowClass={(grant) => (isOver(grant) ? "gone" : undefined)}
        columns={[
          { title: "By", isNumber: true, cell: ({ amount }) => quantity(amount, cap.unit) },
          { title: "Reason", cell: ({ reason }) => reason },
          { title: "Granted", cell: ({ createdAt }) => <Moment at={createdAt} /> },
          { title: "Granted by", cell: ({ createdBy }) => <PrincipalName name={createdBy} /> },
          {
            title: "Until",
            cell: ({ endedAt, expiresAt }) =>
              (endedAt ?? expiresAt) === null ? "it is ended" : <Moment at={endedAt ?? expiresAt} style="full" />
          }
        ]}
        acts={(grant) => <EndRaise cap={cap} of={grant} />}
      />
    </Card>
  )
}

const Alerts = ({ of: cap }: Of<Cap>) =>
  (useAlerts(cap).data?.items.length ?? 0) === 0 ? null : (
    <>
      <h2>Alerts</h2>
      <List
        name="budgetAlerts.list"
        input={{ query: { capId: cap.id } }}
        label="Alerts"
        empty="No threshold has been passed yet"
        columns={[
          { title: "When", cell: ({ occurredAt }) => <Moment at={occurredAt} style="full" /> },
          { title: "Threshold", cell: ({ measure, percent: at }) => `${percent(at, 0)} ${measure}` },
          {
            title: "Subject",
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
  return latest.length === 0 ? null : (
    <Card
      title="Refused in 24 hours"
      beside={<Tag tone="warn">{times} refused</Tag>}
      link={[`/requests?tab=refused&entityId=${cap.id}`, "All refused"]}
    >
      <Table label="Refused" rows={latest.slice(0, 5)} columns={refusalColumns} />
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
      entity="BudgetCap"
      what="Cap"
      lead={(cap) => (
        <>
          {quantity(cap.limit, cap.unit)} {periodText(cap)} on <ScopeText scope={cap.scope} tenantId={cap.tenantId} />;
          when the limit is reached it {modes[cap.mode]}.
        </>
      )}
      copies={
        <>
          {data?.status === "paused" ? <Tag>paused</Tag> : null}
          <CopyCurl name="budgetCaps.status" input={{ query: { capId: id } }} />
        </>
      }
      actions={[Raise, EditAct, PauseCap, DeleteCap]}
      facts={(cap) => [
        ["Counts from", <CountsFrom of={cap} />],
        ["Raises", <GrantsSoFar of={cap} />],
        ["Last alert", <LastAlert of={cap} />],
        may("audit-logs:read") ? ["Refused in 24 hours", <RefusedSoFar of={cap} />] : null
      ]}
    >
      {(cap) => (
        <>
          <Counters of={cap} />
          {may("insights:read") ? <Period of={cap} /> : null}
          {may("audit-logs:read") ? <Refusals of={cap} /> : null}
          <Grants of={cap} />
          <Alerts of={cap} />
        </>
      )}
    </DetailPage>
  )
}
