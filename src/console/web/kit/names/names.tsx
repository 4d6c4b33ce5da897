import { Link } from "wouter"
import { useCall, useRow } from "../../api/hooks.ts"
import { useCan } from "../../shell/session.tsx"
import { Cut } from "../format.tsx"
import { NameLink } from "../parts.tsx"

/** An id and its name. */
export type Option = readonly [value: string, text: string]

/** As many as there can be to choose from, the newest. */
export const mostNames = { query: { limit: 200, sort: "-createdAt" } } as const

/** What can be chosen from a list, and is named by it; nothing without the capability to read it. */
const namesOf = (name: "agents.list" | "apiKeys.list" | "applications.list", needs: string) =>
  function useNames(): ReadonlyArray<Option> {
    const { data } = useCall(name, mostNames, { enabled: useCan()(needs) })
    return data?.items.map((item) => [String(item.id), item.name] as const) ?? []
  }

export const useAgents = namesOf("agents.list", "agents:read")
export const useApiKeys = namesOf("apiKeys.list", "api-keys:read")
export const useApplications = namesOf("applications.list", "applications:read")

interface Choosing {
  readonly className?: string
  readonly applications: ReadonlyArray<{ readonly id: number; readonly name: string }>
  readonly onChange: (id: string) => void
  readonly value: number | undefined
}

/** Chooses the application that a page is about. */
export const ApplicationChoice = ({ applications, className, onChange, value }: Choosing) => (
  <select
    aria-label="Application"
    className={className}
    value={value ?? ""}
    onChange={(event) => onChange(event.target.value)}
  >
    {applications.map(({ id, name }) => (
      <option key={id} value={id}>
        {name}
      </option>
    ))}
  </select>
)

/** A trial user by its name, where that can be read. */
export const TrialUserName = ({ id }: { readonly id: number }) => {
  const user = useRow("trialUsers.list", id, useCan()("trial-users:read"))
  const name = user ? `${user.firstName} ${user.lastName}` : `Trial user ${id}`
  return <NameLink name={name} to={`/trial-users/${id}`} />
}

/** The beginning of an id, which tells a few of them apart. */
export const shortId = (id: string): string => `…${id.slice(-8)}`

/** An agent by its name, where that can be read. */
export const AgentName = ({ id }: { readonly id: string | null }) => {
  const isAllowed = useCan()("agents:read")
  const agent = useRow("agents.list", id ?? "", isAllowed && id !== null)
  if (id === null) return <span className="soft">none</span>
  return (
    <Link className="cut" href={`/agents/${id}`} title={agent?.name ?? id}>
      {agent?.name ?? <code>{shortId(id)}</code>}
    </Link>
  )
}

/** A cap by its name, where that can be read. */
export const CapName = ({ id }: { readonly id: string }) => {
  const name = useRow("budgetCaps.list", id, useCan()("budgets:read"))?.name
  return (
    <Link className="name" href={`/caps/${id}`} title={name ?? id}>
      {name ?? <code>{shortId(id)}</code>}
    </Link>
  )
}

/** Who made a request: an API key by its name, where that can be read, and anyone else as the service calls it. */
export const PrincipalName = ({ name }: { readonly name: string }) => {
  const isAllowed = useCan()("api-keys:read")
  const [kind, id = ""] = name.split(":")
  const key = useRow("apiKeys.list", id, isAllowed && kind === "api-key")
  return <Cut text={key ? `key ${key.name}` : name} title={name} />
}
