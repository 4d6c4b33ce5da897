import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../audit/log/domain.ts"
import { TenantId } from "../kernel/identifier.ts"
import { indexedText } from "../platform/database/list.ts"
import { makeSlugInsert, makeTable } from "../platform/database/table.ts"
import { tenantListing, Tenant, TenantNotFound, TenantSlugTaken } from "./domain.ts"

export class TenantsRepository extends Context.Service<TenantsRepository>()("app/tenants/TenantsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const table = yield* makeTable(Tenant, {
      name: "tenants",
      spanPrefix: "TenantsRepository",
      notFound: TenantNotFound,
      permit: Change,
      list: { as: tenantListing, text: indexedText },
      violations: { insert: { tenants_slug_key: TenantSlugTaken }, update: { tenants_slug_key: TenantSlugTaken } },
      batchedBy: "uuid"
    })
    const insertUnderFree = yield* makeSlugInsert(Tenant, {
      name: "tenants",
      spanPrefix: "TenantsRepository",
      taken: TenantSlugTaken,
      permit: Change
    })
    const selectDefault = SqlSchema.findOne({
      Request: Schema.Void,
      Result: Schema.Struct({ id: TenantId }),
      execute: () => sql`SELECT id FROM tenants WHERE slug = 'default'`
    })
    return {
      ...table,
      defaultId: Effect.orDie(Effect.map(selectDefault(undefined), ({ id }) => id)),
      insertUnderFree
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
