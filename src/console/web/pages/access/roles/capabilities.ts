import capabilities from "virtual:capabilities"
import { type Row } from "../../../api/operations.ts"
import { ownSlug } from "../../../kit/names/built-in.ts"

export type Role = Row<"roles.list">
export type Application = Row<"applications.list">

/** A capability that a role can have, or a resource with all of its capabilities. */
export type Line =
  | { readonly kind: "one"; readonly capability: string }
  | { readonly kind: "group"; readonly resource: string; readonly members: ReadonlyArray<string> }

const resourceOf = (capability: string) => capability.split(":")[0] ?? ""
const actionOf = (capability: string) => capability.split(":")[1] ?? ""

/** The lines of the matrix: what holds for every resource first, then each resource with its capabilities. */
export const linesOf = (known: ReadonlyMap<string, ReadonlyArray<string>>): ReadonlyArray<Line> => {
  const lines: Array<Line> = []
  for (const [resource, actions] of known) {
    const members = actions.map((action) => `${resource}:${action}`)
    if (resource !== "*") lines.push({ kind: "group", resource, members })
    for (const capability of members) lines.push({ kind: "one", capability })
  }
  return lines
}

/** The capabilities that are known: those of this service, or those that the roles of another application name. */
export const knownIn = (
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

export type Held = "yes" | "no" | "by" | "some"

/** The entry of a role that covers a capability without being it. */
export const coveredBy = (held: ReadonlySet<string>, capability: string): string | undefined => {
  const [resource, action] = [resourceOf(capability), actionOf(capability)]
  return [`${resource}:*`, `*:${action}`, "*:*"].find((wide) => wide !== capability && held.has(wide))
}

export const stateOf = (held: ReadonlySet<string>, line: Line): Held => {
  if (line.kind === "one") {
    if (held.has(line.capability)) return "yes"
    return coveredBy(held, line.capability) === undefined ? "no" : "by"
  }
  if (held.has(`${line.resource}:*`)) return "yes"
  const has = line.members.filter((capability) => stateOf(held, { kind: "one", capability }) !== "no").length
  return has === 0 ? "no" : has === line.members.length ? "yes" : "some"
}

/** The capabilities after a line was switched; undefined where a wider entry keeps it as it is. */
export const toggled = (
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

/** What an edit adds to a role and takes from it. */
export const differenceOf = (role: Role, held: ReadonlySet<string>) => ({
  role,
  added: [...held].filter((capability) => !role.capabilities.includes(capability)),
  removed: role.capabilities.filter((capability) => !held.has(capability))
})
