import { Link } from "wouter"
import { type Query } from "../../api/operations.ts"
import { Bars } from "../../kit/charts/chart.tsx"
import { count, usd } from "../../kit/format.tsx"
import { lastDays } from "../../kit/lists/range.tsx"
import { Called, Card, Soft } from "../../kit/parts.tsx"
import { Empty } from "../../kit/states.tsx"
import { useCan } from "../../shell/session.tsx"
import { CapFor, type CapTarget } from "../money/cap-form.tsx"
import { CapsThatApply } from "../money/caps-that-apply.tsx"

interface OfSpend {
  /** Whose spend it is, as filters of usage have it. */
  readonly filter: { readonly agentId: string } | { readonly apiKeyId: string } | { readonly tenantId: string }
}

const Needs = ({ capability }: { readonly capability: string }) => (
  <p className="soft in">
    This requires the capability <code>{capability}</code>.
  </p>
)

/** What an agent, a key or a tenant cost in the last 30 days, by day and on which models. */
export const SpendCard = ({ filter }: OfSpend) => {
  const may = useCan()
  const search = new URLSearchParams(filter as Readonly<Record<string, string>>).toString()
  const range = lastDays()
  return (
    <Card title="Spend in 30 days" span={8} isLevel link={[`/usage?${search}`, "Open usage"]}>
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
                  <strong>{usd(totals.costUsd)}</strong>{" "}
                  <Soft>
                    with <Link href={`/requests?${search}`}>{count(totals.requests)} requests</Link>
                    {totals.errors === 0 ? null : (
                      <>
                        , <Link href={`/requests?${search}&failed=true`}>{count(totals.errors)} failed</Link>
                      </>
                    )}
                  </Soft>
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
  /** What another cap is set for. */
  readonly of: CapTarget
  /** Whose caps they are. */
  readonly subject: Query<"budgetCaps.applicable">
}

/** The caps that count what an agent, a key or a tenant spends, and the button that sets another one. */
export const CapsCard = ({ of, subject }: OfCaps) => (
  <Card title="Caps" span={4} isLevel link={["/caps", "All caps"]}>
    <div className="in stack">
      <CapsThatApply of={subject} />
      <div>
        <CapFor of={of} />
      </div>
    </div>
  </Card>
)
