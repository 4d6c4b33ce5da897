import { Link, useLocation, useSearchParams } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { Act, TabLinks } from "../../kit/actions.tsx"
import { Cut, Moment } from "../../kit/format.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { isBuiltIn } from "../../kit/names/built-in.ts"
import { NameLink, Soft, Tag } from "../../kit/parts.tsx"
import { RegistrationTokens } from "./registration-tokens.tsx"

/** The tone of each status of an application. */
export const applicationTones = { active: "ok", pending: "warn", rejected: "", suspended: "bad" } as const

const { Dialog, Field } = formOf("applications.create")

const Create = () => {
  const [, go] = useLocation()
  return (
    <Dialog title="Make an application" action="Make the application" onDone={({ id }) => go(`/applications/${id}`)}>
      <Field label="Name" name="name" placeholder="Billing portal" />
      <Field
        label="Short name"
        name="slug"
        maxLength={63}
        placeholder="billing-portal"
        hint="For addresses; made of the name when empty"
      />
      <Field label="Description" name="description" />
    </Dialog>
  )
}

/** Says that applications which registered themselves wait for a decision. */
const Waiting = () => {
  const { data } = useCall("applications.list", { query: { status: "pending", limit: 200 } }, { everySeconds: 30 })
  const waiting = data?.items.length ?? 0
  return waiting === 0 ? null : (
    <div className="note">
      <Tag tone="warn">{waiting} waiting</Tag>
      <span>{waiting === 1 ? "An application waits" : "Applications wait"} for an approval.</span>
      <Link className="btn" href="/applications?status=pending">
        Review
      </Link>
    </div>
  )
}

const Above = () => (
  <>
    <Waiting />
    <TabLinks
      label="About applications"
      tabs={[
        ["applications", "Applications"],
        ["tokens", "Registration tokens"]
      ]}
    />
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
      actions={
        <Act kind="main" icon="plus" needs="applications:write" opens={<Create />}>
          Make an application
        </Act>
      }
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
            <>
              <Tag tone={applicationTones[status]}>{status}</Tag> {isBuiltIn({ slug }) ? <small>built in</small> : null}
            </>
          )
        },
        {
          title: "Short name",
          cell: ({ slug }) => (
            <code className="cut" title={slug}>
              {slug}
            </code>
          )
        },
        {
          title: "Description",
          cell: ({ description }) => (description === "" ? <Soft>none</Soft> : <Cut text={description} />)
        },
        { title: "Made", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} /> }
      ]}
    />
  )
}
