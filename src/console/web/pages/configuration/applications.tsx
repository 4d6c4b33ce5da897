import { useState } from "react"
import { Link, useLocation, useSearchParams } from "wouter"
import { useCall, useChange } from "../../api/hooks.ts"
import { Act, FormActions, TabLinks } from "../../kit/actions.tsx"
import { isBuiltIn } from "../../kit/names/built-in.ts"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, textOf, TextField } from "../../kit/forms/form.tsx"
import { Cut, Moment } from "../../kit/format.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { Empty } from "../../kit/states.tsx"
import { RegistrationTokens } from "./registration-tokens.tsx"

/** The tone of each status of an application. */
export const applicationTones = { active: "ok", pending: "warn", rejected: "", suspended: "bad" } as const

const Create = ({ onClose }: { readonly onClose: () => void }) => {
  const [, go] = useLocation()
  const create = useChange("applications.create")
  const submit = (data: FormData) => {
    const slug = textOf(data, "slug")
    create.mutate(
      {
        body: {
          name: textOf(data, "name") ?? "",
          description: textOf(data, "description") ?? "",
          ...(slug === undefined ? {} : { slug })
        }
      },
      { onSuccess: ({ id }) => go(`/applications/${id}`) }
    )
  }
  return (
    <Dialog title="Make an application" onClose={onClose}>
      <Form
        cause={create.error}
        onSubmit={submit}
        actions={<FormActions action="Make the application" isPending={create.isPending} onClose={onClose} />}
      >
        <TextField label="Name" name="name" required maxLength={100} placeholder="Billing portal" />
        <TextField
          label="Short name"
          name="slug"
          maxLength={63}
          placeholder="billing-portal"
          hint="For addresses; made of the name when empty"
        />
        <TextField label="Description" name="description" maxLength={1000} />
      </Form>
    </Dialog>
  )
}

/** Says that applications which registered themselves wait for a decision. */
const Waiting = () => {
  const { data } = useCall("applications.list", { query: { status: "pending", limit: 200 } }, { everySeconds: 30 })
  const waiting = data?.items.length ?? 0
  return waiting === 0 ? null : (
    <div className="note">
      <span className="tag warn">{waiting} waiting</span>
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
  const filters = useFilters(["status"])
  const [search] = useSearchParams()
  const [isMaking, setMaking] = useState(false)
  if (search.get("tab") === "tokens") return <RegistrationTokens above={<Above />} />
  return (
    <ListPage
      title="Applications"
      lead="Each has roles, configuration and keys of its own."
      actions={
        <Act kind="main" icon="plus" needs="applications:write" onClick={() => setMaking(true)}>
          Make an application
        </Act>
      }
      above={<Above />}
      name="applications.list"
      searches="Name, short name or id"
      filters={
        <Choice
          label="Status"
          value={filters.values.status}
          onChange={(status) => filters.set("status", status)}
          options={["active", ["pending", "waiting for approval"], "suspended", "rejected"]}
        />
      }
      input={{ query: filters.values }}
      isFiltered={filters.isFiltered}
      label="Applications"
      keyOf={({ id }) => String(id)}
      empty={<Empty title="There is no application yet" />}
      columns={[
        {
          title: "Name",
          sort: "name",
          cell: ({ id, name }) => (
            <Link className="name" title={name} href={`/applications/${id}`}>
              {name}
            </Link>
          )
        },
        {
          title: "Status",
          cell: ({ slug, status }) => (
            <>
              <span className={`tag ${applicationTones[status]}`}>{status}</span>{" "}
              {isBuiltIn({ slug }) ? <small>built in</small> : null}
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
          cell: ({ description }) =>
            description === "" ? <span className="soft">none</span> : <Cut text={description} />
        },
        { title: "Made", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} /> }
      ]}
    >
      {isMaking ? <Create onClose={() => setMaking(false)} /> : null}
    </ListPage>
  )
}
