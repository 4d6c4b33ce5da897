import { useState } from "react"
import { useCall, useRow } from "../../api/hooks.ts"
import { type Payload, type Row } from "../../api/operations.ts"
import { Act } from "../../kit/actions.tsx"
import { count, timeZones, usd } from "../../kit/format.tsx"
import { SelectField, TextField, textOf } from "../../kit/forms/form.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { dateIn, midnight } from "../../kit/lists/range.tsx"
import { mostNames, type Option, useTenants } from "../../kit/names/tenants.tsx"
import { useCan } from "../../shell/session.tsx"

type Cap = Row<"budgetCaps.list">
type NewCap = Payload<"budgetCaps.create">

type Threshold = NonNullable<NewCap["alertThresholds"]>[number]

/** What a cap is made for, where that is known: the thing of the page that its button is on. */
export interface CapTarget {
  readonly agentId?: string
  readonly apiKeyId?: string
  readonly applicationId?: number
  readonly model?: string
  /** What it is called. */
  readonly name?: string
  /** Whose it is; null of what belongs to no tenant. */
  readonly tenantId?: string | null
}

const create = formOf("budgetCaps.create")
const update = formOf("budgetCaps.update")

const measures = ["spent", "committed", "forecast"] as const
const measureNames = { spent: "Spent", committed: "Spent and reserved", forecast: "Forecast of the period" } as const
const periods = ["month", "minute", "hour", "day", "week", "quarter", "year", "total", "rolling"] as const
const periodNames = { total: "All time", rolling: "A rolling window" } as const
const adverbs: Readonly<Record<string, string>> = {
  minute: "each minute",
  hour: "hourly",
  day: "daily",
  week: "weekly",
  month: "monthly",
  quarter: "quarterly",
  year: "yearly",
  total: "all time",
  rolling: "rolling"
}

/** What is anchored where, by period. */
const anchors: Readonly<Record<string, string>> = {
  week: "Day of the week, 1 is Monday",
  month: "Day of the month",
  quarter: "First month of the year's first quarter",
  year: "First month"
}

const everyOne = [
  ["", "Any"],
  ["each", "Each separately"]
] as const

const thresholdsOf = (data: FormData): ReadonlyArray<Threshold> =>
  measures.flatMap((measure) =>
    (textOf(data, measure) ?? "")
      .split(/[\s,;%]+/)
      .filter((text) => text !== "")
      .map((text) => ({ measure, percent: Number(text) }))
  )

/** When a period is counted, as the form has it now. */
interface Terms {
  readonly anchor: number
  readonly period: string
  readonly timeZone: string
  readonly unit: string
  readonly windowSeconds: number
}

interface OfTerms {
  readonly onChange: (changed: Partial<Terms>) => void
  readonly terms: Terms
}

interface OfZone {
  readonly onChange: (zone: string) => void
  readonly value: string
}

/** A time zone, found by a part of its name. */
const ZoneField = ({ onChange, value }: OfZone) => {
  const [text, setText] = useState(value)
  return (
    <>
      <TextField
        label="Time zone"
        name="timeZone"
        data-member="text"
        list="time-zones"
        autoComplete="off"
        value={text}
        onChange={({ currentTarget: field }) => {
          const typed = field.value.trim().toLowerCase()
          const zone = timeZones().find((known) => known.toLowerCase() === typed)
          field.setCustomValidity(zone === undefined ? "Expected a time zone, such as Europe/Berlin" : "")
          setText(field.value)
          if (zone !== undefined) onChange(zone)
        }}
      />
      <datalist id="time-zones">
        {timeZones().map((zone) => (
          <option key={zone} value={zone} />
        ))}
      </datalist>
    </>
  )
}

const TermsFields = ({ onChange, terms: { anchor, period, timeZone, windowSeconds } }: OfTerms) => (
  <>
    <div className="row2">
      <SelectField
        label="Period"
        name="period"
        value={period}
        onChange={(event) => onChange({ period: event.target.value })}
        options={periods.map((name) => [name, name in periodNames ? periodNames[name as "total"] : `Each ${name}`])}
      />
      {period === "rolling" ? (
        <create.Field
          label="Window in seconds"
          name="windowSeconds"
          required
          defaultValue={windowSeconds}
          onChange={(event) => onChange({ windowSeconds: Number(event.target.value) })}
        />
      ) : period in anchors ? (
        <create.Field
          label="Begins"
          name="anchor"
          defaultValue={anchor}
          hint={anchors[period]}
          onChange={(event) => onChange({ anchor: Number(event.target.value) })}
        />
      ) : null}
    </div>
    {period === "total" || period === "rolling" ? null : (
      <ZoneField value={timeZone} onChange={(timeZone) => onChange({ timeZone })} />
    )}
  </>
)

const day = 86_400_000

const between = (from: number, to: number, end: number) => ({ from, to, end })
const instant = (at: number) => new Date(at).toISOString()

/** The last period that is over, and when the one that runs ends; undefined where a report has no such range. */
const closedPeriod = ({ anchor, period, timeZone, windowSeconds }: Terms, now: number) => {
  const [year = 0, month = 1, date = 1] = dateIn(timeZone, now).split("-").map(Number)
  const at = (months: number, days = 1) => midnight(timeZone, year, months, days)
  // Where a period begins elsewhere, that is the service's to reckon.
  if (anchor !== 1 && period in anchors) return undefined
  switch (period) {
    case "day":
      return between(at(month - 1, date - 1), at(month - 1, date), at(month - 1, date + 1))
    case "week": {
      const monday = date - ((new Date(Date.UTC(year, month - 1, date)).getUTCDay() + 6) % 7)
      return between(at(month - 1, monday - 7), at(month - 1, monday), at(month - 1, monday + 7))
    }
    case "month":
      return between(at(month - 2), at(month - 1), at(month))
    case "quarter": {
      const first = month - 1 - ((month - 1) % 3)
      return between(at(first - 3), at(first), at(first + 3))
    }
    case "year":
      return between(at(-12), at(0), at(12))
    case "rolling":
      return windowSeconds * 1000 >= day && windowSeconds * 1000 <= 400 * day
        ? between(now - windowSeconds * 1000, now, 0)
        : undefined
    default:
      return undefined
  }
}

const dates = (zone: string) => new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeZone: zone })

/** What the cap would have counted in the last period that is over, and from when it counts. */
const Past = ({
  scope,
  tenantId,
  terms
}: {
  readonly scope: Scope
  readonly tenantId: string
  readonly terms: Terms
}) => {
  const [now] = useState(Date.now)
  const found = closedPeriod(terms, now)
  const named = Object.fromEntries(Object.entries(scope).filter(([, value]) => value !== "" && value !== "each"))
  const hasEach = Object.values(scope).includes("each")
  const range = found && { from: instant(found.from), to: instant(found.to), timeZone: terms.timeZone }
  const { data } = useCall(
    "insights.overview",
    { query: { ...named, ...range, ...(tenantId === "all" || tenantId === "" ? {} : { tenantId }) } },
    { enabled: useCan()("insights:read") && found !== undefined }
  )
  const shown = dates(terms.timeZone)
  const { unit } = terms
  const totals = data?.totals
  const counted =
    totals === undefined
      ? undefined
      : unit === "usd"
        ? usd(totals.costUsd)
        : unit === "tokens"
          ? `${count(totals.inputTokens + totals.outputTokens)} tokens`
          : `${count(totals.requests)} requests`
  return (
    <p className="soft" role="status">
      {found === undefined || counted === undefined ? null : (
        <>
          {terms.period === "rolling"
            ? "In the window before now"
            : `In the last ${terms.period}, from ${shown.format(found.from)} until ${shown.format(found.to)},`}{" "}
          it would have counted <strong>{counted}</strong>
          {unit === "requests" ? "" : ` of ${count(totals?.requests ?? 0)} requests`}
          {hasEach ? ", all of them together" : ""}.{" "}
        </>
      )}
      It counts from now on; earlier spend does not count
      {found === undefined || found.end === 0 ? "" : `; the first ${terms.period} ends on ${shown.format(found.end)}`}.
    </p>
  )
}

/** What the scope says as long as the form is open; empty where it says nothing. */
type Scope = Readonly<Partial<Record<keyof NonNullable<NewCap["scope"]>, string>>>

interface Named {
  readonly id: string | number
  readonly name: string
  readonly tenantId?: string | null
}

/** What can be chosen, each with its tenant where there are several; of a tenant that was chosen, what is its own. */
const useTargets = (
  name: "agents.list" | "apiKeys.list" | "applications.list",
  needs: string,
  tenantId: string,
  given?: string
) => {
  const may = useCan()(needs)
  const { tenants } = useTenants()
  const { data } = useCall(name, mostNames, { enabled: may })
  const row = useRow(name, given ?? "", may && given !== undefined && given !== "" && given !== "each")
  const known: ReadonlyArray<Named> = data?.items ?? []
  const all = row != null && !known.some(({ id }) => id === row.id) ? [row as Named, ...known] : known
  const tenantOf = new Map(tenants)
  const options = all
    .filter((one) => tenantId === "" || one.tenantId === undefined || one.tenantId === tenantId)
    .map((one): Option => {
      const tenant =
        tenantId === "" && tenants.length > 1 && one.tenantId != null ? tenantOf.get(one.tenantId) : undefined
      return [String(one.id), tenant === undefined ? one.name : `${one.name} · ${tenant}`]
    })
  return { options, find: (id: string) => all.find((one) => String(one.id) === id) }
}

interface OfTarget {
  readonly onScope: (changed: Scope) => void
  readonly onTenant: (tenantId: string) => void
  readonly scope: Scope
  readonly tenantId: string
}

/** Whose spend the cap counts: the tenant, and who or what of it. */
const Target = ({ onScope, onTenant, scope, tenantId }: OfTarget) => {
  const { isComplete, isSystem, tenants } = useTenants()
  const agents = useTargets("agents.list", "agents:read", tenantId, scope.agentId)
  const keys = useTargets("apiKeys.list", "api-keys:read", tenantId, scope.apiKeyId)
  const applications = useTargets("applications.list", "applications:read", tenantId, scope.applicationId)
  const models = useCall("llm.models", {}, { enabled: useCan()("llm:read") }).data ?? []
  const choose = (member: "agentId" | "apiKeyId", find: (id: string) => Named | undefined) => (id: string) => {
    const home = find(id)?.tenantId
    if (home != null) onTenant(home)
    onScope({ [member]: id })
  }
  return (
    <fieldset>
      <legend className="label">Whose spend it counts</legend>
      <div className="row2">
        {!isSystem ? null : isComplete ? (
          <SelectField
            label="Tenant"
            name="tenantId"
            data-member="text"
            value={tenantId}
            onChange={(event) => {
              onTenant(event.target.value)
              // What is another tenant's would not be found there.
              onScope({
                ...(scope.agentId === "each" ? {} : { agentId: "" }),
                ...(scope.apiKeyId === "each" ? {} : { apiKeyId: "" })
              })
            }}
            options={[["", "The default tenant"], ["all", "Over all tenants"], ...tenants]}
          />
        ) : (
          <create.Field
            label="Tenant"
            name="tenantId"
            placeholder="The default tenant"
            hint="Its id"
            value={tenantId}
            onChange={(event) => onTenant(event.target.value)}
          />
        )}
        <SelectField
          label="Agent"
          name="scope.agentId"
          data-member="text"
          value={scope.agentId ?? ""}
          onChange={(event) => choose("agentId", agents.find)(event.target.value)}
          options={[...everyOne, ...agents.options]}
        />
        <SelectField
          label="API key"
          name="scope.apiKeyId"
          data-member="text"
          value={scope.apiKeyId ?? ""}
          onChange={(event) => choose("apiKeyId", keys.find)(event.target.value)}
          options={[...everyOne, ...keys.options]}
        />
        <TextField
          label="Model"
          name="scope.model"
          data-member="text"
          list="models-of-caps"
          placeholder="any"
          hint="“each” counts each separately"
          value={scope.model ?? ""}
          onChange={(event) => onScope({ model: event.target.value })}
        />
      </div>
      <datalist id="models-of-caps">
        {models.map(({ id }) => (
          <option key={id} value={id} />
        ))}
      </datalist>
      <details>
        <summary>Limit it to an application, provider, task type or user</summary>
        <div className="row2">
          <SelectField
            label="Application"
            name="scope.applicationId"
            data-member="text"
            value={scope.applicationId ?? ""}
            onChange={(event) => onScope({ applicationId: event.target.value })}
            options={[...everyOne, ...applications.options]}
          />
          {(["provider", "taskType", "userId"] as const).map((member) => (
            <TextField
              key={member}
              label={{ provider: "Provider", taskType: "Task type", userId: "User" }[member]}
              name={`scope.${member}`}
              data-member="text"
              placeholder="any"
              value={scope[member] ?? ""}
              onChange={(event) => onScope({ [member]: event.target.value })}
            />
          ))}
        </div>
        <small>All that is named must match.</small>
      </details>
    </fieldset>
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

const Mode = ({ mode = "hard" }: { readonly mode?: Cap["mode"] }) => (
  <create.Field
    label="When exceeded"
    name="mode"
    defaultValue={mode}
    options={{
      hard: "Refuse the request",
      approval: "Hold the request for approval",
      soft: "Only count and alert"
    }}
  />
)

/** The scope as the request takes it; undefined values are of members that it does not name. */
const scopeOf = (scope: Scope): NonNullable<NewCap["scope"]> =>
  Object.fromEntries(
    Object.entries(scope).flatMap(([name, value]) =>
      value === "" ? [] : [[name, name === "applicationId" && value !== "each" ? Number(value) : value]]
    )
  )

const initialScope = ({ agentId = "", apiKeyId = "", applicationId, model = "" }: CapTarget): Scope => ({
  agentId,
  apiKeyId,
  applicationId: applicationId === undefined ? "" : String(applicationId),
  model
})

const nameOf = (options: ReadonlyArray<Option>, id: string | undefined, each: string) =>
  id === "each" ? each : options.find(([value]) => value === id)?.[1].split(" · ")[0]

/** Makes a cap; where what it is for is known, it says so, and only the limit is asked. */
export const MakeCap = ({ onClose, target }: { readonly onClose?: () => void; readonly target?: CapTarget }) => {
  const { isSystem, tenants } = useTenants()
  const [tenantId, setTenant] = useState(target?.tenantId ?? "")
  const [scope, setScope] = useState<Scope>(initialScope(target ?? {}))
  const [terms, setTerms] = useState<Terms>({
    anchor: 1,
    period: "month",
    timeZone: "UTC",
    unit: "usd",
    windowSeconds: 3600
  })
  const [name, setName] = useState<string>()
  const change = (changed: Partial<Terms>) => setTerms({ ...terms, ...changed })
  const { options: agents } = useTargets("agents.list", "agents:read", "", scope.agentId)
  const { options: keys } = useTargets("apiKeys.list", "api-keys:read", "", scope.apiKeyId)
  const seesTenants = useCan()("tenants:read")
  const known = useCall("tenants.list", mostNames, { enabled: isSystem && seesTenants }).data?.items
  const defaultTenant = known?.find(({ slug }) => slug === "default")
  const counted = tenantId === "" && isSystem ? (defaultTenant?.id ?? "") : tenantId
  const tenantName = tenantId === "all" ? "All tenants" : tenants.find(([id]) => id === counted)?.[1]
  const named =
    target?.name ??
    nameOf(agents, scope.agentId, "Each agent") ??
    nameOf(keys, scope.apiKeyId, "Each key") ??
    (scope.model === "" ? undefined : scope.model)
  // Of what belongs to a tenant the tenant is known; a model is of all of them.
  const isKnown =
    target !== undefined &&
    (!isSystem || target.agentId !== undefined || target.apiKeyId !== undefined || target.model === undefined)
  const isTenant = Object.values(scope).every((value) => value === "")
  const suggested = `${named ?? tenantName ?? "Everything"}, ${adverbs[terms.period]}`
  return (
    <create.Dialog
      title={target === undefined || named === undefined ? "Create a cap" : `Set a cap for ${named}`}
      action="Create the cap"
      done="The cap is created"
      wide
      onClose={onClose}
      body={(body, data) => ({
        ...body,
        scope: scopeOf(scope),
        period: textOf(data, "period") as Cap["period"],
        alertThresholds: thresholdsOf(data),
        ...(tenantId === "" || !isSystem ? {} : { tenantId: tenantId === "all" ? null : tenantId })
      })}
    >
      {isKnown ? (
        <p>
          It counts {isTenant ? "all spend" : "the spend"} of <strong>{named}</strong>
          {isTenant || tenantName === undefined ? "" : ` of ${tenantName}`}, and nothing else.
        </p>
      ) : (
        <Target
          scope={scope}
          tenantId={tenantId}
          onScope={(changed) => setScope((before) => ({ ...before, ...changed }))}
          onTenant={setTenant}
        />
      )}
      <div className="row2">
        <create.Field label="Limit" name="limit" />
        <SelectField
          label="Counts"
          name="unit"
          data-member="text"
          value={terms.unit}
          onChange={(event) => change({ unit: event.target.value })}
          options={{ usd: "US dollars", tokens: "Tokens", requests: "Requests" }}
        />
      </div>
      <TermsFields terms={terms} onChange={change} />
      <Past scope={scope} tenantId={counted} terms={terms} />
      <Mode />
      <create.Field
        label="Name"
        name="name"
        value={name ?? suggested}
        onChange={(event) => setName(event.target.value)}
      />
      <Alerts thresholds={[80, 100].map((percent) => ({ measure: "spent", percent }))} />
    </create.Dialog>
  )
}

/** The button on the page of an agent, a key, a model or a tenant, which makes a cap for it. */
export const CapFor = ({ label = "Set a cap", of }: { readonly label?: string; readonly of: CapTarget }) => (
  <Act needs="budgets:write" opens={<MakeCap target={of} />}>
    {label}
  </Act>
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
      <update.Field label="Name" name="name" />
      <update.Field label={`Limit in ${cap.unit === "usd" ? "US dollars" : cap.unit}`} name="limit" />
      <Mode mode={cap.mode} />
      <Alerts thresholds={cap.alertThresholds} />
    </update.Dialog>
  )
}
