import { Link } from "wouter"
import { type Row } from "../../api/operations.ts"
import { ButtonLink } from "../../kit/actions.tsx"
import { count, Moment, words } from "../../kit/format.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { PrincipalName } from "../../kit/names/names.tsx"
import { Soft, Tag } from "../../kit/parts.tsx"

const { Act: DialogAct, Field } = formOf("security.requestReport")

const kinds = { posture: "posture: all rules", keys: "keys", agents: "agents", access: "access" }

/** How grave findings are, the gravest first. */
export const severities = ["critical", "high", "medium", "low"] as const

const Request = () => (
  <DialogAct
    button="main"
    title="Create a report"
    label="Create a report"
    action="Create the report"
    done="The report is being created"
    needs="security:write"
  >
    <Field label="Kind" name="kind" options={kinds} />
  </DialogAct>
)

/** Reports on identities that are no people, and what is wrong with them. */
export default () => (
  <ListPage
    title="Security"
    lead="Keys, agents, credentials and webhooks: which are unused, too powerful, or without an owner."
    actions={
      <>
        <ButtonLink href="/security/inventory">Inventory</ButtonLink>
        <Request />
      </>
    }
    name="security.listReports"
    filters={[{ key: "kind", label: "Kind", options: kinds }]}
    everySeconds={5}
    label="Reports"
    empty={[
      "There is no report yet",
      "A report applies every rule to every identity that is not a person, and takes seconds."
    ]}
    columns={[
      {
        title: "Report",
        cell: ({ createdAt, id, kind }) => (
          <Link href={`/security/${id}`}>
            <strong>{words(kind)}</strong> <Moment at={createdAt} style="full" />
          </Link>
        )
      },
      { title: "Status", cell: ({ status }) => <Tag tone={status === "completed" ? "ok" : "warn"}>{status}</Tag> },
      { title: "Checked", isNumber: true, cell: ({ checked }) => count(checked) },
      ...severities.map((severity) => ({
        title: words(severity),
        isNumber: true,
        cell: ({ findings }: Row<"security.listReports">) =>
          findings[severity] === 0 ? <Soft>0</Soft> : <b>{count(findings[severity])}</b>
      })),
      { title: "By", cell: ({ createdBy }) => <PrincipalName name={createdBy} isPlain /> }
    ]}
  />
)
