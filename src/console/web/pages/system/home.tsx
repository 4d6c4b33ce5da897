import { type ReactNode } from "react"
import { Link, useLocation } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { type Answer } from "../../api/operations.ts"
import { useTenantScope } from "../../api/tenant-scope.ts"
import { ButtonLink, CopyCurl, useNow } from "../../kit/actions.tsx"
import { CapBar } from "../../kit/charts/cap-bar.tsx"
import { Bars } from "../../kit/charts/chart.tsx"
import { count, Moment, percent, ownTimeZone, usd, Usd, words } from "../../kit/format.tsx"
import { Icon } from "../../kit/icons.tsx"
import { lastDays } from "../../kit/lists/range.tsx"
import { EntityName, isNamed, PrincipalName } from "../../kit/names/names.tsx"
import { Page } from "../../kit/page.tsx"
import { Answered, Called, Card, Note, PercentChange, Tag, Tile } from "../../kit/parts.tsx"
import { Empty } from "../../kit/states.tsx"
import { useCan } from "../../shell/session.tsx"
import { useRefusals } from "../usage/refusals.tsx"

interface Rows<Row> {
  readonly cells: (row: Row) => ReadonlyArray<ReactNode>
  /** The classes of the cells. */
  readonly classes?: ReadonlyArray<string | undefined>
  readonly keyOf: (row: Row) => string | number
  readonly label: string
  readonly rows: ReadonlyArray<Row>
}

/** Rows without a head. */
const Plain = <Row,>({ cells, classes = [], keyOf, label, rows }: Rows<Row>) => (
  <div className="scroll" tabIndex={0} role="region" aria-label={label}>
    <table>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>
            {cells(row).map((cell, at) => (
              <td key={at} className={classes[at]}>
                {cell}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
)

const Held = () => {
  const { data } = useCall("approvals.list", { query: { limit: 50 } }, { everySeconds: 30 })
  const first = data?.items[0]?.reservation
  if (data === undefined || first === undefined) return null
  const waiting = data.nextCursor === null ? count(data.items.length) : `More than ${data.items.length}`
  return (
    <Note tag={`${waiting} held`} link={["/approvals", "Review"]}>
      {data.items.length === 1 ? "A reservation is waiting" : "Reservations are waiting"} for approval. The next one
      expires <Moment at={first.expiresAt} />.
    </Note>
  )
}

/** What caps refused in the last day. */
const Refused = () => {
  const { latest, times } = useRefusals({})
  const [last] = latest
  return last === undefined ? null : (
    <Note tag={`${times} refused`} link={["/requests?tab=refused&range=24h", "View"]}>
      Caps refused requests in the last 24 hours. The latest was <Moment at={last.occurredAt} />.
    </Note>
  )
}

/** The anomalies that wait for a decision. */
const Unusual = () => {
  const { data } = useCall("anomalies.list", { query: { status: "open", limit: 50 } }, { everySeconds: 60 })
  const found = data?.items.length ?? 0
  if (data === undefined || found === 0) return null
  return (
    <Note
      tag={`${data.nextCursor === null ? "" : "more than "}${found} open`}
      link={["/anomalies?status=open", "Review"]}
    >
      {found === 1 ? "An anomaly of the spend waits" : "Anomalies of the spend wait"} for a decision.
    </Note>
  )
}

/** What a new installation needs before anything can be seen here; gone with the first call. */
const FirstSteps = () => {
  const keys = useCall("apiKeys.list", { query: { limit: 1 } })
  const caps = useCall("budgetCaps.list", { query: { limit: 1 } })
  const usage = useCall("usage.list", { query: { limit: 1 } }, { everySeconds: 10 })
  if (keys.data === undefined || caps.data === undefined || usage.data === undefined) return null
  const steps = [
    ["Create an API key", "It comes with ready-made calls for curl and the SDKs.", "/api-keys?create=first", keys.data],
    ["Call a model with it", "Or try one here, without writing a program.", "/try", usage.data],
    ["Create a cap", "It refuses, or holds for approval, what exceeds its limit.", "/caps?create=first", caps.data]
  ] as const
  if (usage.data.items.length > 0) return null
  return (
    <Card title="First steps">
      <ol className="steps">
        {steps.map(([title, what, href, { items }]) => (
          <li key={title} className={items.length > 0 ? "done" : undefined}>
            <Icon name={items.length > 0 ? "check" : "next"} size={16} />
            <span>
              {items.length > 0 ? title : <Link href={href}>{title}</Link>} <small>{what}</small>
            </span>
            {items.length > 0 ? <Tag tone="ok">done</Tag> : null}
          </li>
        ))}
      </ol>
    </Card>
  )
}

/** The 95th percentile of today's latencies; nothing before the first call. */
const useLatency = (): string => {
  const from = new Date(new Date(useNow(60)).setHours(0, 0, 0, 0)).toISOString()
  const day = { params: { dimension: "day" }, query: { from, timeZone: ownTimeZone, limit: 1 } } as const
  const latency = useCall("insights.by", day, { everySeconds: 60 }).data?.items[0]?.p95LatencyMs ?? null
  return latency === null ? "" : `, p95 ${count(Math.round(latency))} ms today`
}

const Spend = () => {
  const overview = useCall("insights.overview", { query: lastDays() }, { everySeconds: 60 })
  const [, go] = useLocation()
  const latency = useLatency()
  return (
    <Answered asked={overview}>
      {({ byDay, caps, changePercent, forecast, totals }) => (
        <>
          <div className="grid">
            <Tile
              href="/usage"
              label="Spend in 30 days"
              value={<Usd amount={totals.costUsd} />}
              detail={
                changePercent === null ? (
                  "none in the 30 days before"
                ) : (
                  <>
                    <PercentChange percent={changePercent} /> vs. the 30 days before
                  </>
                )
              }
            />
            <Tile
              href="/usage"
              label="Forecast of the month"
              value={forecast === null ? "none yet" : usd(forecast.costUsd)}
              detail={forecast === null ? "after the first spend" : `${usd(forecast.low)} to ${usd(forecast.high)}`}
            />
            <Tile
              href="/requests"
              label="Requests in 30 days"
              value={count(totals.requests)}
              detail={
                totals.errors === 0 ? (
                  `none failed${latency}`
                ) : (
                  <>
                    <Link href="/requests?failed=true">
                      {count(totals.errors)} failed ({percent((100 * totals.errors) / totals.requests, 2)})
                    </Link>
                    {latency}
                  </>
                )
              }
            />
            <Tile
              href="/usage"
              label="Saved by caches"
              value={<Usd amount={totals.savingsUsd} />}
              detail="cached input and repeated answers"
            />
          </div>
          <div className="grid">
            <Card title="Spend by day" span={8} isLevel link={["/usage", "Open usage"]}>
              <div className="in">
                {totals.requests === 0 ? (
                  <Empty title="Nothing was spent in 30 days">
                    <p>Calls through the gateway appear here a few seconds after they end.</p>
                  </Empty>
                ) : (
                  <Bars
                    label="Spend by day"
                    times={byDay.map(({ date }) => Date.parse(date) / 1000)}
                    series={[{ label: "Spend", values: byDay.map(({ costUsd }) => costUsd) }]}
                    onPick={(time) => {
                      const day = new Date(time * 1000).toISOString().slice(0, 10)
                      go(`/usage?range=custom&first=${day}&last=${day}`)
                    }}
                  />
                )}
              </div>
            </Card>
            <Card title="Caps close to their limit" span={4} isLevel link={["/caps", "All caps"]}>
              <div className="in stack">
                {caps.length === 0 ? (
                  <Empty title="There is no cap yet">
                    <ButtonLink href="/caps?create=first">Create a cap</ButtonLink>
                  </Empty>
                ) : (
                  caps
                    .slice(0, 3)
                    .map((cap) => (
                      <CapBar key={`${cap.capId} ${JSON.stringify(cap.scope)}`} cap={cap} href={`/caps/${cap.capId}`} />
                    ))
                )}
              </div>
            </Card>
          </div>
        </>
      )}
    </Answered>
  )
}

const Changes = () => (
  <Card title="Last changes" span={8} isLevel link={["/audit", "Audit log"]}>
    <Called name="auditLogs.list" input={{ query: { limit: 7, outcome: "success" } }} everySeconds={30}>
      {({ items }) => (
        <Plain
          label="Last changes"
          rows={items}
          keyOf={({ id }) => id}
          classes={["soft", undefined, undefined, "soft", "n"]}
          cells={({ actionType, entityId, entityType, id, occurredAt, sequence, userId }) => [
            <Moment at={occurredAt} />,
            words(actionType),
            entityId === null || !isNamed(entityType) ? null : <EntityName type={entityType} id={entityId} isPlain />,
            <PrincipalName name={userId} isPlain />,
            <Link href={`/audit/${id}`}>
              <code>{sequence === null ? "open" : `#${sequence}`}</code>
            </Link>
          ]}
        />
      )}
    </Called>
  </Card>
)

const tones = { Healthy: "ok", Degraded: "warn", Unhealthy: "bad" } as const

interface Checked {
  readonly checks: Answer<"dashboard.health">["checks"]
  readonly label: string
}

const Checks = ({ checks, label }: Checked) =>
  checks.length === 0 ? null : (
    <Plain
      label={label}
      rows={checks}
      keyOf={({ name }) => name}
      classes={[undefined, undefined, "soft wrap"]}
      cells={({ detail, name, status }) => [words(name), <Tag tone={tones[status]}>{status}</Tag>, detail]}
    />
  )

const Health = () => {
  const health = useCall("dashboard.health", {}, { everySeconds: 30 })
  return (
    <Card title="Health" beside={health.data && <Tag tone={tones[health.data.status]}>{health.data.status}</Tag>}>
      <Answered asked={health}>
        {({ checks: all }) => {
          // What kind of database it is says nothing about its health.
          const checks = all.filter(({ name }) => name !== "database-kind")
          const ill = checks.filter(({ status }) => status !== "Healthy")
          return (
            <>
              <Checks checks={ill} label="Checks that failed" />
              <details className="in">
                <summary>
                  {ill.length === 0 ? `All ${checks.length} checks pass` : `All ${checks.length} checks`}
                </summary>
                <Checks checks={checks} label="Health checks" />
              </details>
            </>
          )
        }}
      </Answered>
    </Card>
  )
}

const endingTrials = "/trial-users?active=true&sort=trialEndDate"

const People = () => (
  <Card title="Now" span={4} isLevel>
    <Called name="dashboard.metrics" input={{}} everySeconds={60}>
      {(now) => (
        <Plain
          label="Figures of now"
          rows={[
            ["Spend today, in UTC", usd(now.spendTodayUsd), "/usage?range=24h"],
            ["Reserved by open reservations", usd(now.openReservationsUsd), "/reservations?state=open"],
            ["Active trial users", count(now.activeTrialUsers), "/trial-users?active=true"],
            ["Trials ending within 7 days", count(now.trialsEndingSoon), endingTrials],
            ["Active sessions of trial users", count(now.activeSessions), "/sessions?active=true"],
            ["Agents", count(now.agents), "/agents"],
            ["Applications", count(now.totalApplications), "/applications"]
          ]}
          keyOf={([label = ""]) => label}
          classes={[undefined, "n"]}
          cells={([label, value, href = ""]) => [<Link href={href}>{label}</Link>, value]}
        />
      )}
    </Called>
  </Card>
)

/** Everything that needs a decision, and how the month is going. */
export default function Home() {
  const may = useCan()
  const isWhole = useTenantScope() === undefined
  return (
    <Page
      title="Home"
      lead="Everything that needs a decision, and how the month is going."
      actions={<CopyCurl name="insights.overview" input={{ query: lastDays() }} />}
    >
      {isWhole && ["api-keys:write", "budgets:write", "insights:read"].every(may) ? <FirstSteps /> : null}
      {may("budgets:approve") ? <Held /> : null}
      {may("audit-logs:read") ? <Refused /> : null}
      {may("insights:read") ? <Unusual /> : null}
      {may("insights:read") ? <Spend /> : null}
      {(isWhole && may("dashboard:read")) || may("audit-logs:read") ? (
        <div className="grid">
          {isWhole && may("dashboard:read") ? <People /> : null}
          {may("audit-logs:read") ? <Changes /> : null}
        </div>
      ) : null}
      {may("dashboard:read") ? <Health /> : null}
    </Page>
  )
}
