import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { makeTable, violations } from "../../platform/database/table.ts"
import { TenantNotFound } from "../tenants/domain.ts"
import { IdentityProvider, IdentityProviderNotFound } from "./domain.ts"

export class IdentityProvidersRepository extends Context.Service<IdentityProvidersRepository>()(
  "app/identity/IdentityProvidersRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const table = yield* makeTable(IdentityProvider, {
        name: "identity_providers",
        spanPrefix: "IdentityProvidersRepository",
        notFound: IdentityProviderNotFound,
        permit: Change
      })
      const selectWorkload = SqlSchema.findAll({
        Request: Schema.String,
        Result: IdentityProvider,
        execute: (issuer) => sql`
          SELECT * FROM identity_providers
          WHERE issuer = ${issuer} AND kind = 'workload' AND status = 'active' ORDER BY id`
      })
      const selectLogin = SqlSchema.findAll({
        Request: Schema.NullOr(TenantId),
        Result: IdentityProvider,
        execute: (tenantId) => sql`
          SELECT * FROM identity_providers
          WHERE kind = 'login' AND status = 'active' AND (tenant_id IS NULL OR tenant_id = ${tenantId})
          ORDER BY id LIMIT 200`
      })
      return {
        ...table,
        /** The active login providers of no tenant, and of one. */
        login: Effect.fn("IdentityProvidersRepository.login")((tenantId: TenantId | null) =>
          Effect.orDie(selectLogin(tenantId))
        ),
        /** The active workload providers of an issuer. */
        workload: Effect.fn("IdentityProvidersRepository.workload")((issuer: string) =>
          Effect.orDie(selectWorkload(issuer))
        ),
        insert: (provider: typeof IdentityProvider.insert.Type) =>
          table.insert(provider).pipe(violations({ identity_providers_tenant: TenantNotFound })),
        update: (provider: typeof IdentityProvider.update.Type) => Effect.orDie(table.update(provider)),
        delete: (id: IdentityProvider["id"]) => Effect.orDie(table.delete(id))
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
