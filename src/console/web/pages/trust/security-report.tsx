import { Link, useParams } from "wouter"
import { type Row } from "../../api/operations.ts"
import { CopyCurl, Download, type Of } from "../../kit/actions.tsx"
import { count, short, words } from "../../kit/format.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { useFilters } from "../../kit/lists/filters.tsx"
import { List } from "../../kit/lists/list.tsx"
import { Named } from "../../kit/names/names.tsx"
import { DetailPage, Noted, Tag } from "../../kit/parts.tsx"
import { severities } from "./security.tsx"

const tones = { critical: "bad", high: "bad", medium: "warn", low: "" } as const
const { Act: DialogAct, Field } = formOf("security.decide")

const Decide = ({ of }: Of<Row<"security.listFindings">>) => (
  <DialogAct
    label="Decide"
    needs="security:write"
    title={`${words(of.rule)}: ${of.resource.name ?? of.resource.kind}`}
    action="Save"
    done="Saved"
    input={{ params: { id: of.id } }}
    of={{ reason: of.reason, until: null }}
  >
    <p>{of.evidence}.</p>
    <p>{of.remedy}</p>
    <Field
      label="Status"
      name="status"
      defaultValue={of.status === "open" ? "acknowledged" : of.status}
      options={{
        acknowledged: "acknowledged: it is known",
        suppressed: "suppressed: it does not apply here",
        open: "open"
      }}
    />
    <Field label="Reason" name="reason" />
    <Field label="Until" name="until" hint="Local time; empty for no end" />
  </DialogAct>
)

const Findings = ({ id }: { readonly id: string }) => {
  const { set } = useFilters(["rule"])
  return (
    <List
      name="security.listFindings"
      input={{ params: { id } }}
      filters={[
        { key: "severity", label: "Severity", options: severities },
        { key: "status", label: "Status", options: ["open", "acknowledged", "suppressed"] },
        { key: "rule", label: "Rule" }
      ]}
      label="Findings"
      empty={["Nothing was found", "No identity breaks a rule of this report."]}
      columns={[
        { title: "Severity", cell: ({ severity }) => <Tag tone={tones[severity]}>{severity}</Tag> },
        {
          title: "Rule",
          cell: ({ owasp, rule }) => (
            <button type="button" className="link" title={owasp} onClick={() => set("rule", rule)}>
              {words(rule)}
            </button>
          )
        },
        {
          title: "Identity",
          cell: ({ resource }) => (
            <Noted
              value={
                resource.kind === "agent" || resource.kind === "api-key" ? (
                  <Named className="name" kind={resource.kind} id={resource.id} />
                ) : (
                  <strong title={resource.id}>{resource.name ?? short(resource.id)}</strong>
                )
              }
              note={words(resource.kind).toLowerCase()}
            />
          )
        },
        {
          title: "Why",
          cell: ({ evidence, remedy }) => (
            <div className="wrap" title={remedy}>
              {evidence}
            </div>
          )
        },
        { title: "Status", cell: ({ reason, status }) => <span title={reason ?? undefined}>{status}</span> }
      ]}
      acts={[Decide]}
    />
  )
}

/** The findings of one report. */
export default function Report() {
  const { id = "" } = useParams()
  const { values } = useFilters(["severity", "rule", "status"])
  return (
    <DetailPage
      name="security.getReport"
      what="Security report"
      everySeconds={10}
      title={({ kind }) => `${words(kind)} report`}
      lead={<Link href="/security">Security</Link>}
      copies={
        <>
          <CopyCurl name="security.listFindings" input={{ params: { id }, query: values }} />
          {(["csv", "sarif"] as const).map((format) => (
            <Download
              key={format}
              name="security.exportReport"
              input={{ params: { id }, query: { format } }}
              text={format.toUpperCase()}
            />
          ))}
        </>
      }
    >
      {({ checked, completedAt, findings }) => (
        <>
          <p className="soft">
            {completedAt === null
              ? "The report is being created."
              : `${count(checked)} identities were checked; open findings: ${severities.map((severity) => `${findings[severity]} ${severity}`).join(", ")}.`}
          </p>
          <Findings id={id} />
        </>
      )}
    </DetailPage>
  )
}
