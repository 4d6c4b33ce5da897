import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { makeTable } from "../../platform/database/table.ts"
import { type AgentId } from "../agents/domain.ts"
import { agentKeyListing, AgentKey, AgentKeyId, AgentKeyNotFound, AgentKeyTaken } from "./domain.ts"

export class AgentKeysRepository extends Context.Service<AgentKeysRepository>()("app/agents/AgentKeysRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const table = yield* makeTable(AgentKey, {
      name: "agent_keys",
      spanPrefix: "AgentKeysRepository",
      notFound: AgentKeyNotFound,
      permit: Change,
      list: { as: agentKeyListing, text: "lower(t.kid)" },
      violations: { insert: { agent_keys_kid: AgentKeyTaken, agent_keys_thumbprint: AgentKeyTaken } }
    })
    const updateRevoked = SqlSchema.findOne({
      Request: Schema.Struct({ id: AgentKeyId, at: Schema.DateTimeUtcFromDate, withCredentials: Schema.Boolean }),
      Result: AgentKey,
      execute: ({ at, id, withCredentials }) => sql`
          UPDATE agent_keys SET revoked_at = coalesce(revoked_at, ${at}),
            credentials_revoked = credentials_revoked OR ${withCredentials}
          WHERE id = ${id} RETURNING *`
    })

    return {
      ...table,
      /** How many keys of the agent are neither revoked nor expired. */
      live: Effect.fn("AgentKeysRepository.live")((agentId: AgentId, now: DateTime.Utc) =>
        sql`
            SELECT 1 FROM agent_keys
            WHERE agent_id = ${agentId} AND revoked_at IS NULL AND valid_until > ${DateTime.toDateUtc(now)}`.values.pipe(
          Effect.map((rows) => rows.length),
          Effect.orDie
        )
      ),
      /** Ends a key at a moment, and with it what it minted if `withCredentials`; what is ended stays so. */
      revoke: Effect.fn("AgentKeysRepository.revoke")((id: AgentKeyId, at: DateTime.Utc, withCredentials: boolean) =>
        Change.use(() => Effect.orDie(updateRevoked({ id, at, withCredentials })))
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
