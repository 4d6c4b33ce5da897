import { useMutation } from "@tanstack/react-query"
import { useState } from "react"
import { addressOf, send } from "../../api/client.ts"
import { useCall } from "../../api/hooks.ts"
import { useTenantScope } from "../../api/tenant-scope.ts"
import { CopyCurl } from "../../kit/actions.tsx"
import { save } from "../../kit/download.ts"
import { count, quantity, usd, Usd } from "../../kit/format.tsx"
import { CheckField, Form, SelectField, textOf } from "../../kit/forms/form.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { Table } from "../../kit/lists/table.tsx"
import { TenantName, useTenants } from "../../kit/names/tenants.tsx"
import { Page } from "../../kit/page.tsx"
import { Answered, Card, Note, PercentChange, Tile } from "../../kit/parts.tsx"
import { announce } from "../../kit/toast.tsx"
import { boundsOfMonth, lastMonths, nameOfMonth } from "./months.ts"

type Line = Readonly<Record<string, string | number | null>>
interface Report {
  readonly lines: ReadonlyArray<Line>
  readonly totals: { readonly costUsd: number }
  readonly providers?: ReadonlyArray<{
    readonly provider: string
    readonly days: number
    readonly settledDays: number
    readonly billedUsd: number
    readonly chargedUsd: number
    readonly differenceUsd: number
    readonly unexplainedUsd: number
  }>
}

const groupings = [
  "tenant",
  "agent",
  "model",
  "provider",
  "task-type",
  "application",
  "api-key",
  "user",
  "day"
] as const
const formats = { csv: "CSV", json: "JSON", focus: "FOCUS (CSV)" }
const shownLines = 200

const fetchReport = async (body: object, name: string, isSigned: boolean): Promise<void> => {
  const [method, path] = addressOf("billing.report", {})
  const answer = await send(path, {
    method,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body)
  })
  save(await answer.blob(), name)
  const statement = /<([^>]*)>;\s*rel="?describedby/.exec(answer.headers.get("link") ?? "")?.[1]
  if (!isSigned || statement === undefined) return
  const { pathname } = new URL(statement, location.href)
  save(await (await send(pathname)).blob(), `${name}.statement.json`)
}

interface Shown {
  readonly lines: ReadonlyArray<Line>
  readonly title: string
}

const Lines = ({ lines, title }: Shown) => (
  <Card title={title}>
    <Table
      label="Charges of the month"
      rows={lines.slice(0, shownLines)}
      keyOf={({ model, provider, tenantId: of }) => JSON.stringify([of, provider, model])}
      empty="Nothing was charged in this month"
      columns={[
        { title: "Tenant", cell: ({ tenantId: of }) => (of == null ? "none" : <TenantName id={String(of)} />) },
        { title: "Provider", cell: ({ provider }) => provider ?? "none" },
        { title: "Model", cell: ({ model }) => model ?? "none" },
        { title: "Requests", isNumber: true, cell: ({ requests }) => count(Number(requests)) },
        { title: "Input", isNumber: true, cell: ({ inputTokens }) => count(Number(inputTokens ?? 0)) },
        { title: "Output", isNumber: true, cell: ({ outputTokens }) => count(Number(outputTokens ?? 0)) },
        { title: "Cost", isNumber: true, cell: ({ costUsd }) => <Usd amount={Number(costUsd)} /> }
      ]}
    />
    {lines.length > shownLines ? (
      <p className="pager">
        <small>
          The first {shownLines} lines are shown; the download contains all {count(lines.length)}.
        </small>
      </p>
    ) : null}
  </Card>
)

const costsOf = (lines: ReadonlyArray<Line>): ReadonlyMap<string, number> => {
  const costs = new Map<string, number>()
  for (const { costUsd, tenantId } of lines)
    costs.set(String(tenantId ?? ""), (costs.get(String(tenantId ?? "")) ?? 0) + Number(costUsd))
  return costs
}

interface Compared {
  readonly before: Report
  readonly now: Report
  readonly titles: readonly [now: string, before: string]
}

/** What each tenant is billed, the highest first, beside the month before. */
const Tenants = ({ before, now, titles }: Compared) => {
  const [costs, earlier] = [costsOf(now.lines), costsOf(before.lines)]
  const rows = Array.from(new Set([...costs.keys(), ...earlier.keys()]), (id) => {
    const [cost, was] = [costs.get(id) ?? 0, earlier.get(id) ?? 0]
    return { id, cost, was }
  }).toSorted((one, other) => other.cost - one.cost)
  return (
    <Card title="Bill per tenant">
      <Table
        label="Bill per tenant"
        rows={rows}
        keyOf={({ id }) => id}
        empty="Nothing was charged in these months"
        columns={[
          { title: "Tenant", cell: ({ id }) => (id === "" ? "none" : <TenantName id={id} />) },
          { title: titles[0], isNumber: true, cell: ({ cost }) => <Usd amount={cost} /> },
          { title: titles[1], isNumber: true, cell: ({ was }) => <Usd amount={was} /> },
          {
            title: "Change",
            isNumber: true,
            cell: ({ cost, was }) => (was > 0 ? <PercentChange percent={(100 * (cost - was)) / was} /> : "none")
          }
        ]}
      />
    </Card>
  )
}

/** What a month cost, equal to the ledger, to look at and to download. */
export default function Billing() {
  const months = lastMonths()
  const { set, values } = useFilters(["month", "tenantId"])
  const month = months.find((one) => one === values.month) ?? months[0]!
  const scope = useTenantScope()
  const tenantId = scope ?? values.tenantId
  const ofTenant = tenantId === undefined ? {} : { tenantId }
  const [format, setFormat] = useState("csv")
  const { tenants } = useTenants()
  const isChosen = tenants.length > 1 && scope === undefined
  const download = useMutation({
    mutationFn: (data: FormData) => {
      const isSigned = data.has("sign")
      const groupBy = groupings.filter((name) => data.has(`by-${name}`))
      const body = {
        ...boundsOfMonth(month),
        format,
        ...ofTenant,
        ...(format === "focus" || groupBy.length === 0 ? {} : { groupBy }),
        ...(format === "focus" ? { focusVersion: textOf(data, "focusVersion") } : {}),
        ...(isSigned ? { sign: true } : {})
      }
      const name = `billing-${month}${format === "focus" ? "-focus" : ""}.${format === "json" ? "json" : "csv"}`
      return fetchReport(body, name, isSigned)
    },
    onSuccess: () => announce("The report is downloaded")
  })
  const groupBy = ["tenant", "provider", "model"] as const
  const body = { ...boundsOfMonth(month), format: "json", groupBy, ...ofTenant } as const
  const report = useCall("billing.report", { body })
  const monthBefore = months[months.indexOf(month) + 1]
  const before = useCall(
    "billing.report",
    { body: { ...boundsOfMonth(monthBefore ?? month), format: "json", groupBy: ["tenant"], ...ofTenant } },
    { enabled: monthBefore !== undefined }
  ).data as Report | undefined
  return (
    <Page
      title="Billing report"
      lead="What was charged and refunded in a calendar month (UTC). It matches the ledger to the nano-dollar."
      actions={
        <CopyCurl name="billing.report" input={{ body: { ...boundsOfMonth(month), format: "csv", ...ofTenant } }} />
      }
    >
      <div className="filters">
        <Choice
          isRequired
          label="Month"
          value={month}
          options={months.map((name) => [name, nameOfMonth(name)])}
          onChange={(name) => set("month", name)}
        />
        {isChosen ? (
          <Choice label="Tenant" value={tenantId} options={tenants} onChange={(id) => set("tenantId", id)} />
        ) : null}
      </div>
      <Answered asked={report} rows={2}>
        {(answer) => (
          <div className="grid">
            <Tile
              label={`Charged in ${nameOfMonth(month)}${month === months[0] ? " so far" : ""}`}
              value={<Usd amount={(answer as Report).totals.costUsd} />}
              detail={
                before === undefined || monthBefore === undefined ? (
                  "net of refunds"
                ) : (
                  <>
                    net of refunds; <Usd amount={before.totals.costUsd} /> in {nameOfMonth(monthBefore)}
                  </>
                )
              }
            />
          </div>
        )}
      </Answered>
      {(report.data as Report | undefined)?.providers?.map(
        ({ billedUsd, chargedUsd, days, differenceUsd, provider, settledDays, unexplainedUsd }) => (
          <Note
            key={provider}
            tag={`bill of ${provider}`}
            link={[`/reconciliation?${new URLSearchParams({ month, provider })}`, "Compare"]}
          >
            The provider says {usd(billedUsd)} for {quantity(days, "days")} ({count(settledDays)} settled), and{" "}
            {usd(chargedUsd)} was charged: the difference is {usd(differenceUsd)}, of which {usd(unexplainedUsd)} is
            unexplained.
          </Note>
        )
      )}
      <section className="card">
        <Form
          cause={download.error}
          onSubmit={(data) => download.mutate(data)}
          actions={
            <button type="submit" className="btn main" disabled={download.isPending}>
              {download.isPending ? "Preparing …" : "Download"}
            </button>
          }
        >
          <div className="row3">
            <SelectField
              label="Format"
              value={format}
              onChange={(event) => setFormat(event.target.value)}
              options={formats}
            />
            {format === "focus" ? (
              <SelectField label="FOCUS version" name="focusVersion" options={["1.4", "1.2"]} />
            ) : null}
          </div>
          {format === "focus" ? null : (
            <fieldset>
              <legend className="label">Group by</legend>
              <div className="choices">
                {groupings.map((name) => (
                  <CheckField
                    key={name}
                    label={name.replace("-", " ")}
                    name={`by-${name}`}
                    defaultChecked={name === "tenant" || name === "model"}
                  />
                ))}
              </div>
              <small>If none is selected, there is one line for each charge and refund.</small>
            </fieldset>
          )}
          <CheckField
            label="Sign it"
            name="sign"
            hint="A statement with the digest of the report comes as a second file, signed with the attestation key"
          />
        </Form>
      </section>
      {report.data === undefined ||
      before === undefined ||
      monthBefore === undefined ||
      !isChosen ||
      tenantId !== undefined ? null : (
        <Tenants now={report.data as Report} before={before} titles={[nameOfMonth(month), nameOfMonth(monthBefore)]} />
      )}
      {report.data === undefined ? null : <Lines title={nameOfMonth(month)} lines={(report.data as Report).lines} />}
    </Page>
  )
}
