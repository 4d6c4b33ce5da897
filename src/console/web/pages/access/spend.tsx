import { type ReactNode } from "react"
import { CapBar } from "../../kit/charts/cap-bar.tsx"
import { Bars } from "../../kit/charts/chart.tsx"
import { count, usd } from "../../kit/format.tsx"
import { lastDays } from "../../kit/lists/range.tsx"
import { Called, Card, Soft } from "../../kit/parts.tsx"
import { Empty } from "../../kit/states.tsx"
import { useCan } from "../../shell/session.tsx"

interface OfSpend {
  /** Whose spend it is, as filters of usage have it. */
  readonly filter: { readonly apiKeyId: string } | { readonly tenantId: string }
}

const Needs = ({ capability }: { readonly capability: string }) => (
  <p className="soft in">
    This needs the capability <code>{capability}</code>.
  </p>
)

/** What a key or a tenant cost in the last 30 days, by day and on which models. */
export const SpendCard = ({ filter }: OfSpend) => {
  const may = useCan()
  const search = new URLSearchParams(filter as Readonly<Record<string, string>>).toString()
  const range = lastDays()
  return (
    <Card title="Spend in 30 days" span={8} link={[`/usage?${search}`, "Open usage"]}>
      {may("insights:read") ? (
        <Called name="insights.overview" input={{ query: { ...filter, ...range } }} everySeconds={60}>
          {({ byDay, topModels, totals }) =>
            totals.requests === 0 ? (
              <Empty title="Nothing was spent in 30 days">
                <p>Calls through the gateway appear here a few seconds after they end.</p>
              </Empty>
            ) : (
              <div className="in stack">
                <p>
                  <strong>{usd(totals.costUsd)}</strong> <Soft>with {count(totals.requests)} requests</Soft>
                </p>
                <Bars
                  label="Spend by day"
                  times={byDay.map(({ date }) => Date.parse(date) / 1000)}
                  series={[{ label: "Spend", values: byDay.map(({ costUsd }) => costUsd) }]}
                />
                <p className="soft">
                  Most of it on{" "}
                  {topModels
                    .slice(0, 3)
                    .map(({ costUsd, key }) => `${key ?? "no model"} ${usd(costUsd)}`)
                    .join(", ")}
                  .
                </p>
              </div>
            )
          }
        </Called>
      ) : (
        <Needs capability="insights:read" />
      )}
    </Card>
  )
}

interface OfCaps {
  /** What is said where there is none. */
  readonly none: ReactNode
  /** The caps to show, by their ids. */
  readonly of: ReadonlyArray<string>
}

/** Caps with their use in this period. */
const CapBars = ({ none, of }: OfCaps) =>
  of.length === 0 ? (
    <p className="soft">{none}</p>
  ) : (
    of.map((capId) => (
      <Called key={capId} name="budgetCaps.status" input={{ query: { capId, limit: 3 } }} everySeconds={30} rows={1}>
        {({ items }) =>
          items.map((cap) => <CapBar key={JSON.stringify(cap.scope)} cap={cap} href={`/caps/${cap.capId}`} />)
        }
      </Called>
    ))
  )

/** The caps of a key or a tenant. */
export const CapsCard = ({ filter, none }: OfSpend & { readonly none: ReactNode }) => {
  const may = useCan()
  return (
    <Card title="Caps" span={4} link={["/caps", "All caps"]}>
      {may("budgets:read") ? (
        <div className="in stack">
          {/* CAPS THAT APPLY: `<CapsThatApply>` takes the place of this call for a key; these are the caps that name it. */}
          <Called name="budgetCaps.list" input={{ query: { ...filter, limit: 20 } }}>
            {({ items }) => <CapBars none={none} of={items.map(({ id }) => id)} />}
          </Called>
        </div>
      ) : (
        <Needs capability="budgets:read" />
      )}
    </Card>
  )
}
