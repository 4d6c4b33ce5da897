import { useChange } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, numberOf, SelectField, textOf, TextField } from "../../kit/forms/form.tsx"
import { TenantField } from "../../kit/names/tenants.tsx"

type Subscription = Row<"subscriptions.list">

const units = [
  ["tokens", "Tokens"],
  ["requests", "Requests"],
  ["usd", "US dollars"]
] as const
const periods = ["month", "day", "week", "quarter", "year"] as const

/** Adds a subscription, or changes one: another quota or price waits for the next period unless it is for now. */
export const SubscriptionForm = ({ of, onClose }: { readonly of?: Subscription; readonly onClose: () => void }) => {
  const create = useChange("subscriptions.create", "The subscription is added")
  const update = useChange("subscriptions.update", "The subscription is changed")
  const change = of === undefined ? create : update
  const submit = (data: FormData) => {
    const tenantId = textOf(data, "tenantId")
    const body = {
      provider: textOf(data, "provider") ?? "",
      name: textOf(data, "name") ?? "",
      plan: textOf(data, "plan") ?? null,
      priceUsd: numberOf(data, "priceUsd") ?? 0,
      quota: {
        unit: (textOf(data, "unit") ?? of?.quota.unit ?? "tokens") as Subscription["quota"]["unit"],
        amount: numberOf(data, "amount") ?? 0
      },
      period: (textOf(data, "period") ?? of?.period ?? "month") as Subscription["period"],
      overage: textOf(data, "overage") as Subscription["overage"]
    }
    if (of === undefined) {
      create.mutate({ body: { ...body, ...(tenantId === undefined ? {} : { tenantId }) } }, { onSuccess: onClose })
    } else {
      update.mutate(
        {
          params: { id: of.id },
          body: { ...body, effective: textOf(data, "effective") === "immediate" ? "immediate" : "next-period" }
        },
        { onSuccess: onClose }
      )
    }
  }
  return (
    <Dialog title={of === undefined ? "Add a subscription" : `Edit ${of.name}`} onClose={onClose} wide>
      <Form
        cause={change.error}
        onSubmit={submit}
        actions={
          <FormActions action={of === undefined ? "Add" : "Save"} isPending={change.isPending} onClose={onClose} />
        }
      >
        <div className="row2">
          <TextField label="Name" name="name" required maxLength={200} defaultValue={of?.name} />
          <TextField
            label="Provider"
            name="provider"
            required
            defaultValue={of?.provider}
            placeholder="openai"
            hint="Its id in the gateway's configuration"
          />
          <TextField
            label="Quota"
            name="amount"
            member="quota"
            type="number"
            min={0}
            step="any"
            required
            defaultValue={of?.pending?.quota.amount ?? of?.quota.amount}
          />
          <SelectField
            label="Counts"
            name="unit"
            member="quota.unit"
            defaultValue={(of?.pending?.quota ?? of?.quota)?.unit}
            options={units}
          />
          <TextField
            label="Price of a period in US dollars"
            name="priceUsd"
            type="number"
            min={0}
            step="any"
            required
            defaultValue={of?.pending?.priceUsd ?? of?.priceUsd}
          />
          <SelectField
            label="Period"
            name="period"
            defaultValue={of?.period}
            options={periods.map((name) => [name, `Each ${name}`])}
          />
          <TextField label="Plan" name="plan" maxLength={200} defaultValue={of?.plan ?? ""} placeholder="Scale" />
          <SelectField
            label="Beyond the quota"
            name="overage"
            defaultValue={of?.overage}
            options={[
              ["allow", "The provider is used all the same"],
              ["deny", "Routing passes it by"]
            ]}
          />
          {of === undefined ? (
            <TenantField />
          ) : (
            <SelectField
              label="A new quota or price applies"
              name="effective"
              options={[
                ["next-period", "From the next period on"],
                ["immediate", "At once"]
              ]}
            />
          )}
        </div>
      </Form>
    </Dialog>
  )
}
