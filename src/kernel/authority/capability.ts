import { Schema } from "effect"

/**
 * The vocabulary of roles, API-key scopes and agent scopes: `<resource>:<action>`, where either part may be `*`.
 * `a` covers `b` when each part is equal or `*`.
 */
const segment = "[a-z0-9][a-z0-9._-]{0,62}|\\*"

/** Any well-formed capability; applications define names of their own. */
export const Capability = Schema.String.pipe(
  Schema.check(
    Schema.isPattern(new RegExp(`^(?:${segment}):(?:${segment})$`, "u"), {
      expected: "<resource>:<action> in lower case, digits, '-', '_', '.' or '*'"
    })
  )
).annotate({ component: "Capability", examples: ["trial-users:read"] })
export type Capability = typeof Capability.Type

/** The resources of this service, the first part of its capabilities. */
export const resources = [
  "trial-users",
  "sessions",
  "roles",
  "configuration",
  "audit-logs",
  "dashboard",
  "applications",
  "agents",
  "plans",
  "llm",
  "budgets",
  "spend",
  "subscriptions",
  "insights",
  "api-keys",
  "tenants",
  "accounts",
  "identity-providers",
  "integrations",
  "events",
  "security",
  "attestation",
  "synthetic-principals"
] as const

const actionsBeyondReadWrite: Readonly<Record<string, ReadonlyArray<string>>> = {
  llm: ["complete", "embed", "admin"],
  budgets: ["approve"],
  agents: ["introspect"],
  "audit-logs": ["export"],
  configuration: ["rollback"]
}

/** Every capability of a resource of this service. */
export const capabilitiesOf = (resource: (typeof resources)[number]): ReadonlyArray<Capability> =>
  ["read", "write", ...(actionsBeyondReadWrite[resource] ?? [])].map((action) => `${resource}:${action}`)

const actions = new Set(["read", "write", ...Object.values(actionsBeyondReadWrite).flat()])

/** Whether the capability is one of this service: keys, accounts and agents accept no other. */
export const isOwn = (capability: Capability): boolean => {
  const [resource, action] = parts(capability)
  if (resource === "*") return action === "*" || actions.has(action)
  if (!(resources as ReadonlyArray<string>).includes(resource)) return false
  return (
    action === "*" ||
    action === "read" ||
    action === "write" ||
    (actionsBeyondReadWrite[resource] ?? []).includes(action)
  )
}

/** A capability of this service. */
export const Scope = Capability.pipe(
  Schema.check(Schema.makeFilter(isOwn, { expected: "a capability of this service, such as trial-users:read" }))
).annotate({ component: "Capability" })

/** At most 200 scopes, without repetition, in the order given. */
export const Scopes = Schema.Array(Scope).pipe(Schema.check(Schema.isMaxLength(200)))

const parts = (capability: Capability): readonly [string, string] => {
  const colon = capability.indexOf(":")
  return [capability.slice(0, colon), capability.slice(colon + 1)]
}

/** Whether `held` includes `needed`. */
export const covers = (held: Capability, needed: Capability): boolean => {
  if (held === needed || held === "*:*") return true
  const [heldResource, heldAction] = parts(held)
  const [resource, action] = parts(needed)
  return (heldResource === "*" || heldResource === resource) && (heldAction === "*" || heldAction === action)
}

/** Those of `needed` that nothing in `held` covers, in their order; empty means `needed ⊆ held`. */
export const missing = (
  held: ReadonlyArray<Capability>,
  needed: ReadonlyArray<Capability>
): ReadonlyArray<Capability> => needed.filter((capability) => !held.some((one) => covers(one, capability)))

/** The list without repetitions, in the order of first mention. */
export const distinct = (capabilities: ReadonlyArray<Capability>): ReadonlyArray<Capability> => [
  ...new Set(capabilities)
]

const commonPart = (one: string, other: string): string | undefined =>
  one === other || other === "*" ? one : one === "*" ? other : undefined

/** The capabilities that both lists allow, part by part (`*:read` and `llm:*` share `llm:read`), without those that another one covers. */
export const intersection = (
  one: ReadonlyArray<Capability>,
  other: ReadonlyArray<Capability>
): ReadonlyArray<Capability> => {
  const shared = new Set<Capability>()
  for (const a of one) {
    const [resourceOfOne, actionOfOne] = parts(a)
    for (const b of other) {
      const [resourceOfOther, actionOfOther] = parts(b)
      const resource = commonPart(resourceOfOne, resourceOfOther)
      const action = commonPart(actionOfOne, actionOfOther)
      if (resource !== undefined && action !== undefined) shared.add(`${resource}:${action}`)
    }
  }
  return [...shared].filter(
    (capability) => isOwn(capability) && ![...shared].some((wider) => wider !== capability && covers(wider, capability))
  )
}
