import { Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlModel, SqlSchema } from "effect/sql"
import { AgentId } from "../agents/domain.ts"
import { Change } from "../../audit/log/domain.ts"
import { AgentKey, AgentKeyId, AgentKeyNotFound, AgentKeyTaken } from "./domain.ts"

export class AgentKeysRepository extends Context.Service<
  AgentKeysRepository,
  {
    list(agentId: AgentId, after: AgentKeyId | undefined, limit: number): Effect.Effect<ReadonlyArray<AgentKey>>
    lock(agentId: AgentId, id: AgentKeyId): Effect.Effect<AgentKey, AgentKeyNotFound, Change>
    /** How many keys of the agent are neither revoked nor expired. */
    live(agentId: AgentId, now: DateTime.Utc): Effect.Effect<number>
    insert(key: typeof AgentKey.insert.Type): Effect.Effect<AgentKey, AgentKeyTaken, Change>
    /** Ends a key at a moment, and with it what it minted if `withCredentials`; what is ended stays so. */
    revoke(id: AgentKeyId, at: DateTime.Utc, withCredentials: boolean): Effect.Effect<AgentKey, never, Change>
  }
>()("app/agent-keys/AgentKeysRepository") {
  static readonly layer = Layer.effect(
    AgentKeysRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const model = yield* SqlModel.makeRepository(AgentKey, {
        tableName: "agent_keys",
        spanPrefix: "AgentKeysRepository",
        idColumn: "id"
      })
      const selectPage = SqlSchema.findAll({
        Request: Schema.Struct({ agentId: AgentId, after: Schema.UndefinedOr(AgentKeyId), limit: Schema.Int }),
        Result: AgentKey,
        execute: ({ after, agentId, limit }) => sql`
          SELECT * FROM agent_keys WHERE agent_id = ${agentId} AND ${after === undefined ? sql`true` : sql`id > ${after}`}
          ORDER BY id LIMIT ${limit}`
      })
      const selectLocked = SqlSchema.findOneOption({
        Request: Schema.Struct({ agentId: AgentId, id: AgentKeyId }),
        Result: AgentKey,
        execute: ({ agentId, id }) =>
          sql`SELECT * FROM agent_keys WHERE id = ${id} AND agent_id = ${agentId} FOR UPDATE`
      })
      const updateRevoked = SqlSchema.findOne({
        Request: Schema.Struct({ id: AgentKeyId, at: Schema.DateTimeUtcFromDate, withCredentials: Schema.Boolean }),
        Result: AgentKey,
        execute: ({ at, id, withCredentials }) => sql`
          UPDATE agent_keys SET revoked_at = coalesce(revoked_at, ${at}),
            credentials_revoked = credentials_revoked OR ${withCredentials}
          WHERE id = ${id} RETURNING *`
      })

      return AgentKeysRepository.of({
        list: Effect.fn("AgentKeysRepository.list")((agentId, after, limit) =>
          Effect.orDie(selectPage({ agentId, after, limit }))
        ),
        lock: Effect.fn("AgentKeysRepository.lock")((agentId, id) =>
          Change.use(() =>
            Effect.flatMap(
              Effect.orDie(selectLocked({ agentId, id })),
              Option.match({
                onNone: () => Effect.fail(new AgentKeyNotFound({})),
                onSome: (key) => Effect.succeed(key)
              })
            )
          )
        ),
        live: Effect.fn("AgentKeysRepository.live")((agentId, now) =>
          sql`
            SELECT 1 FROM agent_keys
            WHERE agent_id = ${agentId} AND revoked_at IS NULL AND valid_until > ${DateTime.toDateUtc(now)}`.values.pipe(
            Effect.map((rows) => rows.length),
            Effect.orDie
          )
        ),
        insert: (key) =>
          Change.use(() =>
            model.insert(key).pipe(
              Effect.catchReason("SqlError", "UniqueViolation", () => Effect.fail(new AgentKeyTaken({}))),
              Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
            )
          ),
        revoke: Effect.fn("AgentKeysRepository.revoke")((id, at, withCredentials) =>
          Change.use(() => Effect.orDie(updateRevoked({ id, at, withCredentials })))
        )
      })
    })
  )
}
