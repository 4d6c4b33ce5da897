import { useSearchParams } from "wouter"
import { Act, Copy, TabLinks } from "../../../kit/actions.tsx"
import { DetailPage } from "../../../kit/parts.tsx"
import { Delegate, Delegations } from "./delegations.tsx"
import { Activate, Edit, Identity, Retire, Suspend } from "./identity.tsx"
import { Keys, RegisterKey } from "./keys.tsx"
import { type Agent, inactive, Status, write } from "./status.tsx"
import { IssueToken, Tokens } from "./tokens.tsx"

/** The parts of the page by their tabs, each with what adds to it. */
const parts = {
  identity: ["Identity and budget", Identity],
  tokens: ["Tokens", Tokens, "Issue a token", IssueToken],
  keys: ["Keys", Keys, "Register a key", RegisterKey],
  delegations: ["Delegations", Delegations, "Delegate", Delegate]
} as const

const Acts = ({ agent }: { readonly agent: Agent }) => {
  const retired = agent.status === "retired" ? "The agent is retired" : undefined
  return (
    <>
      <Copy text={agent.id} what="Id">
        Copy id
      </Copy>
      <Act needs={write} unless={retired} opens={<Edit agent={agent} />}>
        Change
      </Act>
      {agent.status === "suspended" ? (
        <Act needs={write} opens={<Activate agent={agent} />}>
          Activate
        </Act>
      ) : (
        <Act kind="bad" needs={write} unless={retired} opens={<Suspend agent={agent} />}>
          Suspend
        </Act>
      )}
      <Act kind="bad" needs={write} unless={retired} opens={<Retire agent={agent} />}>
        Retire
      </Act>
    </>
  )
}

/** One agent: who it is, what it may do, and what it holds. */
export default function AgentPage() {
  const [search] = useSearchParams()
  const tab = search.get("tab") ?? ""
  const [, Part, verb, Add] = parts[tab in parts ? (tab as keyof typeof parts) : "identity"]
  return (
    <DetailPage
      name="agents.get"
      what="Agent"
      title={({ name }) => name}
      lead={({ ownerUserId, status }) => (
        <>
          <Status of={status} /> Agent of {ownerUserId ?? "no owner"}
        </>
      )}
      actions={(agent) => <Acts agent={agent} />}
    >
      {(agent) => (
        <>
          <div className="bar-of-tabs">
            <TabLinks
              label="About the agent"
              tabs={Object.entries(parts).map(([key, [title]]) => [key, title] as const)}
            />
            {Add === undefined ? null : (
              <Act icon="plus" needs={write} unless={inactive(agent)} opens={<Add agent={agent} />}>
                {verb}
              </Act>
            )}
          </div>
          <Part agent={agent} />
        </>
      )}
    </DetailPage>
  )
}
