import { useSearchParams } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { TabLinks } from "../../kit/actions.tsx"
import { Cut, Moment } from "../../kit/format.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { isBuiltIn } from "../../kit/names/built-in.ts"
import { NameLink, Note, Noted, orNone, Tag } from "../../kit/parts.tsx"
import { RegistrationTokens } from "./registration-tokens.tsx"

/** The tone of each status of an application. */
export const applicationTones = { active: "ok", pending: "warn", rejected: "", suspended: "bad" } as const

const { Field, Make } = formOf("applications.create")

const Create = () => (
  <Make
    title="Create an application"
    action="Create the application"
    needs="applications:write"
    leads={({ id }) => `/applications/${id}`}
  >
    <Field label="Name" name="name" placeholder="Billing portal" />
    <Field
      label="Short name"
      name="slug"
      maxLength={63}
      placeholder="billing-portal"
      hint="For addresses; derived from the name when empty"
    />
    <Field label="Description" name="description" />
  </Make>
)

/** Says that applications which registered themselves wait for a decision. */
const Waiting = () => {
  const { data } = useCall("applications.list", { query: { status: "pending", limit: 200 } }, { everySeconds: 30 })
  const waiting = data?.items.length ?? 0
  return waiting === 0 ? null : (
    <Note tag={`${waiting} waiting`} link={["/applications?status=pending", "Review"]}>
      {waiting === 1 ? "An application waits" : "Applications wait"} for an approval.
    </Note>
  )
}

const Above = () => (
  <>
    <Waiting />
    <TabLinks label="About applications" tabs={{ applications: "Applications", tokens: "Registration tokens" }} />
  </>
)

/** The applications that are managed here, and the tokens with which others register themselves. */
export default function Applications() {
  const [search] = useSearchParams()
  if (search.get("tab") === "tokens") return <RegistrationTokens above={<Above />} />
  return (
    <ListPage
      title="Applications"
      lead="Each has roles, configuration and keys of its own."
      actions={<Create />}
      above={<Above />}
      name="applications.list"
      searches="Name, short name or id"
      filters={[
        {
          key: "status",
          label: "Status",
          options: ["active", ["pending", "waiting for approval"], "suspended", "rejected"]
        }
      ]}
      empty="There is no application yet"
      columns={[
        { title: "Name", sort: "name", cell: ({ id, name }) => <NameLink name={name} to={`/applications/${id}`} /> },
        {
          title: "Status",
          cell: ({ slug, status }) => (
            <Noted
              value={<Tag tone={applicationTones[status]}>{status}</Tag>}
              note={isBuiltIn({ slug }) ? "built in" : null}
            />
          )
        },
        { title: "Short name", cell: ({ slug }) => <Cut as="code" text={slug} /> },
        {
          title: "Description",
          cell: ({ description }) => orNone(description, (text) => <span className="wrap">{text}</span>)
        },
        { title: "Created", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} /> }
      ]}
    />
  )
}
