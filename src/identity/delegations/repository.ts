import { Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlModel, SqlSchema } from "effect/sql"
import { AgentId } from "../agents/domain.ts"
import { Change } from "../../audit/log/domain.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { Delegation, DelegationId, DelegationNotFound } from "./domain.ts"

export class DelegationsRepository extends Context.Service<
  DelegationsRepository,
  {
    list(agentId: AgentId, after: DelegationId | undefined, limit: number): Effect.Effect<ReadonlyArray<Delegation>>
    lock(agentId: AgentId, id: DelegationId): Effect.Effect<Delegation, DelegationNotFound, Change>
    /** The tenant of an account, null for one of the whole installation; read past row-level security, which hides those. */
    tenantOfAccount(id: string): Effect.Effect<Option.Option<TenantId | null>>
    insert(grant: typeof Delegation.insert.Type): Effect.Effect<Delegation, never, Change>
    revoke(id: DelegationId, at: DateTime.Utc): Effect.Effect<Delegation, never, Change>
    /** Moves `lastUsedAt` of many grants forward at once; use is no audit entry. */
    used(grants: ReadonlyArray<{ readonly id: string; readonly at: number }>): Effect.Effect<void>
  }
>()("app/delegations/DelegationsRepository") {
  static readonly layer = Layer.effect(
    DelegationsRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const model = yield* SqlModel.makeRepository(Delegation, {
        tableName: "delegation_grants",
        spanPrefix: "DelegationsRepository",
        idColumn: "id"
      })
      const selectPage = SqlSchema.findAll({
        Request: Schema.Struct({ agentId: AgentId, after: Schema.UndefinedOr(DelegationId), limit: Schema.Int }),
        Result: Delegation,
        execute: ({ after, agentId, limit }) => sql`
          SELECT * FROM delegation_grants
          WHERE agent_id = ${agentId} AND ${after === undefined ? sql`true` : sql`id > ${after}`}
          ORDER BY id LIMIT ${limit}`
      })
      const selectLocked = SqlSchema.findOneOption({
        Request: Schema.Struct({ agentId: AgentId, id: DelegationId }),
        Result: Delegation,
        execute: ({ agentId, id }) =>
          sql`SELECT * FROM delegation_grants WHERE id = ${id} AND agent_id = ${agentId} FOR UPDATE`
      })
      const selectAccount = SqlSchema.findOneOption({
        Request: Uuid,
        Result: Schema.Struct({ tenantId: Schema.NullOr(TenantId) }),
        execute: (id) => sql`SELECT tenant_id FROM account_subject(${id})`
      })
      const updateRevoked = SqlSchema.findOne({
        Request: Schema.Struct({ id: DelegationId, at: Schema.DateTimeUtcFromDate }),
        Result: Delegation,
        execute: ({ at, id }) => sql`UPDATE delegation_grants SET revoked_at = ${at} WHERE id = ${id} RETURNING *`
      })

      return DelegationsRepository.of({
        list: Effect.fn("DelegationsRepository.list")((agentId, after, limit) =>
          Effect.orDie(selectPage({ agentId, after, limit }))
        ),
        lock: Effect.fn("DelegationsRepository.lock")((agentId, id) =>
          Change.use(() =>
            Effect.flatMap(
              Effect.orDie(selectLocked({ agentId, id })),
              Option.match({
                onNone: () => Effect.fail(new DelegationNotFound({})),
                onSome: (grant) => Effect.succeed(grant)
              })
            )
          )
        ),
        tenantOfAccount: Effect.fn("DelegationsRepository.tenantOfAccount")((id) =>
          Effect.map(
            Effect.orDie(selectAccount(id)),
            Option.map(({ tenantId }) => tenantId)
          )
        ),
        insert: (grant) => Change.use(() => Effect.orDie(model.insert(grant))),
        revoke: Effect.fn("DelegationsRepository.revoke")((id, at) =>
          Change.use(() => Effect.orDie(updateRevoked({ id, at })))
        ),
        used: Effect.fn("DelegationsRepository.used")((grants) =>
          sql`
            UPDATE delegation_grants g SET last_used_at = greatest(g.last_used_at, u.at)
            FROM json_to_recordset(${JSON.stringify(
              grants.map(({ at, id }) => ({ id, at: DateTime.formatIso(DateTime.makeUnsafe(at)) }))
            )}::json) AS u(id uuid, at timestamptz)
            WHERE g.id = u.id`.pipe(Effect.asVoid, Effect.orDie)
        )
      })
    })
  )
}
