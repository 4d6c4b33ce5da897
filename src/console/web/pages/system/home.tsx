import { Link } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { CopyCurl } from "../../kit/actions.tsx"
import { CapBar } from "../../kit/charts/cap-bar.tsx"
import { Bars } from "../../kit/charts/chart.tsx"
import { count, Moment, percent, short, usd, words } from "../../kit/format.tsx"
import { Answered, Empty } from "../../kit/states.tsx"
import { useCan } from "../../shell/session.tsx"
import { Page } from "../../shell/shell.tsx"

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

const Spend = () => {
  const overview = useCall("insights.overview", {}, { everySeconds: 60 })
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
              detail={`${totals.requests === 0 ? percent(0) : percent((100 * totals.errors) / totals.requests, 2)} failed`}
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
                    <Link className="btn" href="/caps">
                      Make a cap
                    </Link>
                  </Empty>
                ) : (
                  caps.slice(0, 4).map((cap) => <CapBar key={`${cap.capId} ${JSON.stringify(cap.scope)}`} cap={cap} />)
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
                    ["Spend today", usd(now.spendTodayUsd), "/usage"],
                    ["Reserved by open reservations", usd(now.openReservationsUsd), "/reservations"],
                    ["Active trial users", count(now.activeTrialUsers), "/trial-users?active=true"],
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
      {may("budgets:approve") ? <Held /> : null}
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
