import { Link } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { CopyCurl, useNow } from "../../kit/actions.tsx"
import { CapBar } from "../../kit/charts/cap-bar.tsx"
import { Bars } from "../../kit/charts/chart.tsx"
import { count, Moment, percent, ownTimeZone, short, usd, words } from "../../kit/format.tsx"
import { Icon } from "../../kit/icons.tsx"
import { Answered, Empty } from "../../kit/states.tsx"
import { useCan } from "../../shell/session.tsx"
import { Page } from "../../kit/page.tsx"
import { useRefusals } from "../usage/refusals.tsx"

const Change = ({ percent: change }: { readonly percent: number }) => (
  <span className={change > 0 ? "up" : "down"}>
    {change > 0 ? "+" : ""}
    {percent(change, 0)}
  </span>
)

const Tile = ({
  detail,
  href,
  label,
  value
}: {
  readonly detail: React.ReactNode
  readonly href: string
  readonly label: string
  readonly value: string
}) => (
  <Link className="card kpi span-3" href={href}>
    <div className="in">
      <small>{label}</small>
      <b>{value}</b>
      <small>{detail}</small>
    </div>
  </Link>
)

const Held = () => {
  const { data } = useCall("approvals.list", { query: { limit: 50 } }, { everySeconds: 30 })
  const first = data?.items[0]?.reservation
  if (data === undefined || first === undefined) return null
  const waiting = data.nextCursor === null ? count(data.items.length) : `More than ${data.items.length}`
  return (
    <div className="note">
      <span className="tag warn">{waiting} held</span>
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
      <span className="tag warn">{times} refused</span>
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
    <section className="card">
      <header>
        <h2>First steps</h2>
      </header>
      <ol className="steps">
        {steps.map(([title, what, href, { items }]) => (
          <li key={title} className={items.length > 0 ? "done" : undefined}>
            <Icon name={items.length > 0 ? "check" : "next"} size={16} />
            <span>
              {items.length > 0 ? title : <Link href={href}>{title}</Link>} <small>{what}</small>
            </span>
            {items.length > 0 ? <span className="tag ok">done</span> : null}
          </li>
        ))}
      </ol>
    </section>
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
                    <Change percent={changePercent} /> to the 30 days before
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
            <section className="card span-8">
              <header>
                <h2>Spend by day</h2>
                <Link href="/usage">Open usage</Link>
              </header>
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
            </section>
            <section className="card span-4">
              <header>
                <h2>Caps close to their limit</h2>
                <Link href="/caps">All caps</Link>
              </header>
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
            </section>
          </div>
        </>
      )}
    </Answered>
  )
}

const Changes = () => {
  const entries = useCall("auditLogs.list", { query: { limit: 8, outcome: "success" } }, { everySeconds: 30 })
  return (
    <section className="card">
      <header>
        <h2>Last changes</h2>
        <Link href="/audit">Audit log</Link>
      </header>
      <Answered asked={entries}>
        {({ items }) => (
          <div className="scroll" tabIndex={0} role="region" aria-label="Last changes">
            <table>
              <tbody>
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
              </tbody>
            </table>
          </div>
        )}
      </Answered>
    </section>
  )
}

const tones = { Healthy: "ok", Degraded: "warn", Unhealthy: "bad" } as const

const Health = () => {
  const health = useCall("dashboard.health", {}, { everySeconds: 30 })
  return (
    <section className="card span-6">
      <header>
        <h2>Health</h2>
        {health.data === undefined ? null : (
          <span className={`tag ${tones[health.data.status]}`}>{health.data.status}</span>
        )}
      </header>
      <Answered asked={health}>
        {({ checks }) => (
          <div className="scroll" tabIndex={0} role="region" aria-label="Health checks">
            <table>
              <tbody>
                {checks.map(({ detail, name, status }) => (
                  <tr key={name}>
                    <td>{words(name)}</td>
                    <td>
                      <span className={`tag ${tones[status]}`}>{status}</span>
                    </td>
                    <td className="soft wrap">{detail}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Answered>
    </section>
  )
}

const People = () => {
  const metrics = useCall("dashboard.metrics", {}, { everySeconds: 60 })
  return (
    <section className="card span-6">
      <header>
        <h2>Now</h2>
      </header>
      <Answered asked={metrics}>
        {(now) => (
          <div className="scroll" tabIndex={0} role="region" aria-label="Figures of now">
            <table>
              <tbody>
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
              </tbody>
            </table>
          </div>
        )}
      </Answered>
    </section>
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
