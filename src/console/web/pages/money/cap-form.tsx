import { useState } from "react"
import { queries, useChange } from "../../api/hooks.ts"
import { type Payload, type Row } from "../../api/operations.ts"
import { FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, numberOf, SelectField, textOf, TextField } from "../../kit/forms/form.tsx"
import { timeZones } from "../../kit/format.tsx"
import { useAgents, useApiKeys, useApplications } from "../../kit/names/names.tsx"
import { TenantField } from "../../kit/names/tenants.tsx"

type Cap = Row<"budgetCaps.list">
type NewCap = Payload<"budgetCaps.create">

const measures = ["spent", "committed", "forecast"] as const
const periods = ["month", "minute", "hour", "day", "week", "quarter", "year", "total", "rolling"] as const
const periodNames = { total: "All time", rolling: "A rolling window" } as const

/** What is anchored where, by period. */
const anchors: Readonly<Record<string, string>> = {
  week: "Day of the week, 1 is Monday",
  month: "Day of the month",
  quarter: "First month of the year's first quarter",
  year: "First month"
}

const everyOne = [
  ["", "Any"],
  ["each", "Each by itself"]
] as const

const thresholdsOf = (data: FormData): NonNullable<NewCap["alertThresholds"]> =>
  measures.flatMap((measure) =>
    (textOf(data, measure) ?? "")
      .split(/[\s,;%]+/)
      .filter((text) => text !== "")
      .map((text) => ({ measure, percent: Number(text) }))
  )

const scopeOf = (data: FormData): NonNullable<NewCap["scope"]> => {
  const texts = ["agentId", "apiKeyId", "model", "provider", "taskType", "userId"].flatMap((name) => {
    const text = textOf(data, name)
    return text === undefined ? [] : [[name, text] as const]
  })
  const application = textOf(data, "applicationId")
  return {
    ...Object.fromEntries(texts),
    ...(application === undefined ? {} : { applicationId: application === "each" ? "each" : Number(application) })
  }
}

const Terms = () => {
  const [period, setPeriod] = useState<string>("month")
  return (
    <>
      <div className="row2">
        <SelectField
          label="Period"
          name="period"
          value={period}
          onChange={(event) => setPeriod(event.target.value)}
          options={periods.map((name) => [name, name in periodNames ? periodNames[name as "total"] : `Each ${name}`])}
        />
        {period === "rolling" ? (
          <TextField
            label="Window in seconds"
            name="windowSeconds"
            type="number"
            min={1}
            required
            defaultValue={3600}
          />
        ) : period in anchors ? (
          <TextField
            label="Begins"
            name="anchor"
            type="number"
            min={1}
            max={31}
            defaultValue={1}
            hint={anchors[period]}
          />
        ) : null}
      </div>
      {period === "total" || period === "rolling" ? null : (
        <SelectField
          label="Time zone"
          name="timeZone"
          defaultValue="UTC"
          options={timeZones().map((zone) => [zone, zone])}
        />
      )}
    </>
  )
}

const Scope = () => {
  const agents = useAgents()
  const keys = useApiKeys()
  const applications = useApplications()
  return (
    <details>
      <summary>Only some of the spend</summary>
      <div className="stack">
        <small>All that is named must match. Left as they are, the cap counts everything.</small>
        <div className="row2">
          <SelectField label="Agent" name="agentId" member="scope.agentId" options={[...everyOne, ...agents]} />
          <SelectField label="API key" name="apiKeyId" member="scope.apiKeyId" options={[...everyOne, ...keys]} />
          <SelectField
            label="Application"
            name="applicationId"
            member="scope.applicationId"
            options={[...everyOne, ...applications]}
          />
          <TextField label="Model" name="model" member="scope.model" placeholder="any" />
          <TextField label="Provider" name="provider" member="scope.provider" placeholder="any" />
          <TextField label="Task type" name="taskType" member="scope.taskType" placeholder="any" />
          <TextField label="User" name="userId" member="scope.userId" placeholder="any" />
        </div>
      </div>
    </details>
  )
}

/** Makes a cap, or changes one: what it counts stays as it was made. */
export const CapForm = ({ cap, onClose }: { readonly cap?: Cap; readonly onClose: () => void }) => {
  const create = useChange("budgetCaps.create", "The cap is made")
  const update = useChange("budgetCaps.update", "The cap is changed")
  const change = cap === undefined ? create : update
  const submit = (data: FormData) => {
    const shared = {
      name: textOf(data, "name") ?? "",
      limit: numberOf(data, "limit") ?? 0,
      mode: textOf(data, "mode") as Cap["mode"],
      alertThresholds: thresholdsOf(data)
    }
    if (cap !== undefined) {
      update.mutate(
        { params: { id: cap.id }, headers: { "if-match": `"${cap.version}"` }, body: shared },
        // After a refusal the newest version is shown, so that a second attempt is based on it.
        { onSuccess: onClose, onError: () => void queries.invalidateQueries() }
      )
      return
    }
    const anchor = numberOf(data, "anchor")
    const windowSeconds = numberOf(data, "windowSeconds")
    const timeZone = textOf(data, "timeZone")
    const of = textOf(data, "tenantId")
    create.mutate(
      {
        body: {
          ...shared,
          scope: scopeOf(data),
          unit: textOf(data, "unit") as Cap["unit"],
          period: textOf(data, "period") as Cap["period"],
          ...(anchor === undefined ? {} : { anchor }),
          ...(windowSeconds === undefined ? {} : { windowSeconds }),
          ...(timeZone === undefined ? {} : { timeZone }),
          ...(of === undefined ? {} : { tenantId: of === "all" ? null : of })
        }
      },
      { onSuccess: onClose }
    )
  }
  const percents = (measure: string) =>
    cap === undefined
      ? measure === "spent"
        ? "80, 100"
        : ""
      : cap.alertThresholds
          .filter((threshold) => threshold.measure === measure)
          .map(({ percent }) => percent)
          .join(", ")
  return (
    <Dialog title={cap === undefined ? "Make a cap" : `Edit ${cap.name}`} onClose={onClose} wide>
      <Form
        cause={change.error}
        onSubmit={submit}
        actions={
          <FormActions
            action={cap === undefined ? "Make the cap" : "Save"}
            isPending={change.isPending}
            onClose={onClose}
          />
        }
      >
        <TextField
          label="Name"
          name="name"
          required
          maxLength={200}
          defaultValue={cap?.name}
          placeholder="All agents, monthly"
        />
        <div className="row2">
          <TextField
            label={cap === undefined ? "Limit" : `Limit in ${cap.unit === "usd" ? "US dollars" : cap.unit}`}
            name="limit"
            type="number"
            min={0}
            step="any"
            required
            defaultValue={cap?.limit}
          />
          {cap === undefined ? (
            <SelectField
              label="Counts"
              name="unit"
              options={[
                ["usd", "US dollars"],
                ["tokens", "Tokens"],
                ["requests", "Requests"]
              ]}
            />
          ) : null}
        </div>
        {cap === undefined ? <Terms /> : null}
        <SelectField
          label="When it is full"
          name="mode"
          defaultValue={cap?.mode ?? "hard"}
          options={[
            ["hard", "Refuse what is beyond"],
            ["approval", "Hold what is beyond until it is approved"],
            ["soft", "Only count and alert"]
          ]}
        />
        <fieldset className="thresholds">
          <legend className="label">Alerts, at percent of the limit</legend>
          <div className="row3">
            <TextField label="Spent" name="spent" member="alertThresholds" defaultValue={percents("spent")} />
            <TextField
              label="Spent and reserved"
              name="committed"
              member="alertThresholds"
              defaultValue={percents("committed")}
            />
            <TextField
              label="Forecast of the period"
              name="forecast"
              member="alertThresholds"
              defaultValue={percents("forecast")}
            />
          </div>
        </fieldset>
        {cap === undefined ? <Scope /> : null}
        {cap === undefined ? <TenantField others={[["all", "Over all tenants"]]} /> : null}
      </Form>
    </Dialog>
  )
}
