import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { type BudgetSubject } from "../../budgets/ledger/protocol-domain.ts"

/** What cached responses of a subject would have cost. */
export interface CacheSaving {
  readonly subject: BudgetSubject
  readonly savedNanoUsd: bigint
}

export class CacheSavingsRepository extends Context.Service<CacheSavingsRepository>()(
  "app/gateway/CacheSavingsRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      return {
        /** Writes a usage row for each, which costs nothing and is no request. */
        insert: Effect.fn("CacheSavingsRepository.insert")((savings: ReadonlyArray<CacheSaving>) => {
          const rows = savings.map(({ savedNanoUsd, subject: { dimensions, plan, tenantId } }) => ({
            tenant_id: tenantId,
            agent_id: dimensions.agentId,
            plan_id: plan?.id,
            application_id: dimensions.applicationId,
            api_key_id: dimensions.apiKeyId,
            user_id: dimensions.userId,
            task_type: dimensions.taskType,
            model: dimensions.model,
            provider: dimensions.provider,
            saved: String(savedNanoUsd)
          }))
          return Effect.asVoid(Effect.orDie(sql`SELECT usage_cached(${JSON.stringify(rows)}::text::json)`))
        })
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
