import { Context, type DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { AccountId } from "../accounts/domain.ts"
import { IdentityProviderId } from "../identity-providers/domain.ts"

const Identity = Schema.Struct({ providerId: IdentityProviderId, subject: Schema.String })
type Identity = typeof Identity.Type

export class AccountIdentitiesRepository extends Context.Service<AccountIdentitiesRepository>()(
  "app/people/AccountIdentitiesRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const select = SqlSchema.findOneOption({
        Request: Identity,
        Result: Schema.Struct({ accountId: AccountId, tenantId: Schema.NullOr(TenantId) }),
        execute: ({ providerId, subject }) => sql`
          SELECT account_id, tenant_id FROM account_identities
          WHERE provider_id = ${providerId} AND subject = ${subject}`
      })
      const lockProvider = SqlSchema.findOneOption({
        Request: IdentityProviderId,
        Result: Schema.Struct({ id: IdentityProviderId }),
        execute: (id) => sql`
          SELECT id FROM identity_providers
          WHERE id = ${id} AND kind = 'login' AND status = 'active' FOR NO KEY UPDATE`
      })
      const insert = SqlSchema.void({
        Request: Schema.Struct({
          ...Identity.fields,
          accountId: AccountId,
          tenantId: Schema.NullOr(TenantId),
          createdAt: InstantFromDate
        }),
        execute: (row) => sql`INSERT INTO account_identities ${sql.insert(row)}`
      })
      return {
        find: Effect.fn("AccountIdentitiesRepository.find")((identity: Identity) => Effect.orDie(select(identity))),
        /** Lets one first sign-in with a provider pass at a time; none where no sign-in uses it any more. */
        lockProvider: Effect.fn("AccountIdentitiesRepository.lockProvider")((id: IdentityProviderId) =>
          Change.use(() => Effect.orDie(lockProvider(id)))
        ),
        insert: Effect.fn("AccountIdentitiesRepository.insert")(
          (
            identity: Identity & {
              readonly accountId: AccountId
              readonly tenantId: TenantId | null
              readonly createdAt: DateTime.Utc
            }
          ) => Change.use(() => Effect.orDie(insert(identity)))
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
