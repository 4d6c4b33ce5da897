import { useQueryClient } from "@tanstack/react-query"
import { type KeyboardEvent, useRef, useState } from "react"
import { useSearchParams } from "wouter"
import capabilities from "virtual:capabilities"
import { call } from "../../api/client.ts"
import { useCall, useChange } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { Act, Confirm, CopyCurl, FormActions } from "../../kit/actions.tsx"
import { isBuiltInRole, ownSlug } from "../../kit/names/built-in.ts"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, textOf, TextField } from "../../kit/forms/form.tsx"
import { words } from "../../kit/format.tsx"
import { Icon } from "../../kit/icons.tsx"
import { Answered, Empty } from "../../kit/states.tsx"
import { announce } from "../../kit/toast.tsx"
import { Page } from "../../kit/page.tsx"

type Role = Row<"roles.list">
type Application = Row<"applications.list">

const write = "roles:write"

/** A capability that a role can have, or a resource with all of its capabilities. */
type Line =
  | { readonly kind: "one"; readonly capability: string }
  | { readonly kind: "group"; readonly resource: string; readonly members: ReadonlyArray<string> }

const resourceOf = (capability: string) => capability.split(":")[0] ?? ""
const actionOf = (capability: string) => capability.split(":")[1] ?? ""

/** The lines of the matrix: what holds for every resource first, then each resource with its capabilities. */
const linesOf = (known: ReadonlyMap<string, ReadonlyArray<string>>): ReadonlyArray<Line> => {
  const lines: Array<Line> = []
  for (const [resource, actions] of known) {
    const members = actions.map((action) => `${resource}:${action}`)
    if (resource !== "*") lines.push({ kind: "group", resource, members })
    for (const capability of members) lines.push({ kind: "one", capability })
  }
  return lines
}

/** The capabilities that are known: those of this service, or those that the roles of another application name. */
const knownIn = (
  application: Application,
  roles: ReadonlyArray<Role>,
  added: ReadonlyArray<string>
): ReadonlyMap<string, ReadonlyArray<string>> => {
  const known = new Map<string, Array<string>>([["*", ["*", "read", "write"]]])
  const own = application.slug === ownSlug ? capabilities : {}
  for (const [resource, actions] of Object.entries(own)) known.set(resource, [...actions])
  const named = [...roles.flatMap((role) => role.capabilities), ...added]
  for (const capability of named.toSorted()) {
    const [resource, action] = [resourceOf(capability), actionOf(capability)]
    if (action === "*" && resource !== "*") {
      if (!known.has(resource)) known.set(resource, [])
      continue
    }
    const actions = known.get(resource)
    if (actions === undefined) known.set(resource, [action])
    else if (!actions.includes(action)) actions.push(action)
  }
  return known
}

type Held = "yes" | "no" | "by" | "some"

/** The entry of a role that covers a capability without being it. */
const coveredBy = (held: ReadonlySet<string>, capability: string): string | undefined => {
  const [resource, action] = [resourceOf(capability), actionOf(capability)]
  return [`${resource}:*`, `*:${action}`, "*:*"].find((wide) => wide !== capability && held.has(wide))
}

const stateOf = (held: ReadonlySet<string>, line: Line): Held => {
  if (line.kind === "one") {
    if (held.has(line.capability)) return "yes"
    return coveredBy(held, line.capability) === undefined ? "no" : "by"
  }
  if (held.has(`${line.resource}:*`)) return "yes"
  const has = line.members.filter((capability) => stateOf(held, { kind: "one", capability }) !== "no").length
  return has === 0 ? "no" : has === line.members.length ? "yes" : "some"
}

/** The capabilities after a line was switched; undefined where a wider entry keeps it as it is. */
const toggled = (
  held: ReadonlySet<string>,
  line: Line,
  lines: ReadonlyArray<Line>
): ReadonlySet<string> | undefined => {
  const next = new Set(held)
  if (line.kind === "group") {
    const isOn = stateOf(held, line) === "yes"
    if (isOn) {
      const wide = line.members.map((member) => coveredBy(held, member)).find((by) => by?.startsWith("*:"))
      if (wide !== undefined) return undefined
      next.delete(`${line.resource}:*`)
      for (const member of line.members) next.delete(member)
    } else for (const member of line.members) if (coveredBy(held, member) === undefined) next.add(member)
    return next
  }
  const { capability } = line
  if (next.delete(capability)) return next
  const by = coveredBy(held, capability)
  if (by === undefined) return next.add(capability)
  if (by.startsWith("*:")) return undefined
  // All of a resource but this: the others are named one by one.
  next.delete(by)
  for (const other of lines) {
    if (other.kind === "group" && other.resource === resourceOf(capability))
      for (const member of other.members) if (member !== capability) next.add(member)
  }
  return next
}

const marks: Record<Held, string> = { yes: "true", by: "true", some: "mixed", no: "false" }

interface Position {
  readonly row: number
  readonly column: number
}

const moves: Readonly<Record<string, Position>> = {
  ArrowUp: { row: -1, column: 0 },
  ArrowDown: { row: 1, column: 0 },
  ArrowLeft: { row: 0, column: -1 },
  ArrowRight: { row: 0, column: 1 },
  PageUp: { row: -10, column: 0 },
  PageDown: { row: 10, column: 0 }
}

const clamp = (value: number, most: number) => Math.min(Math.max(value, 0), most)

/** Roles by capabilities. Arrow keys move, Space switches, Home and End go to the first and last role. */
const Matrix = ({
  edits,
  isFixed,
  lines,
  onOpen,
  onToggle,
  roles
}: {
  readonly edits: ReadonlyMap<number, ReadonlySet<string>>
  readonly isFixed: (role: Role) => boolean
  readonly lines: ReadonlyArray<Line>
  readonly onOpen: (role: Role) => void
  readonly onToggle: (role: Role, line: Line) => void
  readonly roles: ReadonlyArray<Role>
}) => {
  const grid = useRef<HTMLTableElement>(null)
  const [at, setAt] = useState<Position>({ row: 0, column: 0 })
  const go = (row: number, column: number) => {
    const next = { row: clamp(row, lines.length - 1), column: clamp(column, roles.length - 1) }
    setAt(next)
    grid.current?.querySelector<HTMLElement>(`[data-cell="${next.row} ${next.column}"]`)?.focus()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const move = moves[event.key]
    if (move !== undefined) go(at.row + move.row, at.column + move.column)
    else if (event.key === "Home") go(event.ctrlKey ? 0 : at.row, 0)
    else if (event.key === "End") go(event.ctrlKey ? lines.length - 1 : at.row, roles.length - 1)
    else return
    event.preventDefault()
  }
  const held = roles.map((role) => {
    const before = new Set(role.capabilities)
    return { role, before, now: edits.get(role.id) ?? before }
  })
  return (
    <div className="scroll matrix">
      <table ref={grid} role="grid" aria-label="Roles by capabilities">
        <thead>
          <tr>
            <th scope="col">Capability</th>
            {roles.map((role) => (
              <th key={role.id} scope="col">
                <button type="button" className="btn quiet" title={role.name} onClick={() => onOpen(role)}>
                  {role.name}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody onKeyDown={onKeyDown}>
          {lines.map((line, row) => {
            const title = line.kind === "group" ? `all of ${line.resource}` : line.capability
            return (
              <tr key={title} className={line.kind === "group" ? "group" : undefined}>
                <th scope="row">{line.kind === "group" ? words(line.resource) : <code>{line.capability}</code>}</th>
                {held.map(({ before, now, role }, column) => {
                  const state = stateOf(now, line)
                  const was = now === before ? state : stateOf(before, line)
                  const by = state === "by" && line.kind === "one" ? coveredBy(now, line.capability) : undefined
                  return (
                    <td key={role.id} className={state === was ? undefined : "changed"}>
                      <button
                        type="button"
                        role="checkbox"
                        aria-checked={marks[state] as "true" | "false" | "mixed"}
                        aria-disabled={isFixed(role)}
                        aria-label={`${title} for ${role.name}`}
                        title={
                          isFixed(role)
                            ? "A built-in role is not changed"
                            : state === "by"
                              ? `Comes from ${by}`
                              : undefined
                        }
                        className={`cell ${state}`}
                        data-cell={`${row} ${column}`}
                        tabIndex={at.row === row && at.column === column ? 0 : -1}
                        onFocus={() => setAt({ row, column })}
                        onClick={() => onToggle(role, line)}
                      >
                        {state === "no" ? null : state === "some" ? "–" : <Icon name="check" size={16} />}
                      </button>
                    </td>
                  )
                })}
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

/** What an edit adds to a role and takes from it. */
const differenceOf = (role: Role, held: ReadonlySet<string>) => ({
  role,
  added: [...held].filter((capability) => !role.capabilities.includes(capability)),
  removed: role.capabilities.filter((capability) => !held.has(capability))
})

const Review = ({
  differences,
  edits,
  onClose,
  onSaved
}: {
  readonly differences: ReadonlyArray<ReturnType<typeof differenceOf>>
  readonly edits: ReadonlyMap<number, ReadonlySet<string>>
  readonly onClose: () => void
  readonly onSaved: (role: Role) => void
}) => {
  const client = useQueryClient()
  const [cause, setCause] = useState<unknown>()
  const [isPending, setPending] = useState(false)
  const save = async () => {
    setPending(true)
    setCause(undefined)
    try {
      await Promise.all(
        differences.map(async ({ role }) => {
          await call("roles.update", {
            params: { id: role.id },
            body: { capabilities: [...(edits.get(role.id) ?? [])] }
          })
          onSaved(role)
        })
      )
      announce(differences.length === 1 ? "The role is saved" : `${differences.length} roles are saved`)
      onClose()
    } catch (refusal) {
      setCause(refusal)
      setPending(false)
    } finally {
      await client.invalidateQueries()
    }
  }
  return (
    <Dialog title="Save what changed" onClose={onClose} wide>
      <Form
        cause={cause}
        onSubmit={() => void save()}
        actions={<FormActions action="Save" isPending={isPending} onClose={onClose} />}
      >
        <p>It holds at once, for everyone who has the role.</p>
        {differences.map(({ added, removed, role }) => (
          <section key={role.id} aria-label={role.name}>
            <strong>{role.name}</strong>
            <pre className="diff" tabIndex={0}>
              {added.map((capability) => (
                <span key={capability} className="added">
                  + {capability}
                </span>
              ))}
              {removed.map((capability) => (
                <span key={capability} className="removed">
                  - {capability}
                </span>
              ))}
            </pre>
          </section>
        ))}
      </Form>
    </Dialog>
  )
}

const Create = ({ application, onClose }: { readonly application: Application; readonly onClose: () => void }) => {
  const create = useChange("roles.create", "The role is made; give it its capabilities in the matrix")
  return (
    <Dialog title={`Make a role of ${application.name}`} onClose={onClose}>
      <Form
        cause={create.error}
        onSubmit={(data) =>
          create.mutate(
            {
              body: {
                applicationId: application.id,
                name: textOf(data, "name") ?? "",
                description: textOf(data, "description") ?? "",
                capabilities: []
              }
            },
            { onSuccess: onClose }
          )
        }
        actions={<FormActions action="Make the role" isPending={create.isPending} onClose={onClose} />}
      >
        <TextField label="Name" name="name" required maxLength={100} placeholder="Support" />
        <TextField label="Description" name="description" maxLength={1000} />
      </Form>
    </Dialog>
  )
}

const Edit = ({
  isFixed,
  onClose,
  onDelete,
  role
}: {
  readonly isFixed: boolean
  readonly onClose: () => void
  readonly onDelete: () => void
  readonly role: Role
}) => {
  const update = useChange("roles.update", `${role.name} is changed`)
  const unless = isFixed ? "A built-in role is neither changed nor deleted" : undefined
  return (
    <Dialog title={role.name} onClose={onClose}>
      <Form
        cause={update.error}
        onSubmit={(data) =>
          update.mutate(
            {
              params: { id: role.id },
              body: { name: textOf(data, "name") ?? "", description: textOf(data, "description") ?? "" }
            },
            { onSuccess: onClose }
          )
        }
        actions={
          <>
            <Act kind="bad" needs={write} unless={unless} onClick={onDelete}>
              Delete the role
            </Act>
            <FormActions action="Save" isPending={update.isPending || isFixed} onClose={onClose} />
          </>
        }
      >
        {unless === undefined ? null : <p className="soft">{unless}.</p>}
        <TextField label="Name" name="name" required maxLength={100} defaultValue={role.name} readOnly={isFixed} />
        <TextField
          label="Description"
          name="description"
          maxLength={1000}
          defaultValue={role.description}
          readOnly={isFixed}
        />
      </Form>
    </Dialog>
  )
}

const capabilityPattern = String.raw`[a-z0-9][a-z0-9._\-]*:([a-z0-9][a-z0-9._\-]*|\*)`

/** So many roles are beside each other; the others are on other pages. */
const rolesBeside = 8

type Shown = { readonly what: "create" | "review" } | { readonly what: "edit" | "delete"; readonly role: Role }

const OfApplication = ({
  application,
  roles
}: {
  readonly application: Application
  readonly roles: ReadonlyArray<Role>
}) => {
  const [edits, setEdits] = useState<ReadonlyMap<number, ReadonlySet<string>>>(new Map())
  const [added, setAdded] = useState<ReadonlyArray<string>>([])
  const [filter, setFilter] = useState("")
  const [search, setSearch] = useSearchParams()
  const first = clamp(Number(search.get("first") ?? 0) || 0, roles.length - 1)
  const page = (at: number) =>
    setSearch((before) => {
      const next = new URLSearchParams(before)
      next.set("first", String(at))
      return next
    })
  const [shown, show] = useState<Shown>()
  const close = () => show(undefined)
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
      announce("A built-in role is not changed")
      return
    }
    const next = toggled(edits.get(role.id) ?? new Set(role.capabilities), line, every)
    if (next === undefined) announce("A line for every resource gives it; change that one")
    else setEdits((before) => new Map(before).set(role.id, next))
  }
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
              Add a line
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
          {differences.length === 0 ? null : (
            <button type="button" className="btn" onClick={() => setEdits(new Map())}>
              Drop the changes
            </button>
          )}
          <Act
            kind="main"
            needs={write}
            unless={differences.length === 0 ? "Nothing was changed" : undefined}
            onClick={() => show({ what: "review" })}
          >
            {differences.length === 0
              ? "Review and save"
              : `Review and save ${differences.length === 1 ? "1 role" : `${differences.length} roles`}`}
          </Act>
          <Act icon="plus" needs={write} onClick={() => show({ what: "create" })}>
            Make a role
          </Act>
        </span>
      </div>
      <section className="card">
        {roles.length === 0 ? (
          <Empty title={`${application.name} has no role yet`}>
            <p>A role is a list of capabilities that the application gives a meaning to.</p>
          </Empty>
        ) : lines.length === 0 ? (
          <Empty title="Nothing matches">
            <p>Change or remove the filter.</p>
          </Empty>
        ) : (
          <Matrix
            key={first}
            roles={roles.slice(first, first + rolesBeside)}
            lines={lines}
            edits={edits}
            isFixed={isFixed}
            onToggle={toggle}
            onOpen={(role) => show({ what: "edit", role })}
          />
        )}
      </section>
      {shown?.what === "create" ? <Create application={application} onClose={close} /> : null}
      {shown?.what === "review" ? (
        <Review
          differences={differences}
          edits={edits}
          onClose={close}
          onSaved={({ id }) =>
            setEdits((before) => {
              const next = new Map(before)
              next.delete(id)
              return next
            })
          }
        />
      ) : null}
      {shown?.what === "edit" ? (
        <Edit
          role={shown.role}
          isFixed={isFixed(shown.role)}
          onClose={close}
          onDelete={() => show({ what: "delete", role: shown.role })}
        />
      ) : null}
      {shown?.what === "delete" ? (
        <Confirm
          name="roles.delete"
          input={{ params: { id: shown.role.id } }}
          title={`Delete ${shown.role.name}`}
          action="Delete the role"
          done={`${shown.role.name} is deleted`}
          onClose={close}
        >
          <p>
            The role and its {shown.role.capabilities.length} capabilities are gone for good. While an account has it,
            it cannot be deleted.
          </p>
        </Confirm>
      ) : null}
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
      lead="Which role may do what. Arrow keys move in the matrix, Space switches."
      actions={
        <>
          <CopyCurl name="roles.list" input={{ query: { applicationId: application?.id ?? "" } }} />
          <select
            aria-label="Application"
            className="fit"
            value={application?.id ?? ""}
            onChange={(event) => setSearch({ application: event.target.value })}
          >
            {items.map(({ id, name }) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
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
