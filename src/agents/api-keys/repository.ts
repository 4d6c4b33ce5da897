import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { ApplicationNotFound } from "../../applications/applications/domain.ts"
import { Change } from "../../audit/log/domain.ts"
import { Capability } from "../../kernel/authority/capability.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { indexedText } from "../../platform/database/list.ts"
import { makeTable } from "../../platform/database/table.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { ApiKey, ApiKeyId, apiKeyListing, ApiKeyNotFound, SyntheticKind } from "./domain.ts"

/** What authentication needs of a key; read past row-level security, since the tenant is not known yet. */
export const StoredKey = Schema.Struct({
  id: ApiKeyId,
  secretSha256: Schema.Uint8Array,
  scopes: Schema.Array(Capability),
  tenantId: Schema.NullOr(TenantId),
  tenantStatus: Schema.NullOr(Schema.String),
  applicationId: Schema.NullOr(Schema.Int),
  applicationStatus: Schema.NullOr(Schema.String),
  expiresAt: Schema.NullOr(InstantFromDate),
  revokedAt: Schema.NullOr(InstantFromDate),
  syntheticKind: Schema.NullOr(SyntheticKind)
})
export type StoredKey = typeof StoredKey.Type

export class ApiKeysRepository extends Context.Service<ApiKeysRepository>()("app/agents/ApiKeysRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const table = yield* makeTable(ApiKey, {
      name: "api_keys",
      spanPrefix: "ApiKeysRepository",
      notFound: ApiKeyNotFound,
      permit: Change,
      list: {
        as: apiKeyListing,
        text: indexedText
      },
      violations: { insert: { api_keys_tenant_id_fkey: TenantNotFound, api_keys_application: ApplicationNotFound } }
    })
    const selectCredential = SqlSchema.findOneOption({
      Request: Schema.String,
      Result: StoredKey,
      execute: (publicId) => sql`SELECT * FROM api_key_by_public_id(${publicId})`
    })

    const selectRotations = SqlSchema.findAll({
      Request: ApiKeyId,
      Result: ApiKey,
      execute: (id) => sql`
        WITH RECURSIVE rotations AS (
          SELECT id, 0 AS place FROM api_keys WHERE id = ${id}
          UNION ALL SELECT k.id, place + 1 FROM api_keys k JOIN rotations r ON k.rotated_from = r.id)
        SELECT k.* FROM api_keys k JOIN rotations USING (id) ORDER BY place`
    })

    return {
      ...table,
      /** A key and those that took its place one after another. */
      rotations: Effect.fn("ApiKeysRepository.rotations")((id: ApiKeyId) => Effect.orDie(selectRotations(id))),
      credential: (publicId: string) => Effect.orDie(selectCredential(publicId)),
      /** Whether a rotation put another key in the place of this one. */
      hasSuccessor: Effect.fn("ApiKeysRepository.hasSuccessor")((id: ApiKeyId) =>
        sql`SELECT 1 FROM api_keys WHERE rotated_from = ${id} LIMIT 1`.values.pipe(
          Effect.map((rows) => rows.length > 0),
          Effect.orDie
        )
      ),
      /** Moves `lastUsedAt` of many keys forward at once; use is no audit entry. */
      used: (uses: ReadonlyArray<{ readonly id: string; readonly at: number }>) => table.touch("lastUsedAt", uses)
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
