import { Context, Effect, Layer, type Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { AgentId } from "../../identity/agents/domain.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { PlanId } from "./domain.ts"

/** What calls need to know of their plan; it never changes. */
export const CallPlan = Schema.Struct({
  tenantId: TenantId,
  id: PlanId,
  agentId: AgentId,
  taskType: Schema.NullOr(Schema.String),
  name: Schema.NullOr(Schema.String)
})
export type CallPlan = typeof CallPlan.Type

export class CallPlansRepository extends Context.Service<
  CallPlansRepository,
  { find(id: PlanId): Effect.Effect<Option.Option<CallPlan>> }
>()("app/budgets/CallPlansRepository") {
  static readonly layer = Layer.effect(
    CallPlansRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const selectOne = SqlSchema.findOneOption({
        Request: PlanId,
        Result: CallPlan,
        execute: (id) => sql`SELECT tenant_id, id, agent_id, task_type, name FROM budget_plans WHERE id = ${id}`
      })
      return CallPlansRepository.of({
        find: Effect.fn("CallPlansRepository.find")((id) => Effect.orDie(selectOne(id)))
      })
    })
  )
}
