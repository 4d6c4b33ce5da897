import { Link } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { type Of } from "../../kit/actions.tsx"
import { Meter } from "../../kit/charts/cap-bar.tsx"
import { Moment, percent, quantity, usd } from "../../kit/format.tsx"
import { ConfirmAct } from "../../kit/forms/operation.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { useTenantFilter } from "../../kit/names/tenants.tsx"
import { Noted, Tag } from "../../kit/parts.tsx"
import { AddSubscription, EditSubscription, write } from "./subscription-form.tsx"

type Subscription = Row<"subscriptions.list">

const tones = { active: "ok", scheduled: "", ended: "" } as const

const Use = ({ of }: Of<Subscription>) => {
  const { data } = useCall("subscriptions.utilization", { params: { id: of.id } }, { enabled: of.status === "active" })
  if (data === undefined) return <span className="soft">{of.status === "active" ? "…" : "not running"}</span>
  const used = Math.min(data.percentUsed, 100)
  const tone = data.percentUsed >= 100 ? "bad" : data.exhaustsAt === null ? "" : "warn"
  return (
    <div className={`cap ${tone}`}>
      <Meter label={`Use of ${of.name}`} max={100} now={used} text={`${percent(data.percentUsed)} used`}>
        <i style={{ width: `${used}%` }} />
        <u style={{ left: `${Math.min(data.percentElapsed, 100)}%` }} title="Elapsed part of the period" />
      </Meter>
      <div className="legend">
        <span>
          {percent(data.percentUsed)} used, {percent(data.percentElapsed)} of the period has passed
        </span>
        <span className="end">
          {data.exhaustsAt === null ? "lasts for the period" : "used up "}
          {data.exhaustsAt === null ? null : <Moment at={data.exhaustsAt} />}
        </span>
      </div>
    </div>
  )
}

const Delete = ({ of }: Of<Subscription>) => (
  <ConfirmAct name="subscriptions.delete" of={of} verb="Delete" what="subscription" needs={write}>
    Routing no longer prefers {of.provider} for its quota of {quantity(of.quota.amount, of.quota.unit)}. Past usage
    stays in the reports; nothing is cancelled at the provider.
  </ConfirmAct>
)

/** Quotas at providers that are paid for ahead. */
export default () => (
  <ListPage
    title="Provider subscriptions"
    lead="Prepaid quotas at providers, and how much of each is used."
    actions={<AddSubscription />}
    name="subscriptions.list"
    searches="Name, provider or plan"
    order="-createdAt"
    filters={[useTenantFilter()]}
    input={{ query: { limit: 20 } }}
    rowClass={({ status }) => (status === "ended" ? "gone" : undefined)}
    empty={["There is no subscription yet", "With one, routing can use prepaid quota before it pays per use."]}
    columns={[
      {
        title: "Subscription",
        sort: "name",
        cell: ({ id, name, plan, provider }) => (
          <div className="wrap">
            <Link href={`/subscriptions/${id}`}>
              <strong>{name}</strong>
            </Link>{" "}
            <span className="chip">{provider}</span> {plan === null ? null : <small>{plan}</small>}
          </div>
        )
      },
      { title: "Status", cell: ({ status }) => <Tag tone={tones[status]}>{status}</Tag> },
      { title: "Use", isWide: true, cell: (of) => <Use of={of} /> },
      {
        title: "Price",
        cell: ({ pending, period, priceUsd, quota }) => (
          <>
            <Noted isBelow value={quantity(quota.amount, quota.unit)} note={`${usd(priceUsd)} a ${period}`} />
            {pending && (
              <>
                <br />
                <small>
                  then {quantity(pending.quota.amount, pending.quota.unit)} for {usd(pending.priceUsd)},{" "}
                  <Moment at={pending.effectiveAt} />
                </small>
              </>
            )}
          </>
        )
      }
    ]}
    acts={[EditSubscription, Delete]}
  />
)
