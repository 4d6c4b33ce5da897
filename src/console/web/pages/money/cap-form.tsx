import { type ReactNode, useState } from "react"
import { useCall } from "../../api/hooks.ts"
import { type Payload, type Row } from "../../api/operations.ts"
import { timeZones } from "../../kit/format.tsx"
import { SelectField, TextField, textOf } from "../../kit/forms/form.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { useAgents, useApiKeys, useApplications } from "../../kit/names/names.tsx"
import { TenantField } from "../../kit/names/tenants.tsx"

type Cap = Row<"budgetCaps.list">
type NewCap = Payload<"budgetCaps.create">

type Threshold = NonNullable<NewCap["alertThresholds"]>[number]

const create = formOf("budgetCaps.create")
const update = formOf("budgetCaps.update")

const measures = ["spent", "committed", "forecast"] as const
const measureNames = { spent: "Spent", committed: "Spent and reserved", forecast: "Forecast of the period" } as const
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

const thresholdsOf = (data: FormData): ReadonlyArray<Threshold> =>
  measures.flatMap((measure) =>
    (textOf(data, measure) ?? "")
      .split(/[\s,;%]+/)
      .filter((text) => text !== "")
      .map((text) => ({ measure, percent: Number(text) }))
  )

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
          <create.Field label="Window in seconds" name="windowSeconds" required defaultValue={3600} />
        ) : period in anchors ? (
          <create.Field label="Begins" name="anchor" defaultValue={1} hint={anchors[period]} />
        ) : null}
      </div>
      {period === "total" || period === "rolling" ? null : (
        <create.Field label="Time zone" name="timeZone" defaultValue="UTC" options={timeZones()} />
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
          <create.Field label="Agent" name="scope.agentId" options={[...everyOne, ...agents]} />
          <create.Field label="API key" name="scope.apiKeyId" options={[...everyOne, ...keys]} />
          <create.Field label="Application" name="scope.applicationId" options={[...everyOne, ...applications]} />
          <create.Field label="Model" name="scope.model" placeholder="any" />
          <create.Field label="Provider" name="scope.provider" placeholder="any" />
          <create.Field label="Task type" name="scope.taskType" placeholder="any" />
          <create.Field label="User" name="scope.userId" placeholder="any" />
        </div>
      </div>
    </details>
  )
}

/** The alerts of a cap: percentages of its limit, for each measure. */
const Alerts = ({ thresholds }: { readonly thresholds: ReadonlyArray<Threshold> }) => {
  const percents = (measure: string) =>
    thresholds
      .filter((threshold) => threshold.measure === measure)
      .map(({ percent }) => percent)
      .join(", ")
  return (
    <fieldset className="thresholds">
      <legend className="label">Alerts, at percent of the limit</legend>
      <div className="row3">
        {measures.map((measure) => (
          <TextField
            key={measure}
            label={measureNames[measure]}
            name={measure}
            member="alertThresholds"
            defaultValue={percents(measure)}
          />
        ))}
      </div>
    </fieldset>
  )
}

/** What a cap says when it is made and when it is changed. */
const Fields = ({ beside, label }: { readonly beside?: ReactNode; readonly label: string }) => (
  <>
    <create.Field label="Name" name="name" placeholder="All agents, monthly" />
    <div className="row2">
      <create.Field label={label} name="limit" />
      {beside}
    </div>
  </>
)

const Mode = ({ mode = "hard" }: { readonly mode?: Cap["mode"] }) => (
  <create.Field
    label="When it is full"
    name="mode"
    defaultValue={mode}
    options={{
      hard: "Refuse what is beyond",
      approval: "Hold what is beyond until it is approved",
      soft: "Only count and alert"
    }}
  />
)

export const MakeCap = ({ onClose }: { readonly onClose?: () => void }) => (
  <create.Dialog
    title="Make a cap"
    action="Make the cap"
    done="The cap is made"
    wide
    onClose={onClose}
    body={({ tenantId, ...body }, data) => ({
      scope: {},
      ...body,
      period: textOf(data, "period") as Cap["period"],
      alertThresholds: thresholdsOf(data),
      ...(tenantId === undefined ? {} : { tenantId: tenantId === "all" ? null : tenantId })
    })}
  >
    <Fields
      label="Limit"
      beside={
        <create.Field
          label="Counts"
          name="unit"
          options={{ usd: "US dollars", tokens: "Tokens", requests: "Requests" }}
        />
      }
    />
    <Terms />
    <Mode />
    <Alerts thresholds={[80, 100].map((percent) => ({ measure: "spent", percent }))} />
    <Scope />
    <TenantField others={[["all", "Over all tenants"]]} />
  </create.Dialog>
)

/** Changes a cap: what it counts stays as it was made. */
export const EditCap = ({ cap }: { readonly cap: Cap }) => {
  // After a refusal the newest version is read, so that a second attempt is based on it.
  const { version } = useCall("budgetCaps.get", { params: { id: cap.id } }).data ?? cap
  return (
    <update.Dialog
      title={`Edit ${cap.name}`}
      action="Save"
      done="The cap is changed"
      wide
      input={{ params: { id: cap.id }, headers: { "if-match": `"${version}"` } }}
      of={cap}
      body={(body, data) => ({ ...body, alertThresholds: thresholdsOf(data) })}
    >
      <Fields label={`Limit in ${cap.unit === "usd" ? "US dollars" : cap.unit}`} />
      <Mode mode={cap.mode} />
      <Alerts thresholds={cap.alertThresholds} />
    </update.Dialog>
  )
}
