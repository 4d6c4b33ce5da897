import { Link } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { useCan } from "../../shell/session.tsx"

export type Option = readonly [value: string, text: string]

/** As many as there can be to choose from, the newest. */
export const mostNames = { query: { limit: 200, sort: "-createdAt" } } as const

/** The agents to choose from and to name others by; none without the capability to read them. */
export const useAgents = (): ReadonlyArray<Option> => {
  const isAllowed = useCan()("agents:read")
  const { data } = useCall("agents.list", mostNames, { enabled: isAllowed })
  return data?.items.map(({ id, name }) => [id, name] as const) ?? []
}

/** The API keys to choose from; none without the capability to read them. */
export const useApiKeys = (): ReadonlyArray<Option> => {
  const isAllowed = useCan()("api-keys:read")
  const { data } = useCall("apiKeys.list", mostNames, { enabled: isAllowed })
  return data?.items.map(({ id, name }) => [id, name] as const) ?? []
}

/** The applications to choose from; none without the capability to read them. */
export const useApplications = (): ReadonlyArray<Option> => {
  const isAllowed = useCan()("applications:read")
  const { data } = useCall("applications.list", mostNames, { enabled: isAllowed })
  return data?.items.map(({ id, name }) => [String(id), name] as const) ?? []
}

/** A trial user by its name, where that can be read and it is one of the newest. */
export const TrialUserName = ({ id }: { readonly id: number }) => {
  const isAllowed = useCan()("trial-users:read")
  const { data } = useCall("trialUsers.list", { query: { limit: 200, sort: "-createdAt" } }, { enabled: isAllowed })
  const user = data?.find((known) => known.id === id)
  const name = user === undefined ? `Trial user ${id}` : `${user.firstName} ${user.lastName}`
  return (
    <Link className="name" href={`/trial-users/${id}`} title={name}>
      {name}
    </Link>
  )
}

/** The beginning of an id, which tells a few of them apart. */
export const shortId = (id: string): string => `…${id.slice(-8)}`

/** An agent by its name, where that can be read. */
export const AgentName = ({ id }: { readonly id: string | null }) => {
  const agents = useAgents()
  if (id === null) return <span className="soft">none</span>
  const name = agents.find(([known]) => known === id)?.[1]
  return (
    <Link href={`/agents/${id}`} title={id}>
      {name ?? <code>{shortId(id)}</code>}
    </Link>
  )
}

/** A cap by its name, where that can be read. */
export const CapName = ({ id }: { readonly id: string }) => {
  const isAllowed = useCan()("budgets:read")
  const { data } = useCall("budgetCaps.list", mostNames, { enabled: isAllowed })
  const name = data?.items.find((cap) => cap.id === id)?.name
  return (
    <Link className="name" href={`/caps/${id}`} title={name ?? id}>
      {name ?? <code>{shortId(id)}</code>}
    </Link>
  )
}

/** Who made a request: an API key by its name, where that can be read, and anyone else as the service calls it. */
export const PrincipalName = ({ name }: { readonly name: string }) => {
  const keys = useApiKeys()
  const [kind, id = ""] = name.split(":")
  const known = kind === "api-key" ? keys.find(([key]) => key === id)?.[1] : undefined
  return (
    <span className="cut" title={name}>
      {known === undefined ? name : `key ${known}`}
    </span>
  )
}
