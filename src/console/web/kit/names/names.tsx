import { useMemo } from "react"
import { Link } from "wouter"
import { useCall, useRow } from "../../api/hooks.ts"
import { useCaller, useCan } from "../../shell/session.tsx"
import { short } from "../format.tsx"
import { mostNames, type Option, type Reported, TenantText, useReported, useTenants } from "./tenants.tsx"

/** Where the names of things of a kind are, and the page of one of them. */
interface Source {
  readonly list: string
  readonly needs: string
  /** Whether each belongs to a tenant, where names of several tenants may be the same. */
  readonly isOfTenant?: true
  readonly page?: (id: string) => string
  /** The dimension of reports that names them as well. */
  readonly reported?: Reported
}

const sources = {
  account: {
    list: "accounts.list",
    needs: "accounts:read",
    isOfTenant: true,
    page: (id) => `/accounts?search=${id}`
  },
  agent: {
    list: "agents.list",
    needs: "agents:read",
    isOfTenant: true,
    page: (id) => `/agents/${id}`,
    reported: "agent"
  },
  "api-key": {
    list: "apiKeys.list",
    needs: "api-keys:read",
    isOfTenant: true,
    page: (id) => `/api-keys/${id}`,
    reported: "api-key"
  },
  application: {
    list: "applications.list",
    needs: "applications:read",
    page: (id) => `/applications/${id}`,
    reported: "application"
  },
  cap: { list: "budgetCaps.list", needs: "budgets:read", isOfTenant: true, page: (id) => `/caps/${id}` },
  plan: { list: "allPlans.list", needs: "plans:read", isOfTenant: true, reported: "plan" },
  role: { list: "roles.list", needs: "roles:read" },
  synthetic: { list: "syntheticPrincipals.list", needs: "synthetic-principals:read", isOfTenant: true },
  tenant: {
    list: "tenants.list",
    needs: "tenants:read",
    page: (id) => `/tenants/${id}`,
    reported: "tenant"
  },
  "trial-user": { list: "trialUsers.list", needs: "trial-users:read", page: (id) => `/trial-users/${id}` }
} as const satisfies Readonly<Record<string, Source>>

/** A kind of things that have names. */
export type Kind = keyof typeof sources

const sourceOf = (kind: Kind) => {
  const { list, ...source }: Source = sources[kind]
  // What is read of a row is what all of them have.
  return { ...source, list: list as "agents.list" }
}

interface Thing {
  readonly firstName?: string
  readonly lastName?: string
  readonly name?: string | null
  readonly tenantId?: string | null
}

const nameOf = ({ firstName, lastName, name }: Thing): string | null =>
  firstName === undefined ? (name ?? null) : `${firstName} ${lastName}`

const isId = (text: string): boolean => /^(?:\d{1,10}|[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})$/.test(text)

/** A thing by its id, where the caller may see it, or by the name that reports give it. */
const useThing = (kind: Kind, id: string): Thing | undefined => {
  const { list, needs, reported } = sourceOf(kind)
  const { account } = useCaller()
  const isAllowed = useCan()(needs)
  const isOwn = kind === "account" && account?.id === id
  const row: Thing | null | undefined = useRow(list, id, isAllowed && isId(id) && !isOwn)
  const named = useReported(reported, !isAllowed && isId(id)).find((one) => one.id === id)
  return isOwn && account !== null ? account : (row ?? named)
}

/** Whether the name of a thing needs that of its tenant beside it, which it does where another thing may have it too. */
const useRepeats = (kind: Kind): ((name: string | null) => boolean) => {
  const { isOfTenant = false, list, needs, reported } = sourceOf(kind)
  const isAllowed = useCan()(needs)
  const isAsked = useTenants().tenants.length > 1 && isOfTenant
  const { data } = useCall(list, mostNames, { enabled: isAsked && isAllowed })
  const named = useReported(reported, isAsked && !isAllowed)
  const items: ReadonlyArray<Thing> = data?.items ?? named
  return (name) =>
    isAsked && ((data?.nextCursor ?? null) !== null || items.filter((other) => other.name === name).length > 1)
}

/** What can be chosen from a list, and is named by it, with the tenant where a name repeats; nothing without the capability to read it. */
const namesOf = (kind: Kind) =>
  function useNames(): ReadonlyArray<Option> {
    const { list, needs, reported } = sourceOf(kind)
    const isAllowed = useCan()(needs)
    const { data } = useCall(list, mostNames, { enabled: isAllowed })
    const named = useReported(reported, !isAllowed)
    const tenants = new Map(useTenants().tenants)
    const repeats = useRepeats(kind)
    return (data?.items ?? named).map(({ id, name, tenantId }) => {
      const tenant = repeats(name) ? (tenants.get(tenantId ?? "") ?? "installation") : undefined
      return [String(id), tenant === undefined ? name : `${name} · ${tenant}`] as const
    })
  }

export const useAgents = namesOf("agent")
export const useApiKeys = namesOf("api-key")
export const useApplications = namesOf("application")

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

/** The end of an id, which tells a few of them apart. */
export const shortId = (id: string): string => `…${id.slice(-8)}`

interface Naming {
  readonly className?: string
  readonly id: string | number
  /** Whether it is no link, as within a button. */
  readonly isPlain?: boolean | undefined
  readonly kind: Kind
  /** What stands before the name. */
  readonly prefix?: string
  /** The tenant that is named beside it. */
  readonly within?: string | null | undefined
}

/** A thing by its name, with its tenant where another thing has the same; the pointer shows its id. */
export const Named = ({ className = "cut", id, isPlain = false, kind, prefix = "", within }: Naming) => {
  const key = String(id)
  const thing = useThing(kind, key)
  const repeats = useRepeats(kind)
  const name = thing === undefined ? null : nameOf(thing)
  const { needs, page } = sourceOf(kind)
  const isAllowed = useCan()(needs)
  const title = `${name ?? kind} ${key}`
  const text = (
    <>
      {prefix}
      {name ?? (isId(key) && key.length < 11 ? `${kind.replace("-", " ")} ${key}` : <code>{shortId(key)}</code>)}
      {thing?.tenantId === undefined || thing.tenantId === within || !repeats(name) ? null : (
        <small>
          {" · "}
          <TenantText id={thing.tenantId} />
        </small>
      )}
    </>
  )
  return isAllowed && page !== undefined && !isPlain ? (
    <Link className={className} href={page(key)} title={title}>
      {text}
    </Link>
  ) : (
    <span className={className} title={title}>
      {text}
    </span>
  )
}

/** A trial user by its name, where that can be read. */
export const TrialUserName = ({ id }: { readonly id: number }) => <Named className="name" kind="trial-user" id={id} />

/** An agent by its name, where that can be read. */
export const AgentName = ({ id }: { readonly id: string | null }) =>
  id === null ? <span className="soft">none</span> : <Named kind="agent" id={id} />

/** A cap by its name, where that can be read. */
export const CapName = ({ id }: { readonly id: string }) => <Named className="name" kind="cap" id={id} />

/** Principals that there is one of. */
const singles: Readonly<Record<string, string>> = {
  anonymous: "Anonymous",
  "service-account": "Service account",
  system: "System"
}

/** What the names of principals begin with, where they have an id and a name of their own. */
const prefixes = { account: "", agent: "agent ", "api-key": "key ", synthetic: "synthetic " } as const

interface OfPrincipal {
  readonly isPlain?: boolean
  /** As entries of the audit log have it: `account:…`, `service-account`. */
  readonly name: string
}

/** Who did something: an account, an agent or a key by its name, where that can be read. */
export const PrincipalName = ({ isPlain, name }: OfPrincipal) => {
  const [kind = "", id = ""] = name.split(/:(.*)/s)
  if (kind in prefixes && isId(id)) {
    const known = kind as keyof typeof prefixes
    return <Named kind={known} id={id} isPlain={isPlain} prefix={prefixes[known]} />
  }
  return (
    <span className="cut" title={name}>
      {singles[name] ?? short(name)}
    </span>
  )
}

/** The kinds of things that entries of the audit log are about. */
const entities: Readonly<Record<string, Kind>> = {
  Account: "account",
  Agent: "agent",
  ApiKey: "api-key",
  Application: "application",
  BudgetCap: "cap",
  Plan: "plan",
  Role: "role",
  SyntheticPrincipal: "synthetic",
  Tenant: "tenant",
  TrialUser: "trial-user"
}

/** Whether what an entry of the audit log is about has a name. */
export const isNamed = (entityType: string): boolean => entityType in entities

interface OfEntity {
  readonly id: string
  readonly isPlain?: boolean
  /** As entries of the audit log have it: `Account`, `ApiKey`. */
  readonly type: string
}

/** What an entry of the audit log is about, by its name where it has one that can be read. */
export const EntityName = ({ id, isPlain, type }: OfEntity) => {
  const kind = entities[type]
  return kind !== undefined && isId(id) ? (
    <Named kind={kind} id={id} isPlain={isPlain} />
  ) : (
    <span className="cut" title={id}>
      {short(id)}
    </span>
  )
}

/** What the members of a cap's scope are. */
const dimensions: Readonly<Record<string, readonly [what: string, kind?: Kind]>> = {
  agentId: ["agent", "agent"],
  apiKeyId: ["key", "api-key"],
  applicationId: ["application", "application"],
  model: ["model"],
  planId: ["plan", "plan"],
  provider: ["provider"],
  taskType: ["task type"],
  userId: ["user"]
}

interface OfScope {
  readonly scope: Readonly<Record<string, string | number>>
  /** Whose calls it counts, where that is said; null for all tenants. */
  readonly tenantId?: string | null | undefined
}

/** What a cap counts, in words; with the tenant, where the caller may see more than one. */
export const ScopeText = ({ scope, tenantId }: OfScope) => {
  const seesMany = useTenants().tenants.length > 1 && tenantId !== undefined
  return (
    <>
      <Dimensions scope={scope} tenantId={seesMany ? tenantId : undefined} />
      {seesMany ? (
        <>
          {" · "}
          <TenantText id={tenantId} none="all tenants" />
        </>
      ) : null}
    </>
  )
}

const Dimensions = ({ scope, tenantId }: OfScope) => {
  const members = Object.entries(scope)
  if (members.length === 0) return "everything"
  return members.map(([name, value], index) => {
    const [what, kind] = dimensions[name] ?? [name]
    return (
      <span key={name}>
        {index === 0 ? "" : ", "}
        {value === "each" ? (
          `each ${what}`
        ) : (
          <>
            {what}{" "}
            {kind === undefined ? value : <Named className="" kind={kind} id={value} isPlain within={tenantId} />}
          </>
        )}
      </span>
    )
  })
}

interface Labelled {
  readonly key: string | null
  readonly label?: string | null
  readonly tenantId?: string | null
}

/** A report whose items are called by their names, with the tenant beside those that several have. */
export const useLabelled = <Asked extends { readonly data?: { readonly items: ReadonlyArray<Labelled> } | undefined }>(
  asked: Asked
): Asked => {
  const { tenants } = useTenants()
  const report = asked.data
  const labelled = useMemo(() => {
    if (report === undefined || tenants.length < 2) return report
    const times = Map.groupBy(report.items, ({ label }) => label)
    const names = new Map(tenants)
    return {
      ...report,
      items: report.items.map((item) =>
        item.tenantId === undefined || times.get(item.label)?.length === 1
          ? item
          : { ...item, label: `${item.label} · ${names.get(item.tenantId ?? "") ?? "installation"}` }
      )
    }
    // The tenants are read again with every page; their number says enough.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [report, tenants.length])
  return { ...asked, data: labelled }
}
