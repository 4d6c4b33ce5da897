import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlModel, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { violatedConstraint } from "../../platform/database/database.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { TenantNotFound } from "../tenants/domain.ts"
import {
  AgentTemplate,
  AgentTemplateId,
  AgentTemplateInUse,
  AgentTemplateNameTaken,
  AgentTemplateNotFound
} from "./domain.ts"

export class AgentTemplatesRepository extends Context.Service<
  AgentTemplatesRepository,
  {
    list(
      tenantId: TenantId | undefined,
      after: AgentTemplateId | undefined,
      limit: number
    ): Effect.Effect<ReadonlyArray<AgentTemplate>>
    get(id: AgentTemplateId): Effect.Effect<AgentTemplate, AgentTemplateNotFound>
    /** The row locked FOR SHARE until the transaction ends: it stays as it is while an agent is made from it. */
    lockShared(id: AgentTemplateId): Effect.Effect<AgentTemplate, AgentTemplateNotFound, Change>
    lock(id: AgentTemplateId): Effect.Effect<AgentTemplate, AgentTemplateNotFound, Change>
    insert(
      template: typeof AgentTemplate.insert.Type
    ): Effect.Effect<AgentTemplate, AgentTemplateNameTaken | TenantNotFound, Change>
    update(template: typeof AgentTemplate.update.Type): Effect.Effect<AgentTemplate, AgentTemplateNameTaken, Change>
    /** Agents that are retired have no template afterwards; nothing bounds what can do nothing. */
    delete(id: AgentTemplateId): Effect.Effect<void, AgentTemplateInUse, Change>
  }
>()("app/agents/AgentTemplatesRepository") {
  static readonly layer = Layer.effect(
    AgentTemplatesRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const model = yield* SqlModel.makeRepository(AgentTemplate, {
        tableName: "agent_templates",
        spanPrefix: "AgentTemplatesRepository",
        idColumn: "id"
      })
      const selectLocked = SqlSchema.findOneOption({
        Request: AgentTemplateId,
        Result: AgentTemplate,
        execute: (id) => sql`SELECT * FROM agent_templates WHERE id = ${id} FOR UPDATE`
      })
      const selectHeld = SqlSchema.findOneOption({
        Request: AgentTemplateId,
        Result: AgentTemplate,
        execute: (id) => sql`SELECT * FROM agent_templates WHERE id = ${id} FOR SHARE`
      })
      const found = Option.match({
        onNone: () => Effect.fail(new AgentTemplateNotFound({})),
        onSome: (template: AgentTemplate) => Effect.succeed(template)
      })
      const selectPage = SqlSchema.findAll({
        Request: Schema.Struct({
          tenantId: Schema.UndefinedOr(TenantId),
          after: Schema.UndefinedOr(AgentTemplateId),
          limit: Schema.Int
        }),
        Result: AgentTemplate,
        execute: ({ after, limit, tenantId }) => sql`
          SELECT * FROM agent_templates
          WHERE ${sql.and([
            ...(tenantId === undefined ? [] : [sql`tenant_id = ${tenantId}`]),
            ...(after === undefined ? [] : [sql`id > ${after}`])
          ])}
          ORDER BY id LIMIT ${limit}`
      })

      return AgentTemplatesRepository.of({
        list: Effect.fn("AgentTemplatesRepository.list")((tenantId, after, limit) =>
          Effect.orDie(selectPage({ tenantId, after, limit }))
        ),
        get: (id) =>
          model.findById(id).pipe(
            Effect.catchTags({
              NoSuchElementError: () => new AgentTemplateNotFound({}),
              SqlError: Effect.die,
              SchemaError: Effect.die
            })
          ),
        lockShared: Effect.fn("AgentTemplatesRepository.lockShared")((id) =>
          Change.use(() => Effect.flatMap(Effect.orDie(selectHeld(id)), found))
        ),
        lock: Effect.fn("AgentTemplatesRepository.lock")((id) =>
          Change.use(() => Effect.flatMap(Effect.orDie(selectLocked(id)), found))
        ),
        insert: (template) =>
          Change.use(() =>
            model
              .insert(template)
              .pipe(
                Effect.catchReason("SqlError", "UniqueViolation", nameTaken),
                Effect.catchReason("SqlError", "ConstraintError", tenantGone),
                Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
              )
          ),
        update: (template) =>
          Change.use(() =>
            model
              .update(template)
              .pipe(
                Effect.catchReason("SqlError", "UniqueViolation", nameTaken),
                Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
              )
          ),
        delete: (id) =>
          Change.use(() =>
            sql`UPDATE agents SET template_id = NULL WHERE template_id = ${id} AND status = 'retired'`.pipe(
              Effect.andThen(model.delete(id)),
              Effect.catchReason("SqlError", "ConstraintError", () => Effect.fail(new AgentTemplateInUse({}))),
              Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
            )
          )
      })
    })
  )
}

const tenantGone = (reason: { readonly cause: unknown }) =>
  violatedConstraint(reason) === "agent_templates_tenant" ? Effect.fail(new TenantNotFound({})) : Effect.die(reason)

const nameTaken = (reason: { readonly constraint: string }) =>
  reason.constraint === "agent_templates_name" ? Effect.fail(new AgentTemplateNameTaken({})) : Effect.die(reason)
