import { useSearchParams } from "wouter"
import { Copy, type Of, TabLinks } from "../../kit/actions.tsx"
import { Cut, Moment } from "../../kit/format.tsx"
import { Chips, ScopeChips } from "../../kit/forms/scopes.tsx"
import { List } from "../../kit/lists/list.tsx"
import { useSpendColumn } from "../../kit/lists/spend.tsx"
import { DetailPage, Facts, NameLines, NameLink, orNone, Tag } from "../../kit/parts.tsx"
import { NotAllowed } from "../../kit/states.tsx"
import { useRefusal } from "../../shell/session.tsx"
import { KeyStatus } from "./keys.tsx"
import { CapsCard, SpendCard } from "./spend.tsx"
import { Edit, Suspend, type Tenant } from "./tenants.tsx"

const CopyId = ({ of: { id } }: Of<Tenant>) => (
  <Copy text={id} what="Id">
    Copy id
  </Copy>
)

const Overview = ({ of: tenant }: Of<Tenant>) => (
  <>
    <div className="grid">
      <SpendCard filter={{ tenantId: tenant.id }} />
      <CapsCard of={{ name: tenant.name, tenantId: tenant.id }} subject={{ tenantId: tenant.id }} />
    </div>
    <section className="card">
      <Facts
        className="facts in"
        facts={[
          ["Id", <code>{tenant.id}</code>],
          ["Short name", <code>{tenant.slug}</code>],
          ["Created", <Moment at={tenant.createdAt} style="full" />],
          ["Settings", <code>{JSON.stringify(tenant.settings)}</code>]
        ]}
      />
    </section>
  </>
)

const Keys = ({ of: { id } }: Of<Tenant>) => (
  <List
    name="apiKeys.list"
    input={{ query: { tenantId: id } }}
    label="API keys"
    searches="Name, start of the key or id"
    rowClass={({ status }) => (status === "active" ? undefined : "gone")}
    empty="It has no key"
    columns={[
      {
        title: "Name",
        sort: "name",
        cell: (key) => <NameLink name={key.name} to={`/api-keys/${key.id}`} />
      },
      { title: "Status", cell: (key) => <KeyStatus of={key} /> },
      { title: "Scopes", cell: ({ scopes }) => <ScopeChips scopes={scopes} /> },
      ...useSpendColumn("api-key"),
      { title: "Last used", sort: "lastUsedAt", cell: ({ lastUsedAt }) => <Moment at={lastUsedAt} /> }
    ]}
  />
)

const Agents = ({ of: { id } }: Of<Tenant>) => (
  <List
    name="agents.list"
    input={{ query: { tenantId: id } }}
    label="Agents"
    searches="Name, owner or id"
    rowClass={({ status }) => (status === "retired" ? "gone" : undefined)}
    empty="It has no agent"
    columns={[
      { title: "Name", sort: "name", cell: (agent) => <NameLink name={agent.name} to={`/agents/${agent.id}`} /> },
      { title: "Status", cell: ({ status }) => <Tag tone={status === "active" ? "ok" : "warn"}>{status}</Tag> },
      { title: "Owner", cell: ({ ownerUserId }) => orNone(ownerUserId, (owner) => <Cut text={owner} />) },
      ...useSpendColumn("agent"),
      { title: "Last seen", sort: "lastSeenAt", cell: ({ lastSeenAt }) => <Moment at={lastSeenAt} /> }
    ]}
  />
)

const People = ({ of: { id } }: Of<Tenant>) => (
  <List
    name="accounts.list"
    input={{ query: { tenantId: id } }}
    label="People"
    searches="Name, e-mail address or id"
    rowClass={({ status }) => (status === "active" ? undefined : "gone")}
    empty="It has no account"
    columns={[
      {
        title: "Name",
        sort: "name",
        cell: ({ email, name }) => <NameLines name={name} detail={<Cut as="small" text={email} />} />
      },
      { title: "Status", cell: ({ status }) => <Tag tone={status === "active" ? "ok" : "warn"}>{status}</Tag> },
      { title: "Roles", cell: ({ roleNames }) => <Chips texts={roleNames} /> },
      { title: "Last sign-in", sort: "lastSignInAt", cell: ({ lastSignInAt }) => <Moment at={lastSignInAt} /> }
    ]}
  />
)

const tabs = { overview: "Spend and caps", agents: "Agents", keys: "API keys", people: "People" } as const

/** The parts of the page by their tabs, with the capability that each needs. */
const parts: Readonly<Record<keyof typeof tabs, readonly [Part: React.FC<Of<Tenant>>, needs?: string]>> = {
  overview: [Overview],
  agents: [Agents, "agents:read"],
  keys: [Keys, "api-keys:read"],
  people: [People, "accounts:read"]
}

const Chosen = ({ of }: Of<Tenant>) => {
  const [search] = useSearchParams()
  const tab = search.get("tab") ?? ""
  const [Part, needs = ""] = parts[tab in parts ? (tab as keyof typeof parts) : "overview"]
  const refusal = useRefusal()(needs)
  return needs !== "" && refusal !== undefined ? (
    <NotAllowed because={refusal} capability={needs} />
  ) : (
    <Part key={tab} of={of} />
  )
}

/** One customer: what it spends, its limits, its agents, keys and people. */
export default () => (
  <DetailPage
    name="tenants.get"
    entity="Tenant"
    what="Tenant"
    lead={({ status }) => <Tag tone={status === "active" ? "ok" : "warn"}>{status}</Tag>}
    actions={[CopyId, Edit, Suspend]}
  >
    {(tenant) => (
      <>
        <TabLinks label="About the tenant" tabs={tabs} />
        <Chosen of={tenant} />
      </>
    )}
  </DetailPage>
)
