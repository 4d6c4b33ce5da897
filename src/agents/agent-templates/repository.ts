import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { makeTable } from "../../platform/database/table.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import {
  agentTemplateListing,
  AgentTemplate,
  type AgentTemplateId,
  AgentTemplateInUse,
  AgentTemplateNameTaken,
  AgentTemplateNotFound
} from "./domain.ts"

export class AgentTemplatesRepository extends Context.Service<AgentTemplatesRepository>()(
  "app/agents/AgentTemplatesRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const table = yield* makeTable(AgentTemplate, {
        name: "agent_templates",
        spanPrefix: "AgentTemplatesRepository",
        notFound: AgentTemplateNotFound,
        permit: Change,
        list: { as: agentTemplateListing, text: "lower(t.name || ' ' || t.description)" },
        violations: {
          insert: { agent_templates_name: AgentTemplateNameTaken, agent_templates_tenant: TenantNotFound },
          update: { agent_templates_name: AgentTemplateNameTaken },
          delete: { "*": AgentTemplateInUse }
        }
      })

      return {
        ...table,
        /** The row locked FOR SHARE until the transaction ends: it stays as it is while an agent is made from it. */
        lockShared: (id: AgentTemplateId) => table.lock({ id }, "SHARE"),
        /** Agents that are retired have no template afterwards; nothing bounds what can do nothing. */
        delete: (id: AgentTemplateId) =>
          Effect.andThen(
            Effect.orDie(sql`UPDATE agents SET template_id = NULL WHERE template_id = ${id} AND status = 'retired'`),
            table.delete(id)
          )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
