import { useState } from "react"
import { Link } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { Act, Confirm } from "../../kit/actions.tsx"
import { Moment, percent, quantity, usd } from "../../kit/format.tsx"
import { useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { Empty } from "../../kit/states.tsx"
import { TenantChoice } from "../../kit/names/tenants.tsx"
import { SubscriptionForm } from "./subscription-form.tsx"

export type Subscription = Row<"subscriptions.list">

const tones = { active: "ok", scheduled: "", ended: "" } as const

const Use = ({ of }: { readonly of: Subscription }) => {
  const { data } = useCall("subscriptions.utilization", { params: { id: of.id } }, { enabled: of.status === "active" })
  if (data === undefined) return <span className="soft">{of.status === "active" ? "…" : "not running"}</span>
  const used = Math.min(data.percentUsed, 100)
  const tone = data.percentUsed >= 100 ? "bad" : data.exhaustsAt === null ? "" : "warn"
  return (
    <div className={`cap ${tone}`}>
      <div
        className="bar"
        role="meter"
        aria-label={`Use of ${of.name}`}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={used}
        aria-valuetext={`${percent(data.percentUsed)} used`}
      >
        <i style={{ width: `${used}%` }} />
        <u style={{ left: `${Math.min(data.percentElapsed, 100)}%` }} title="How much of the period is over" />
      </div>
      <div className="legend">
        <span>
          {percent(data.percentUsed)} used, {percent(data.percentElapsed)} of the period is over
        </span>
        <span className="end">
          {data.exhaustsAt === null ? "lasts for the period" : "used up "}
          {data.exhaustsAt === null ? null : <Moment at={data.exhaustsAt} />}
        </span>
      </div>
    </div>
  )
}

type Shown = { readonly what: "create" } | { readonly what: "edit" | "delete"; readonly of: Subscription }

/** Quotas at providers that are paid for ahead. */
export default function Subscriptions() {
  const [shown, setShown] = useState<Shown | undefined>()
  const { isFiltered, set, values } = useFilters(["tenantId"])
  const close = () => setShown(undefined)
  return (
    <ListPage
      title="Subscriptions"
      lead="Quotas at providers that are paid for ahead, and how much of them is used."
      actions={
        <Act kind="main" icon="plus" needs="subscriptions:write" onClick={() => setShown({ what: "create" })}>
          Add a subscription
        </Act>
      }
      name="subscriptions.list"
      searches="Name, provider or plan"
      order="-createdAt"
      filters={<TenantChoice value={values.tenantId} onChange={(value) => set("tenantId", value)} />}
      input={{ query: { ...values, limit: 20 } }}
      isFiltered={isFiltered}
      label="Subscriptions"
      keyOf={({ id }) => id}
      rowClass={({ status }) => (status === "ended" ? "gone" : undefined)}
      empty={
        <Empty title="There is no subscription yet">
          <p>With one, routing can use what is already paid for before what is paid by use.</p>
        </Empty>
      }
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
        { title: "Status", cell: ({ status }) => <span className={`tag ${tones[status]}`}>{status}</span> },
        { title: "Use", isWide: true, cell: (of) => <Use of={of} /> },
        {
          title: "Each period",
          cell: ({ pending, period, priceUsd, quota }) => (
            <>
              {quantity(quota.amount, quota.unit)}
              <br />
              <small>
                {usd(priceUsd)} a {period}
              </small>
              {pending === null ? null : (
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
        },
        {
          title: "",
          isNumber: true,
          cell: (of) => (
            <span className="acts">
              <Act needs="subscriptions:write" onClick={() => setShown({ what: "edit", of })}>
                Edit
              </Act>
              <Act needs="subscriptions:write" kind="bad" onClick={() => setShown({ what: "delete", of })}>
                Delete
              </Act>
            </span>
          )
        }
      ]}
    >
      {shown?.what === "create" ? <SubscriptionForm onClose={close} /> : null}
      {shown?.what === "edit" ? <SubscriptionForm of={shown.of} onClose={close} /> : null}
      {shown?.what === "delete" ? (
        <Confirm
          name="subscriptions.delete"
          input={{ params: { id: shown.of.id } }}
          title={`Delete ${shown.of.name}`}
          action="Delete the subscription"
          done={`${shown.of.name} is deleted`}
          onClose={close}
        >
          <p>
            Routing no longer prefers {shown.of.provider} for its quota of{" "}
            {quantity(shown.of.quota.amount, shown.of.quota.unit)}. What was used under it stays in the reports; nothing
            is cancelled at the provider.
          </p>
        </Confirm>
      ) : null}
    </ListPage>
  )
}
