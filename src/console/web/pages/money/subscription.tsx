import { useMemo } from "react"
import { useParams } from "wouter"
import { useChange } from "../../api/hooks.ts"
import { type Answer } from "../../api/operations.ts"
import { Act, CopyCurl } from "../../kit/actions.tsx"
import { Bars } from "../../kit/charts/chart.tsx"
import { Moment, percent, quantity, shortCount, usd } from "../../kit/format.tsx"
import { Table } from "../../kit/lists/table.tsx"
import { Called, Card, DetailPage, Facts, type Known } from "../../kit/parts.tsx"
import { Empty } from "../../kit/states.tsx"
import { EditSubscription, write } from "./subscription-form.tsx"

type Use = Answer<"subscriptions.utilization">

const Days = ({ use }: { readonly use: Use }) => {
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
          { title: "Last used", isNumber: true, cell: ({ used }) => quantity(used, quota.unit) }
        ]}
      />
    </>
  )
}

const factsOf = (use: Use): Known => {
  const inUnit = (amount: number) => quantity(amount, use.quota.unit)
  return [
    ["Used", `${inUnit(use.used)} of ${inUnit(use.quota.amount)} (${percent(use.percentUsed)})`],
    ["Left", inUnit(use.remaining)],
    [
      "Period",
      <>
        <Moment at={use.periodStart} style="full" /> to <Moment at={use.periodEnd} style="full" />,{" "}
        {percent(use.percentElapsed)} is over
      </>
    ],
    ["At its end", use.projected === null ? "known after the first tenth of the period" : inUnit(use.projected)],
    ["Used up", use.exhaustsAt === null ? "it lasts" : <Moment at={use.exhaustsAt} style="full" />]
  ]
}

/** How much of the quota is used in this period, and how it goes on. */
const Period = ({ id }: { readonly id: string }) => (
  <Card title="This period">
    <Called name="subscriptions.utilization" input={{ params: { id } }} everySeconds={30}>
      {(use) => (
        <>
          <Facts className="facts in" facts={factsOf(use)} />
          <Days use={use} />
        </>
      )}
    </Called>
  </Card>
)

/** What changes with the next period, which can be taken back. */
const Pending = ({ of }: { readonly of: Answer<"subscriptions.get"> }) => {
  const keep = useChange("subscriptions.update", "The change is cancelled")
  const { id, name, pending, period, priceUsd, provider, quota } = of
  return pending === null ? null : (
    <div className="note">
      <span>
        From <Moment at={pending.effectiveAt} style="full" /> on it is{" "}
        {quantity(pending.quota.amount, pending.quota.unit)} for {usd(pending.priceUsd)}.
      </span>
      <Act
        needs={write}
        onClick={() =>
          keep.mutate({ params: { id }, body: { name, period, priceUsd, provider, quota, pending: null } })
        }
      >
        Cancel the change
      </Act>
    </div>
  )
}

/** One subscription: its quota, how much of it is used, and what changes with the next period. */
export default function OneSubscription() {
  const { id = "" } = useParams()
  return (
    <DetailPage
      name="subscriptions.get"
      entity="Subscription"
      what="Subscription"
      lead={({ period, priceUsd, provider, quota }) =>
        `${quantity(quota.amount, quota.unit)} a ${period} at ${provider}, for ${usd(priceUsd)}.`
      }
      copies={<CopyCurl name="subscriptions.utilization" input={{ params: { id } }} />}
      actions={[EditSubscription]}
    >
      {(of) => (
        <>
          <Pending of={of} />
          <Period id={id} />
        </>
      )}
    </DetailPage>
  )
}
