import { Link } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { CopyCurl, useNow } from "../../kit/actions.tsx"
import { CapBar } from "../../kit/charts/cap-bar.tsx"
import { Bars } from "../../kit/charts/chart.tsx"
import { count, Moment, percent, ownTimeZone, short, usd, words } from "../../kit/format.tsx"
import { Icon } from "../../kit/icons.tsx"
import { Page } from "../../kit/page.tsx"
import { Card, PercentChange, Tag, Tile } from "../../kit/parts.tsx"
import { Answered, Empty } from "../../kit/states.tsx"
import { useCan } from "../../shell/session.tsx"
import { useRefusals } from "../usage/refusals.tsx"

/** Rows without a head. */
const Plain = ({ children, label }: { readonly children: React.ReactNode; readonly label: string }) => (
  <div className="scroll" tabIndex={0} role="region" aria-label={label}>
    <table>
      <tbody>{children}</tbody>
    </table>
  </div>
)

const Held = () => {
  const { data } = useCall("approvals.list", { query: { limit: 50 } }, { everySeconds: 30 })
  const first = data?.items[0]?.reservation
  if (data === undefined || first === undefined) return null
  const waiting = data.nextCursor === null ? count(data.items.length) : `More than ${data.items.length}`
  return (
    <div className="note">
      <Tag tone="warn">{waiting} held</Tag>
      <span>
        {data.items.length === 1 ? "A reservation waits" : "Reservations wait"} for an approval. The next one expires{" "}
        <Moment at={first.expiresAt} />.
      </span>
      <Link className="btn" href="/approvals">
        Review
      </Link>
    </div>
  )
}

/** What caps refused in the last day. */
const Refused = () => {
  const { latest, times } = useRefusals({})
  const [last] = latest
  return last === undefined ? null : (
    <div className="note">
      <Tag tone="warn">{times} refused</Tag>
      <span>
        Caps had no room for what was asked in the last 24 hours. The last one was <Moment at={last.occurredAt} />.
      </span>
      <Link className="btn" href="/requests?tab=refused&range=24h">
        Look
      </Link>
    </div>
  )
}

/** What a new installation needs before anything can be seen here; gone once it is done. */
const FirstSteps = () => {
  const keys = useCall("apiKeys.list", { query: { limit: 1 } })
  const caps = useCall("budgetCaps.list", { query: { limit: 1 } })
  const usage = useCall("usage.list", { query: { limit: 1 } }, { everySeconds: 10 })
  if (keys.data === undefined || caps.data === undefined || usage.data === undefined) return null
  const steps = [
    ["Make an API key", "It is shown with a ready call for curl and the SDKs.", "/api-keys?create=first", keys.data],
    ["Call a model with it", "Or try one here, without a program.", "/try", usage.data],
    ["Make a cap", "It refuses, or holds for approval, what is beyond its limit.", "/caps?create=first", caps.data]
  ] as const
  if (steps.every(([, , , { items }]) => items.length > 0)) return null
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
  const overview = useCall("insights.overview", {}, { everySeconds: 60 })
  const latency = useLatency()
  return (
    <Answered asked={overview}>
      {({ byDay, caps, changePercent, forecast, totals }) => (
        <>
          <div className="grid">
            <Tile
              href="/usage"
              label="Spend in 30 days"
              value={usd(totals.costUsd)}
              detail={
                changePercent === null ? (
                  "none in the 30 days before"
                ) : (
                  <>
                    <PercentChange percent={changePercent} /> to the 30 days before
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
              detail={`${totals.requests === 0 ? percent(0) : percent((100 * totals.errors) / totals.requests, 2)} failed${latency}`}
            />
            <Tile
              href="/usage"
              label="Saved by caches"
              value={usd(totals.savingsUsd)}
              detail="cached input and repeated answers"
            />
          </div>
          <div className="grid">
            <Card title="Spend by day" span={8} link={["/usage", "Open usage"]}>
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
                  />
                )}
              </div>
            </Card>
            <Card title="Caps close to their limit" span={4} link={["/caps", "All caps"]}>
              <div className="in stack">
                {caps.length === 0 ? (
                  <Empty title="There is no cap yet">
                    <Link className="btn" href="/caps?create=first">
                      Make a cap
                    </Link>
                  </Empty>
                ) : (
                  caps.slice(0, 3).map((cap) => <CapBar key={`${cap.capId} ${JSON.stringify(cap.scope)}`} cap={cap} />)
                )}
              </div>
            </Card>
          </div>
        </>
      )}
    </Answered>
  )
}

const Changes = () => {
  const entries = useCall("auditLogs.list", { query: { limit: 8, outcome: "success" } }, { everySeconds: 30 })
  return (
    <Card title="Last changes" link={["/audit", "Audit log"]}>
      <Answered asked={entries}>
        {({ items }) => (
          <Plain label="Last changes">
            {items.map((entry) => (
              <tr key={entry.id}>
                <td className="soft">
                  <Moment at={entry.occurredAt} />
                </td>
                <td>{words(entry.actionType)}</td>
                <td className="soft">{short(entry.userId)}</td>
                <td className="n">
                  <Link href={`/audit/${entry.id}`}>
                    <code>{entry.sequence === null ? "open" : `#${entry.sequence}`}</code>
                  </Link>
                </td>
              </tr>
            ))}
          </Plain>
        )}
      </Answered>
    </Card>
  )
}

const tones = { Healthy: "ok", Degraded: "warn", Unhealthy: "bad" } as const

const Health = () => {
  const health = useCall("dashboard.health", {}, { everySeconds: 30 })
  return (
    <Card
      title="Health"
      span={6}
      beside={health.data && <Tag tone={tones[health.data.status]}>{health.data.status}</Tag>}
    >
      <Answered asked={health}>
        {({ checks }) => (
          <Plain label="Health checks">
            {checks.map(({ detail, name, status }) => (
              <tr key={name}>
                <td>{words(name)}</td>
                <td>
                  <Tag tone={tones[status]}>{status}</Tag>
                </td>
                <td className="soft wrap">{detail}</td>
              </tr>
            ))}
          </Plain>
        )}
      </Answered>
    </Card>
  )
}

const People = () => {
  const metrics = useCall("dashboard.metrics", {}, { everySeconds: 60 })
  return (
    <Card title="Now" span={6}>
      <Answered asked={metrics}>
        {(now) => (
          <Plain label="Figures of now">
            {(
              [
                ["Spend today, in UTC", usd(now.spendTodayUsd), "/usage?range=24h"],
                ["Reserved by open reservations", usd(now.openReservationsUsd), "/reservations?state=open"],
                ["Active trial users", count(now.activeTrialUsers), "/trial-users?active=true"],
                [
                  "Trials that end within 7 days",
                  count(now.trialsEndingSoon),
                  "/trial-users?active=true&sort=trialEndDate"
                ],
                ["Active sessions", count(now.activeSessions), "/sessions?active=true"],
                ["Agents", count(now.agents), "/agents"],
                ["Applications", count(now.totalApplications), "/applications"]
              ] as const
            ).map(([label, value, href]) => (
              <tr key={label}>
                <td>
                  <Link href={href}>{label}</Link>
                </td>
                <td className="n">{value}</td>
              </tr>
            ))}
          </Plain>
        )}
      </Answered>
    </Card>
  )
}

/** Everything that needs a decision, and how the month is going. */
export default function Home() {
  const may = useCan()
  return (
    <Page
      title="Home"
      lead="Everything that needs a decision, and how the month is going."
      actions={<CopyCurl name="insights.overview" input={{}} />}
    >
      {["api-keys:write", "budgets:write", "insights:read"].every(may) ? <FirstSteps /> : null}
      {may("budgets:approve") ? <Held /> : null}
      {may("audit-logs:read") ? <Refused /> : null}
      {may("insights:read") ? <Spend /> : null}
      {may("dashboard:read") ? (
        <div className="grid">
          <People />
          <Health />
        </div>
      ) : null}
      {may("audit-logs:read") ? <Changes /> : null}
    </Page>
  )
}
