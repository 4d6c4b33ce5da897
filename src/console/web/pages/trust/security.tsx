import { useState } from "react"
import { Link, useLocation } from "wouter"
import { addressOf } from "../../api/client.ts"
import { useCall, useChange } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { Act, CopyCurl, FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, instantOf, SelectField, textOf, TextField } from "../../kit/forms/form.tsx"
import { count, Moment, short, words } from "../../kit/format.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { List } from "../../kit/lists/list.tsx"
import { Answered, Empty } from "../../kit/states.tsx"
import { Page } from "../../kit/page.tsx"

const kinds = [
  ["posture", "posture: all rules"],
  ["keys", "keys"],
  ["agents", "agents"],
  ["access", "access"]
] as const
const severities = ["critical", "high", "medium", "low"] as const
const tones = { critical: "bad", high: "bad", medium: "warn", low: "" } as const

type Finding = Row<"security.listFindings">

/** Reports on identities that are no people, and what is wrong with them. */
export default function Security() {
  const { isFiltered, set, values } = useFilters(["kind"] as const)
  const [isAsking, setAsking] = useState(false)
  const request = useChange("security.requestReport", "The report is being made")
  return (
    <Page
      title="Security"
      lead="Keys, agents, credentials and webhooks: which are unused, too powerful, or without an owner."
      actions={
        <>
          <CopyCurl name="security.listReports" input={{}} />
          <Link className="btn" href="/security/inventory">
            Inventory
          </Link>
          <Act kind="main" needs="security:write" onClick={() => setAsking(true)}>
            Make a report
          </Act>
        </>
      }
    >
      <div className="filters">
        <Choice label="Kind" value={values.kind} onChange={(value) => set("kind", value)} options={kinds} />
      </div>
      <List
        name="security.listReports"
        input={{ query: values }}
        isFiltered={isFiltered}
        everySeconds={5}
        label="Reports"
        keyOf={({ id }) => id}
        empty={
          <Empty title="There is no report yet">
            <p>A report applies every rule to every identity that is no person, and takes seconds.</p>
          </Empty>
        }
        columns={[
          {
            title: "Report",
            cell: ({ createdAt, id, kind }) => (
              <Link href={`/security/${id}`}>
                <strong>{words(kind)}</strong> <Moment at={createdAt} style="full" />
              </Link>
            )
          },
          {
            title: "Status",
            cell: ({ status }) => <span className={`tag ${status === "completed" ? "ok" : "warn"}`}>{status}</span>
          },
          { title: "Checked", isNumber: true, cell: ({ checked }) => count(checked) },
          ...severities.map((severity) => ({
            title: words(severity),
            isNumber: true,
            cell: ({ findings }: Row<"security.listReports">) =>
              findings[severity] === 0 ? <span className="soft">0</span> : <b>{count(findings[severity])}</b>
          })),
          { title: "By", cell: ({ createdBy }) => <small title={createdBy}>{short(createdBy)}</small> }
        ]}
      />
      {isAsking ? (
        <Dialog title="Make a report" onClose={() => setAsking(false)}>
          <Form
            cause={request.error}
            actions={<FormActions action="Make it" isPending={request.isPending} onClose={() => setAsking(false)} />}
            onSubmit={(data) =>
              request.mutate(
                { body: { kind: kinds.find(([kind]) => kind === data.get("kind"))?.[0] ?? "posture" } },
                { onSuccess: () => setAsking(false) }
              )
            }
          >
            <SelectField label="Kind" name="kind" options={kinds} />
          </Form>
        </Dialog>
      ) : null}
    </Page>
  )
}

const Decide = ({ of, onClose }: { readonly of: Finding; readonly onClose: () => void }) => {
  const decide = useChange("security.decide", "Saved")
  return (
    <Dialog title={`${words(of.rule)}: ${of.resource.name ?? of.resource.kind}`} onClose={onClose}>
      <Form
        cause={decide.error}
        actions={<FormActions action="Save" isPending={decide.isPending} onClose={onClose} />}
        onSubmit={(data) =>
          decide.mutate(
            {
              params: { id: of.id },
              body: {
                status:
                  (["open", "acknowledged", "suppressed"] as const).find((status) => status === data.get("status")) ??
                  "open",
                reason: textOf(data, "reason") ?? null,
                until: instantOf(data, "until") ?? null
              }
            },
            { onSuccess: onClose }
          )
        }
      >
        <p>{of.evidence}.</p>
        <p>{of.remedy}</p>
        <SelectField
          label="Status"
          name="status"
          defaultValue={of.status === "open" ? "acknowledged" : of.status}
          options={[
            ["acknowledged", "acknowledged: it is known"],
            ["suppressed", "suppressed: it does not apply here"],
            ["open", "open"]
          ]}
        />
        <TextField label="Reason" name="reason" maxLength={500} defaultValue={of.reason ?? ""} />
        <TextField label="Until" name="until" type="datetime-local" hint="Local time; empty for no end" />
      </Form>
    </Dialog>
  )
}

/** The findings of one report. */
export const Report = () => {
  const [path] = useLocation()
  const id = path.split("/").at(-1) ?? ""
  const asked = useCall("security.getReport", { params: { id } }, { everySeconds: 10 })
  const { isFiltered, set, values } = useFilters(["severity", "rule", "status"] as const)
  const [deciding, setDeciding] = useState<Finding>()
  return (
    <Page
      title={asked.data === undefined ? "Security report" : `${words(asked.data.kind)} report`}
      lead={<Link href="/security">Security</Link>}
      actions={
        <>
          <CopyCurl name="security.listFindings" input={{ params: { id }, query: values }} />
          {(["csv", "sarif"] as const).map((format) => (
            <a
              key={format}
              className="btn"
              download
              href={addressOf("security.exportReport", { params: { id }, query: { format } })[1]}
            >
              {format.toUpperCase()}
            </a>
          ))}
        </>
      }
    >
      <Answered asked={asked}>
        {({ checked, completedAt, findings }) => (
          <p className="soft">
            {completedAt === null
              ? "It is being made."
              : `${count(checked)} identities were checked; open are ${severities.map((severity) => `${findings[severity]} ${severity}`).join(", ")}.`}
          </p>
        )}
      </Answered>
      <div className="filters">
        <Choice
          label="Severity"
          value={values.severity}
          onChange={(value) => set("severity", value)}
          options={severities}
        />
        <Choice
          label="Status"
          value={values.status}
          onChange={(value) => set("status", value)}
          options={["open", "acknowledged", "suppressed"]}
        />
        {values.rule === undefined ? null : (
          <button type="button" className="pill on" onClick={() => set("rule", "")}>
            Rule: {values.rule}
          </button>
        )}
      </div>
      <List
        name="security.listFindings"
        input={{ params: { id }, query: values }}
        isFiltered={isFiltered}
        label="Findings"
        keyOf={({ id }) => id}
        empty={
          <Empty title="Nothing was found">
            <p>No identity breaks a rule of this report.</p>
          </Empty>
        }
        columns={[
          { title: "Severity", cell: ({ severity }) => <span className={`tag ${tones[severity]}`}>{severity}</span> },
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
              <>
                <strong>{resource.name ?? short(resource.id)}</strong> <small>{resource.kind}</small>
              </>
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
          { title: "Status", cell: ({ reason, status }) => <span title={reason ?? undefined}>{status}</span> },
          {
            title: "",
            isNumber: true,
            cell: (finding) => (
              <Act needs="security:write" onClick={() => setDeciding(finding)}>
                Decide
              </Act>
            )
          }
        ]}
      />
      {deciding === undefined ? null : <Decide of={deciding} onClose={() => setDeciding(undefined)} />}
    </Page>
  )
}

const identityKinds = ["agent", "agent-key", "api-key", "credential", "delegation", "webhook"] as const

/** Every identity that is no person. */
export const Inventory = () => {
  const { isFiltered, set, values } = useFilters(["kind"] as const)
  return (
    <Page
      title="Inventory"
      lead={<Link href="/security">Security</Link>}
      actions={<CopyCurl name="security.inventory" input={{ query: values }} />}
    >
      <div className="filters">
        <Choice
          label="Kind"
          value={values.kind}
          onChange={(value) => set("kind", value)}
          options={identityKinds.map((kind) => [kind, words(kind)])}
        />
      </div>
      <List
        name="security.inventory"
        input={{ query: values }}
        isFiltered={isFiltered}
        label="Identities"
        keyOf={({ id, kind }) => `${kind} ${id}`}
        empty={<Empty title="There is no identity but people" />}
        columns={[
          { title: "Kind", cell: ({ kind }) => words(kind) },
          { title: "Name", cell: ({ id, name }) => <span title={id}>{name ?? short(id)}</span> },
          {
            title: "Owner",
            cell: ({ owner, ownerIsLive }) =>
              owner === null ? (
                <span className="tag warn">no owner</span>
              ) : (
                <span title={owner}>
                  {short(owner)} {ownerIsLive === false ? <span className="tag warn">gone</span> : null}
                </span>
              )
          },
          { title: "Used", cell: ({ lastUsedAt }) => <Moment at={lastUsedAt} /> },
          { title: "Ends", cell: ({ expiresAt }) => <Moment at={expiresAt} style="date" /> },
          {
            title: "Granted",
            isNumber: true,
            cell: ({ scopesGranted }) => <span title={scopesGranted.join("\n")}>{count(scopesGranted.length)}</span>
          },
          {
            title: "Used in 90 days",
            isNumber: true,
            cell: ({ scopesUsed }) => <span title={scopesUsed.join("\n")}>{count(scopesUsed.length)}</span>
          }
        ]}
      />
    </Page>
  )
}
