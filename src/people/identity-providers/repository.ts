import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { makeTable } from "../../platform/database/table.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { identityProviderListing, IdentityProvider, IdentityProviderNotFound } from "./domain.ts"

export class IdentityProvidersRepository extends Context.Service<IdentityProvidersRepository>()(
  "app/people/IdentityProvidersRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const table = yield* makeTable(IdentityProvider, {
        name: "identity_providers",
        spanPrefix: "IdentityProvidersRepository",
        notFound: IdentityProviderNotFound,
        permit: Change,
        list: {
          as: identityProviderListing,
          text: "lower(t.issuer || ' ' || coalesce(t.client_id, '') || ' ' || array_to_string(t.domains, ' '))"
        },
        violations: { insert: { identity_providers_tenant: TenantNotFound } }
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
      const selectActive = SqlSchema.findAll({
        Request: Schema.Void,
        Result: IdentityProvider,
        execute: () => sql`SELECT * FROM identity_providers WHERE status = 'active' ORDER BY id`
      })
      return {
        ...table,
        /** The active login providers of no tenant, and of one. */
        login: Effect.fn("IdentityProvidersRepository.login")((tenantId: TenantId | null) =>
          Effect.orDie(selectLogin(tenantId))
        ),
        /** The active providers of all tenants. */
        active: Effect.orDie(selectActive(undefined)).pipe(Effect.withSpan("IdentityProvidersRepository.active")),
        /** Notes whether the keys could be fetched; that they could not is no audit entry. */
        keysFetched: Effect.fn("IdentityProvidersRepository.keysFetched")(
          (id: IdentityProvider["id"], isFetched: boolean, at: Date) =>
            Effect.asVoid(
              Effect.orDie(sql`
                UPDATE identity_providers
                SET keys_failing_since = CASE WHEN ${isFetched} THEN NULL ELSE coalesce(keys_failing_since, ${at}) END
                WHERE id = ${id} AND (keys_failing_since IS NULL) <> ${isFetched}`)
            )
        ),
        /** The active workload providers of an issuer. */
        workload: Effect.fn("IdentityProvidersRepository.workload")((issuer: string) =>
          Effect.orDie(selectWorkload(issuer))
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
