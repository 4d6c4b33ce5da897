import { Context, Effect, Layer, type Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { TenantNotFound } from "../tenants/domain.ts"
import { Agent, AgentId, AgentNameTaken, AgentNotFound, AgentStatus, BoundedAgent } from "./domain.ts"
import { makeTable, violations } from "../../platform/database/table.ts"

const Filter = Schema.Struct({
  status: Schema.optionalKey(AgentStatus),
  ownerUserId: Schema.optionalKey(Schema.String),
  tenantId: Schema.optionalKey(TenantId),
  only: Schema.optionalKey(AgentId)
})
export type AgentFilter = typeof Filter.Type

export class AgentsRepository extends Context.Service<AgentsRepository>()("app/agents/AgentsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const table = yield* makeTable(Agent, {
      name: "agents",
      spanPrefix: "AgentsRepository",
      notFound: AgentNotFound,
      permit: Change
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
      insert: (agent: typeof Agent.insert.Type) =>
        table.insert(agent).pipe(violations({ agents_name: AgentNameTaken, agents_tenant: TenantNotFound })),
      update: (agent: typeof Agent.update.Type) =>
        table.update(agent).pipe(violations({ agents_name: AgentNameTaken })),
      /** Moves `lastSeenAt` of many agents forward at once; being seen is no audit entry. */
      seen: (agents: ReadonlyArray<{ readonly id: string; readonly at: number }>) => table.touch("lastSeenAt", agents)
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

const found = <A>(agent: Option.Option<A>): Effect.Effect<A, AgentNotFound> =>
  Effect.mapError(Effect.fromOption(agent), () => new AgentNotFound({}))
