import { Context, DateTime, Effect, Layer, type Option, Schema } from "effect"
import { SqlClient, SqlModel, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { violatedConstraint } from "../../platform/database/database.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { TenantNotFound } from "../tenants/domain.ts"
import { Agent, AgentId, AgentNameTaken, AgentNotFound, AgentStatus, BoundedAgent } from "./domain.ts"

const Filter = Schema.Struct({
  status: Schema.optionalKey(AgentStatus),
  ownerUserId: Schema.optionalKey(Schema.String),
  tenantId: Schema.optionalKey(TenantId),
  only: Schema.optionalKey(AgentId)
})
export type AgentFilter = typeof Filter.Type

export class AgentsRepository extends Context.Service<
  AgentsRepository,
  {
    list(filter: AgentFilter, after: AgentId | undefined, limit: number): Effect.Effect<ReadonlyArray<Agent>>
    get(id: AgentId): Effect.Effect<Agent, AgentNotFound>
    bounded(id: AgentId): Effect.Effect<BoundedAgent, AgentNotFound>
    /** The row locked until the transaction ends, but not against what only refers to it. */
    lock(id: AgentId): Effect.Effect<Agent, AgentNotFound, Change>
    insert(agent: typeof Agent.insert.Type): Effect.Effect<Agent, AgentNameTaken | TenantNotFound, Change>
    update(agent: typeof Agent.update.Type): Effect.Effect<Agent, AgentNameTaken, Change>
    /** Moves `lastSeenAt` of many agents forward at once; being seen is no audit entry. */
    seen(agents: ReadonlyArray<{ readonly id: string; readonly at: number }>): Effect.Effect<void>
  }
>()("app/agents/AgentsRepository") {
  static readonly layer = Layer.effect(
    AgentsRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const model = yield* SqlModel.makeRepository(Agent, {
        tableName: "agents",
        spanPrefix: "AgentsRepository",
        idColumn: "id"
      })
      const selectLocked = SqlSchema.findOneOption({
        Request: AgentId,
        Result: Agent,
        execute: (id) => sql`SELECT * FROM agents WHERE id = ${id} FOR NO KEY UPDATE`
      })
      const selectBounded = SqlSchema.findOneOption({
        Request: AgentId,
        Result: BoundedAgent,
        execute: (id) => sql`SELECT * FROM bounded_agents WHERE id = ${id}`
      })
      const selectPage = SqlSchema.findAll({
        Request: Schema.Struct({ filter: Filter, after: Schema.UndefinedOr(AgentId), limit: Schema.Int }),
        Result: Agent,
        execute: ({ after, filter, limit }) => sql`
          SELECT * FROM agents
          WHERE ${sql.and([
            ...(filter.status === undefined ? [] : [sql`status = ${filter.status}`]),
            ...(filter.ownerUserId === undefined ? [] : [sql`owner_user_id = ${filter.ownerUserId}`]),
            ...(filter.tenantId === undefined ? [] : [sql`tenant_id = ${filter.tenantId}`]),
            ...(filter.only === undefined ? [] : [sql`id = ${filter.only}`]),
            ...(after === undefined ? [] : [sql`id > ${after}`])
          ])}
          ORDER BY id LIMIT ${limit}`
      })

      return AgentsRepository.of({
        list: Effect.fn("AgentsRepository.list")((filter, after, limit) =>
          Effect.orDie(selectPage({ filter, after, limit }))
        ),
        get: (id) =>
          model.findById(id).pipe(
            Effect.catchTags({
              NoSuchElementError: () => new AgentNotFound({}),
              SqlError: Effect.die,
              SchemaError: Effect.die
            })
          ),
        bounded: Effect.fn("AgentsRepository.bounded")((id) => Effect.flatMap(Effect.orDie(selectBounded(id)), found)),
        lock: Effect.fn("AgentsRepository.lock")((id) =>
          Change.use(() => Effect.flatMap(Effect.orDie(selectLocked(id)), found))
        ),
        insert: (agent) =>
          Change.use(() =>
            model
              .insert(agent)
              .pipe(
                Effect.catchReason("SqlError", "UniqueViolation", nameTaken),
                Effect.catchReason("SqlError", "ConstraintError", tenantGone),
                Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
              )
          ),
        update: (agent) =>
          Change.use(() =>
            model
              .update(agent)
              .pipe(
                Effect.catchReason("SqlError", "UniqueViolation", nameTaken),
                Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
              )
          ),
        seen: Effect.fn("AgentsRepository.seen")((agents) =>
          sql`
            UPDATE agents a SET last_seen_at = greatest(a.last_seen_at, s.at)
            FROM json_to_recordset(${JSON.stringify(
              agents.map(({ at, id }) => ({ id, at: DateTime.formatIso(DateTime.makeUnsafe(at)) }))
            )}::json) AS s(id uuid, at timestamptz)
            WHERE a.id = s.id`.pipe(Effect.asVoid, Effect.orDie)
        )
      })
    })
  )
}

const found = <A>(agent: Option.Option<A>): Effect.Effect<A, AgentNotFound> =>
  Effect.mapError(Effect.fromOption(agent), () => new AgentNotFound({}))

const tenantGone = (reason: { readonly cause: unknown }) =>
  violatedConstraint(reason) === "agents_tenant" ? Effect.fail(new TenantNotFound({})) : Effect.die(reason)

const nameTaken = (reason: { readonly constraint: string }) =>
  reason.constraint === "agents_name" ? Effect.fail(new AgentNameTaken({})) : Effect.die(reason)
