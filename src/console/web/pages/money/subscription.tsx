import { useMemo, useState } from "react"
import { useParams } from "wouter"
import { useCall, useChange } from "../../api/hooks.ts"
import { type Answer } from "../../api/operations.ts"
import { Act, CopyCurl } from "../../kit/actions.tsx"
import { Bars } from "../../kit/charts/chart.tsx"
import { Moment, percent, quantity, shortCount, usd } from "../../kit/format.tsx"
import { Table } from "../../kit/lists/table.tsx"
import { Answered, Empty } from "../../kit/states.tsx"
import { Page } from "../../kit/page.tsx"
import { SubscriptionForm } from "./subscription-form.tsx"

const Days = ({ use }: { readonly use: Answer<"subscriptions.utilization"> }) => {
  const { byDay, quota } = use
  const { series, times } = useMemo(
    () => ({
      times: byDay.map(({ date }) => Date.parse(date) / 1000),
      series: [{ label: "Used", values: byDay.map(({ used }) => used) }]
    }),
    [byDay]
  )
  if (byDay.every(({ used }) => used === 0)) return <Empty title="Nothing was used in this period yet" />
  return (
    <>
      <div className="in">
        <Bars
          label="Used by day; the table below has the same figures"
          times={times}
          series={series}
          format={quota.unit === "usd" ? usd : shortCount}
        />
      </div>
      <Table
        label="Used by day"
        rows={byDay.filter(({ used }) => used !== 0).toReversed()}
        keyOf={({ date }) => date}
        columns={[
          { title: "Day", cell: ({ date }) => date },
          { title: "Used", isNumber: true, cell: ({ used }) => quantity(used, quota.unit) }
        ]}
      />
    </>
  )
}

/** One subscription: its quota, how much of it is used, and what changes with the next period. */
export default function OneSubscription() {
  const { id = "" } = useParams()
  const [isEditing, setEditing] = useState(false)
  const asked = useCall("subscriptions.get", { params: { id } })
  const use = useCall("subscriptions.utilization", { params: { id } }, { everySeconds: 30 })
  const keep = useChange("subscriptions.update", "The change is cancelled")
  const of = asked.data
  return (
    <Page
      title={of?.name ?? "Subscription"}
      lead={
        of === undefined
          ? undefined
          : `${quantity(of.quota.amount, of.quota.unit)} a ${of.period} at ${of.provider}, for ${usd(of.priceUsd)}.`
      }
      actions={
        <>
          <CopyCurl name="subscriptions.utilization" input={{ params: { id } }} />
          <Act needs="subscriptions:write" onClick={() => setEditing(true)}>
            Edit
          </Act>
        </>
      }
    >
      <Answered asked={asked}>
        {(of) => (
          <>
            {of.pending === null ? null : (
              <div className="note">
                <span>
                  From <Moment at={of.pending.effectiveAt} style="full" /> on it is{" "}
                  {quantity(of.pending.quota.amount, of.pending.quota.unit)} for {usd(of.pending.priceUsd)}.
                </span>
                <Act
                  needs="subscriptions:write"
                  onClick={() => {
                    const { name, period, priceUsd, provider, quota } = of
                    keep.mutate({ params: { id }, body: { name, period, priceUsd, provider, quota, pending: null } })
                  }}
                >
                  Cancel the change
                </Act>
              </div>
            )}
            {isEditing ? <SubscriptionForm of={of} onClose={() => setEditing(false)} /> : null}
          </>
        )}
      </Answered>
      <section className="card">
        <header>
          <h2>This period</h2>
        </header>
        <Answered asked={use}>
          {(use) => (
            <>
              <div className="in">
                <dl className="facts">
                  <dt>Used</dt>
                  <dd>
                    {quantity(use.used, use.quota.unit)} of {quantity(use.quota.amount, use.quota.unit)} (
                    {percent(use.percentUsed)})
                  </dd>
                  <dt>Left</dt>
                  <dd>{quantity(use.remaining, use.quota.unit)}</dd>
                  <dt>Period</dt>
                  <dd>
                    <Moment at={use.periodStart} style="full" /> to <Moment at={use.periodEnd} style="full" />,{" "}
                    {percent(use.percentElapsed)} is over
                  </dd>
                  <dt>At its end</dt>
                  <dd>
                    {use.projected === null ? "known after its first tenth" : quantity(use.projected, use.quota.unit)}
                  </dd>
                  <dt>Used up</dt>
                  <dd>{use.exhaustsAt === null ? "it lasts" : <Moment at={use.exhaustsAt} style="full" />}</dd>
                </dl>
              </div>
              <Days use={use} />
            </>
          )}
        </Answered>
      </section>
    </Page>
  )
}
