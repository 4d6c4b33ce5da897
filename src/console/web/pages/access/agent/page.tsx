import { useSearchParams } from "wouter"
import { Copy, TabLinks, type Of } from "../../../kit/actions.tsx"
import { DetailPage } from "../../../kit/parts.tsx"
import { Delegate, Delegations } from "./delegations.tsx"
import { Edit, Identity, Retire, Suspend } from "./identity.tsx"
import { AddKey, Keys } from "./keys.tsx"
import { type Agent, Status } from "./status.tsx"
import { IssueToken, Tokens } from "./tokens.tsx"

const tabs = { identity: "Identity and budget", tokens: "Tokens", keys: "Keys", delegations: "Delegations" } as const

/** The parts of the page by their tabs, each with the button that adds to it. */
const parts: Readonly<Record<keyof typeof tabs, readonly [Part: React.FC<Of<Agent>>, Add?: React.FC<Of<Agent>>]>> = {
  identity: [Identity],
  tokens: [Tokens, IssueToken],
  keys: [Keys, AddKey],
  delegations: [Delegations, Delegate]
}

const CopyId = ({ of: { id } }: Of<Agent>) => (
  <Copy text={id} what="Id">
    Copy id
  </Copy>
)

/** One agent: who it is, what it may do, and what it holds. */
export default function AgentPage() {
  const [search] = useSearchParams()
  const tab = search.get("tab") ?? ""
  const [Part, Add] = parts[tab in parts ? (tab as keyof typeof parts) : "identity"]
  return (
    <DetailPage
      name="agents.get"
      entity="Agent"
      what="Agent"
      lead={({ ownerUserId, status }) => (
        <>
          <Status of={status} /> {ownerUserId === null ? "No owner" : `Owner: ${ownerUserId}`}
        </>
      )}
      actions={[CopyId, Edit, Suspend, Retire]}
    >
      {(agent) => (
        <>
          <div className="bar-of-tabs">
            <TabLinks label="About the agent" tabs={tabs} />
            {Add === undefined ? null : <Add of={agent} />}
          </div>
          <Part of={agent} />
        </>
      )}
    </DetailPage>
  )
}
