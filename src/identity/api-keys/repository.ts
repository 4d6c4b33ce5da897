import { Context, DateTime, Effect, Layer, Option, Predicate, Schema } from "effect"
import { SqlClient, type SqlError, SqlModel, SqlSchema } from "effect/sql"
import { ApplicationNotFound } from "../../applications/applications/domain.ts"
import { Change } from "../../audit/log/domain.ts"
import { Capability } from "../../kernel/capability.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { TenantNotFound } from "../tenants/domain.ts"
import { ApiKey, ApiKeyId, ApiKeyNotFound } from "./domain.ts"

/** What authentication needs of a key; read past row-level security, since the tenant is not known yet. */
export const Credential = Schema.Struct({
  id: ApiKeyId,
  secretSha256: Schema.Uint8Array,
  scopes: Schema.Array(Capability),
  tenantId: Schema.NullOr(TenantId),
  tenantStatus: Schema.NullOr(Schema.String),
  applicationId: Schema.NullOr(Schema.Int),
  expiresAt: Schema.NullOr(InstantFromDate),
  revokedAt: Schema.NullOr(InstantFromDate)
})
export type Credential = typeof Credential.Type

export class ApiKeysRepository extends Context.Service<
  ApiKeysRepository,
  {
    credential(publicId: string): Effect.Effect<Option.Option<Credential>>
    list(
      tenantId: TenantId | undefined,
      after: ApiKeyId | undefined,
      limit: number
    ): Effect.Effect<ReadonlyArray<ApiKey>>
    get(id: ApiKeyId): Effect.Effect<ApiKey, ApiKeyNotFound>
    lock(id: ApiKeyId): Effect.Effect<ApiKey, ApiKeyNotFound, Change>
    /** Whether a rotation put another key in the place of this one. */
    hasSuccessor(id: ApiKeyId): Effect.Effect<boolean>
    insert(key: typeof ApiKey.insert.Type): Effect.Effect<ApiKey, TenantNotFound | ApplicationNotFound, Change>
    update(key: typeof ApiKey.update.Type): Effect.Effect<ApiKey, never, Change>
    /** Moves `lastUsedAt` of many keys forward at once; use is no audit entry. */
    used(uses: ReadonlyArray<{ readonly id: ApiKeyId; readonly at: number }>): Effect.Effect<void>
  }
>()("app/api-keys/ApiKeysRepository") {
  static readonly layer = Layer.effect(
    ApiKeysRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const model = yield* SqlModel.makeRepository(ApiKey, {
        tableName: "api_keys",
        spanPrefix: "ApiKeysRepository",
        idColumn: "id"
      })
      const selectCredential = SqlSchema.findOneOption({
        Request: Schema.String,
        Result: Credential,
        execute: (publicId) => sql`SELECT * FROM api_key_by_public_id(${publicId})`
      })
      const selectLocked = SqlSchema.findOneOption({
        Request: ApiKeyId,
        Result: ApiKey,
        execute: (id) => sql`SELECT * FROM api_keys WHERE id = ${id} FOR UPDATE`
      })
      const selectPage = SqlSchema.findAll({
        Request: Schema.Struct({
          tenantId: Schema.UndefinedOr(TenantId),
          after: Schema.UndefinedOr(ApiKeyId),
          limit: Schema.Int
        }),
        Result: ApiKey,
        execute: ({ after, limit, tenantId }) => sql`
          SELECT * FROM api_keys
          WHERE ${sql.and([
            ...(tenantId === undefined ? [] : [sql`tenant_id = ${tenantId}`]),
            ...(after === undefined ? [] : [sql`id > ${after}`])
          ])}
          ORDER BY id LIMIT ${limit}`
      })

      return ApiKeysRepository.of({
        credential: (publicId) => Effect.orDie(selectCredential(publicId)),
        list: Effect.fn("ApiKeysRepository.list")((tenantId, after, limit) =>
          Effect.orDie(selectPage({ tenantId, after, limit }))
        ),
        get: (id) =>
          model.findById(id).pipe(
            Effect.catchTags({
              NoSuchElementError: () => new ApiKeyNotFound({}),
              SqlError: Effect.die,
              SchemaError: Effect.die
            })
          ),
        lock: Effect.fn("ApiKeysRepository.lock")((id) =>
          Change.use(() =>
            Effect.flatMap(
              Effect.orDie(selectLocked(id)),
              Option.match({ onNone: () => Effect.fail(new ApiKeyNotFound({})), onSome: (key) => Effect.succeed(key) })
            )
          )
        ),
        hasSuccessor: Effect.fn("ApiKeysRepository.hasSuccessor")((id) =>
          sql`SELECT 1 FROM api_keys WHERE rotated_from = ${id} LIMIT 1`.values.pipe(
            Effect.map((rows) => rows.length > 0),
            Effect.orDie
          )
        ),
        insert: (key) =>
          Change.use(() =>
            model
              .insert(key)
              .pipe(
                Effect.catchReason("SqlError", "ConstraintError", ownerGone),
                Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
              )
          ),
        update: (key) => Change.use(() => Effect.orDie(model.update(key))),
        used: Effect.fn("ApiKeysRepository.used")((uses) =>
          sql`
            UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, u.at)
            FROM json_to_recordset(${JSON.stringify(
              uses.map(({ at, id }) => ({ id, at: DateTime.formatIso(DateTime.makeUnsafe(at)) }))
            )}::json) AS u(id uuid, at timestamptz)
            WHERE k.id = u.id`.pipe(Effect.asVoid, Effect.orDie)
        )
      })
    })
  )
}

const ownerGone = (reason: SqlError.ConstraintError): Effect.Effect<never, TenantNotFound | ApplicationNotFound> => {
  const constraint = Predicate.hasProperty(reason.cause, "constraint") ? reason.cause.constraint : undefined
  if (constraint === "api_keys_tenant_id_fkey") return Effect.fail(new TenantNotFound({}))
  return constraint === "api_keys_application" ? Effect.fail(new ApplicationNotFound({})) : Effect.die(reason)
}
