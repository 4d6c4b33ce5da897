import { useState } from "react"
import { useSearchParams } from "wouter"
import { useCall } from "../../../api/hooks.ts"
import { Act, CopyCurl } from "../../../kit/actions.tsx"
import { useDialogs } from "../../../kit/dialog.tsx"
import { textOf } from "../../../kit/forms/form.tsx"
import { Icon } from "../../../kit/icons.tsx"
import { withMembers } from "../../../kit/lists/filters.tsx"
import { isBuiltInRole, ownSlug } from "../../../kit/names/built-in.ts"
import { ApplicationChoice } from "../../../kit/names/names.tsx"
import { Page } from "../../../kit/page.tsx"
import { Answered, Nothing } from "../../../kit/parts.tsx"
import { Empty } from "../../../kit/states.tsx"
import { announce } from "../../../kit/toast.tsx"
import { type Application, differenceOf, knownIn, type Line, linesOf, type Role, toggled } from "./capabilities.ts"
import { Create, Edit, Review, write } from "./dialogs.tsx"
import { clamp, Matrix } from "./matrix.tsx"

const capabilityPattern = String.raw`[a-z0-9][a-z0-9._\-]*:([a-z0-9][a-z0-9._\-]*|\*)`

/** So many roles are beside each other; the others are on other pages. */
const rolesBeside = 8

interface OfRoles {
  readonly application: Application
  readonly roles: ReadonlyArray<Role>
}

const OfApplication = ({ application, roles }: OfRoles) => {
  const [edits, setEdits] = useState<ReadonlyMap<number, ReadonlySet<string>>>(new Map())
  const [added, setAdded] = useState<ReadonlyArray<string>>([])
  const [filter, setFilter] = useState("")
  const [search, setSearch] = useSearchParams()
  const first = clamp(Number(search.get("first") ?? 0) || 0, roles.length - 1)
  const page = (at: number) => setSearch((before) => withMembers(before, { first: String(at) }))
  const { open } = useDialogs()
  const isFixed = (role: Role) => isBuiltInRole(application, role)
  const every = linesOf(knownIn(application, roles, added))
  const wanted = filter.trim().toLowerCase()
  const lines =
    wanted === ""
      ? every
      : every.filter((line) =>
          line.kind === "group"
            ? line.members.some((member) => member.includes(wanted))
            : line.capability.includes(wanted)
        )
  const differences = roles
    .map((role) => differenceOf(role, edits.get(role.id) ?? new Set(role.capabilities)))
    .filter((difference) => difference.added.length + difference.removed.length > 0)
  const toggle = (role: Role, line: Line) => {
    if (isFixed(role)) {
      announce("A built-in role cannot be changed")
      return
    }
    const next = toggled(edits.get(role.id) ?? new Set(role.capabilities), line, every)
    if (next === undefined) announce("A wider line grants it; change that one")
    else setEdits((before) => new Map(before).set(role.id, next))
  }
  const forget = ({ id }: Role) =>
    setEdits((before) => {
      const next = new Map(before)
      next.delete(id)
      return next
    })
  return (
    <>
      <div className="filters">
        <span className="search">
          <Icon name="search" size={16} />
          <input
            type="search"
            aria-label="Filter capabilities"
            placeholder="Filter capabilities"
            value={filter}
            onChange={(event) => setFilter(event.target.value)}
          />
        </span>
        {application.slug === ownSlug ? null : (
          <form
            className="inline"
            onSubmit={(event) => {
              event.preventDefault()
              const capability = textOf(new FormData(event.currentTarget), "capability")
              if (capability !== undefined) setAdded([...added, capability])
              event.currentTarget.reset()
            }}
          >
            <input
              name="capability"
              aria-label="New capability"
              placeholder="invoices:read"
              pattern={capabilityPattern}
              title="<resource>:<action> in lower case"
              required
            />
            <button type="submit" className="btn">
              Add the capability
            </button>
          </form>
        )}
        {roles.length <= rolesBeside ? null : (
          <span className="acts" role="group" aria-label="Roles shown">
            <Act
              icon="previous"
              unless={first === 0 ? "These are the first" : undefined}
              onClick={() => page(Math.max(0, first - rolesBeside))}
            >
              Previous
            </Act>
            <small>
              {first + 1} to {Math.min(first + rolesBeside, roles.length)} of {roles.length} roles
            </small>
            <Act
              icon="next"
              unless={first + rolesBeside >= roles.length ? "These are the last" : undefined}
              onClick={() => page(first + rolesBeside)}
            >
              Next
            </Act>
          </span>
        )}
        <span className="acts end">
          {differences.length === 0 ? null : <Act onClick={() => setEdits(new Map())}>Discard the changes</Act>}
          <Act
            kind="main"
            needs={write}
            unless={differences.length === 0 ? "Nothing was changed" : undefined}
            opens={<Review differences={differences} edits={edits} onSaved={forget} />}
          >
            {differences.length === 0
              ? "Review and save"
              : `Review and save ${differences.length === 1 ? "1 role" : `${differences.length} roles`}`}
          </Act>
          <Create application={application} />
        </span>
      </div>
      <section className="card">
        {roles.length === 0 ? (
          <Nothing
            said={[
              `${application.name} has no role yet`,
              "A role is a list of capabilities; the application defines what they mean."
            ]}
          />
        ) : lines.length === 0 ? (
          <Nothing said={["Nothing matches", "Change or remove the filter."]} />
        ) : (
          <Matrix
            key={first}
            roles={roles.slice(first, first + rolesBeside)}
            lines={lines}
            edits={edits}
            isFixed={isFixed}
            onToggle={toggle}
            onOpen={(role) => open(<Edit role={role} isFixed={isFixed(role)} />)}
          />
        )}
      </section>
    </>
  )
}

/** The roles of an application and their capabilities. */
export default function Roles() {
  const [search, setSearch] = useSearchParams()
  const applications = useCall("applications.list", { query: { limit: 200 } })
  const asked = search.get("application")
  const items = applications.data?.items ?? []
  const application =
    items.find(({ id }) => String(id) === asked) ?? items.find(({ slug }) => slug === ownSlug) ?? items[0]
  const roles = useCall(
    "roles.list",
    { query: { applicationId: application?.id ?? 0 } },
    { enabled: application !== undefined }
  )
  return (
    <Page
      title="Roles"
      lead="What each role may do. Arrow keys move in the matrix, Space toggles."
      actions={
        <>
          <CopyCurl name="roles.list" input={{ query: { applicationId: application?.id ?? "" } }} />
          <ApplicationChoice
            className="fit"
            applications={items}
            value={application?.id}
            onChange={(id) => setSearch({ application: id })}
          />
        </>
      }
    >
      <Answered asked={applications.data === undefined ? applications : roles} rows={8}>
        {() =>
          application === undefined ? (
            <Empty title="There is no application" />
          ) : roles.data === undefined ? null : (
            <OfApplication key={application.id} application={application} roles={roles.data} />
          )
        }
      </Answered>
    </Page>
  )
}
