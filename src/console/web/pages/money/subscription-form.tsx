import { type Row } from "../../api/operations.ts"
import { type Of } from "../../kit/actions.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { TenantField } from "../../kit/names/tenants.tsx"

type Subscription = Row<"subscriptions.list">

export const write = "subscriptions:write"
const create = formOf("subscriptions.create")
const update = formOf("subscriptions.update")

const periods = ["month", "day", "week", "quarter", "year"] as const

const Fields = () => (
  <>
    <create.Field label="Name" name="name" />
    <create.Field label="Provider" name="provider" placeholder="openai" hint="Its id in the gateway's configuration" />
    <create.Field label="Quota" name="quota.amount" />
    <create.Field
      label="Counts"
      name="quota.unit"
      options={{ tokens: "Tokens", requests: "Requests", usd: "US dollars" }}
    />
    <create.Field label="Price of a period in US dollars" name="priceUsd" />
    <create.Field label="Period" name="period" options={periods.map((name) => [name, `Each ${name}`])} />
    <create.Field label="Plan" name="plan" placeholder="Scale" />
    <create.Field
      label="Beyond the quota"
      name="overage"
      options={{ allow: "Keep using the provider", deny: "Route around the provider" }}
    />
  </>
)

export const AddSubscription = () => (
  <create.Make title="Add a subscription" action="Add" done="The subscription is added" wide needs={write}>
    <div className="row2">
      <Fields />
      <TenantField />
    </div>
  </create.Make>
)

/** Changes a subscription: another quota or price waits for the next period unless it is for now. */
export const EditSubscription = ({ of }: Of<Subscription>) => (
  <update.Change
    label="Edit"
    title={`Edit ${of.name}`}
    done="The subscription is changed"
    wide
    of={{ ...of, ...of.pending }}
    needs={write}
  >
    <div className="row2">
      <Fields />
      <update.Field
        label="A new quota or price applies"
        name="effective"
        options={{ "next-period": "From the next period on", immediate: "At once" }}
      />
    </div>
  </update.Change>
)
