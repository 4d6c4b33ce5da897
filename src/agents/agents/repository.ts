import { Context, Effect, Layer, type Option } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { indexedText } from "../../platform/database/list.ts"
import { makeTable } from "../../platform/database/table.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { agentListing, Agent, AgentId, AgentNameTaken, AgentNotFound, BoundedAgent } from "./domain.ts"

export type AgentFilter = { readonly [Key in "status" | "ownerUserId" | "tenantId"]?: Agent[Key] | undefined }

export class AgentsRepository extends Context.Service<AgentsRepository>()("app/agents/AgentsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const table = yield* makeTable(Agent, {
      name: "agents",
      spanPrefix: "AgentsRepository",
      notFound: AgentNotFound,
      permit: Change,
      list: { as: agentListing, text: indexedText },
      violations: {
        insert: { agents_name: AgentNameTaken, agents_tenant: TenantNotFound },
        update: { agents_name: AgentNameTaken }
      }
    })
    const selectBounded = SqlSchema.findOneOption({
      Request: AgentId,
      Result: BoundedAgent,
      execute: (id) => sql`SELECT * FROM bounded_agents WHERE id = ${id}`
    })

    return {
      ...table,
      bounded: Effect.fn("AgentsRepository.bounded")((id: AgentId) =>
        Effect.flatMap(Effect.orDie(selectBounded(id)), found)
      ),
      /** The row locked until the transaction ends, but not against what only refers to it. */
      lock: (id: AgentId) => table.lock({ id }, "NO KEY UPDATE"),
      /** Moves `lastSeenAt` of many agents forward at once; being seen is no audit entry. */
      seen: (agents: ReadonlyArray<{ readonly id: string; readonly at: number }>) => table.touch("lastSeenAt", agents)
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

const found = <A>(agent: Option.Option<A>): Effect.Effect<A, AgentNotFound> =>
  Effect.mapError(Effect.fromOption(agent), () => new AgentNotFound({}))
