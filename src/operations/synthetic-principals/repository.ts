import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { makeTable } from "../../platform/database/table.ts"
import { syntheticPrincipalListing, Made, SyntheticPrincipal, SyntheticPrincipalNotFound } from "./domain.ts"

/** Reads the view of those API keys that are synthetic principals, and what these made in the tables of other features. */
export class SyntheticPrincipalsRepository extends Context.Service<SyntheticPrincipalsRepository>()(
  "app/operations/SyntheticPrincipalsRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const table = yield* makeTable(SyntheticPrincipal, {
        name: "synthetic_principals",
        spanPrefix: "SyntheticPrincipalsRepository",
        notFound: SyntheticPrincipalNotFound,
        permit: Change,
        list: { as: syntheticPrincipalListing, text: "lower(t.name)" }
      })
      const selectMade = SqlSchema.findAll({
        Request: Schema.Struct({ principal: Schema.String, tenantId: TenantId }),
        Result: Made,
        execute: ({ principal, tenantId }) => sql`
          WITH own_agents AS (
            SELECT id, status FROM agents WHERE tenant_id = ${tenantId} AND created_by = ${principal}
          ), makers AS (SELECT ${principal}::text AS name UNION SELECT 'agent:' || id FROM own_agents)
          SELECT CASE kind WHEN 'subscription' THEN 'event-subscription' ELSE 'integration' END AS kind, id::text,
            NULL::text AS agent_id
          FROM event_targets WHERE tenant_id = ${tenantId} AND created_by IN (SELECT name FROM makers)
          UNION ALL
          SELECT 'plan', id::text, agent_id::text FROM budget_plans
          WHERE tenant_id = ${tenantId} AND status IN ('active', 'suspended')
            AND (created_by = ${principal} OR agent_id IN (SELECT id FROM own_agents))
          UNION ALL
          SELECT 'reservation', id::text, NULL FROM budget_reservations
          WHERE tenant_id = ${tenantId} AND state IN ('open', 'held') AND origin = 'api'
            AND (created_by = ${principal} OR agent_id IN (SELECT id FROM own_agents))
          UNION ALL
          SELECT 'cap', id::text, NULL FROM budget_caps
          WHERE tenant_id = ${tenantId} AND deleted_at IS NULL AND created_by IN (SELECT name FROM makers)
          UNION ALL
          SELECT 'subscription', id::text, NULL FROM subscriptions
          WHERE tenant_id = ${tenantId} AND created_by IN (SELECT name FROM makers)
          UNION ALL
          SELECT 'response', id::text, NULL FROM gateway_responses
          WHERE tenant_id = ${tenantId} AND created_by IN (SELECT name FROM makers)
          UNION ALL
          SELECT 'transcript', c.reservation_id::text, NULL FROM usage_rows u
          JOIN gateway_contents c ON c.reservation_id = u.reservation_id AND c.tenant_id = u.tenant_id
          WHERE u.synthetic AND u.tenant_id = ${tenantId}
            AND (u.created_by = ${principal} OR u.agent_id IN (SELECT id FROM own_agents))
          UNION ALL
          SELECT 'agent', id::text, NULL FROM own_agents WHERE status <> 'retired'`
      })
      return {
        ...table,
        /** What a principal and its agents made and that is still there. */
        made: Effect.fn("SyntheticPrincipalsRepository.made")((principal: string, tenantId: TenantId) =>
          Effect.orDie(selectMade({ principal, tenantId }))
        ),
        /** Deletes contents of calls, which no other feature deletes before they expire. */
        deleteContents: Effect.fn("SyntheticPrincipalsRepository.deleteContents")(
          (tenantId: TenantId, responses: ReadonlyArray<string>, transcripts: ReadonlyArray<string>) =>
            Effect.andThen(
              Change,
              sql`DELETE FROM gateway_responses WHERE tenant_id = ${tenantId} AND id = ANY (${responses}::uuid[])`.pipe(
                Effect.andThen(sql`
                  DELETE FROM gateway_contents
                  WHERE tenant_id = ${tenantId} AND reservation_id = ANY (${transcripts}::uuid[])`),
                Effect.asVoid,
                Effect.orDie
              )
            )
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
