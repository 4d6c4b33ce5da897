import { Context, type DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { makeTable } from "../../platform/database/table.ts"
import { delegationListing, Delegation, DelegationId, DelegationNotFound } from "./domain.ts"

export class DelegationsRepository extends Context.Service<DelegationsRepository>()(
  "app/agents/DelegationsRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const table = yield* makeTable(Delegation, {
        name: "delegation_grants",
        spanPrefix: "DelegationsRepository",
        notFound: DelegationNotFound,
        permit: Change,
        list: { as: delegationListing, text: "lower(t.subject || ' ' || coalesce(t.reason, ''))" }
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

      return {
        ...table,
        /** The tenant of an account, null for one of the whole installation; read past row-level security, which hides those. */
        tenantOfAccount: Effect.fn("DelegationsRepository.tenantOfAccount")((id: string) =>
          Effect.map(
            Effect.orDie(selectAccount(id)),
            Option.map(({ tenantId }) => tenantId)
          )
        ),
        revoke: Effect.fn("DelegationsRepository.revoke")((id: DelegationId, at: DateTime.Utc) =>
          Change.use(() => Effect.orDie(updateRevoked({ id, at })))
        ),
        /** Moves `lastUsedAt` of many grants forward at once; use is no audit entry. */
        used: (grants: ReadonlyArray<{ readonly id: string; readonly at: number }>) => table.touch("lastUsedAt", grants)
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
