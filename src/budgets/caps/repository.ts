import { Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { type AgentId, AgentNotFound } from "../../agents/agents/domain.ts"
import { type ApiKeyId, ApiKeyNotFound } from "../../agents/api-keys/domain.ts"
import { type ApplicationId, ApplicationNotFound } from "../../applications/applications/domain.ts"
import { Change } from "../../audit/log/domain.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { rowLock } from "../../platform/database/database.ts"
import { makeList } from "../../platform/database/list.ts"
import { readRows } from "../../platform/database/table.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { allTenants, CapId, StoredCap } from "../ledger/domain.ts"
import { capListing, TooManyCaps } from "./domain.ts"

/** Which caps are listed; those of an agent, a key or an application name it in their scope. */
export interface CapFilter {
  readonly tenantId?: TenantId | undefined
  readonly agentId?: AgentId | undefined
  readonly apiKeyId?: ApiKeyId | undefined
  readonly applicationId?: ApplicationId | undefined
}

const columns =
  "tenant_id, id, name, scope, unit, limit_amount, period, window_seconds, time_zone, anchor, mode, alert_thresholds, status, version, created_at, updated_at"

export class CapsRepository extends Context.Service<CapsRepository>()("app/budgets/CapsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const all = sql.literal(columns)
    const page = makeList(sql, readRows(StoredCap), capListing, {
      from: "budget_caps",
      columns,
      hasTenant: true,
      text: "lower(t.name || ' ' || t.scope::text)"
    })
    const selectOne = SqlSchema.findOneOption({
      Request: CapId,
      Result: StoredCap,
      execute: (id) =>
        Effect.flatMap(
          rowLock(sql),
          (lock) => sql`SELECT ${all} FROM budget_caps WHERE id = ${id} AND deleted_at IS NULL ${lock}`
        )
    })
    const selectLocked = SqlSchema.findOneOption({
      Request: CapId,
      Result: StoredCap,
      execute: (id) => sql`SELECT ${all} FROM budget_caps WHERE id = ${id} AND deleted_at IS NULL FOR UPDATE`
    })
    const insertOne = SqlSchema.findOneOption({
      Request: Schema.Struct({ cap: Schema.toType(StoredCap), by: Schema.String }),
      Result: StoredCap,
      execute: ({ by, cap }) => sql`
          INSERT INTO budget_caps (tenant_id, name, scope, unit, limit_amount, period, window_seconds, time_zone, anchor,
            mode, alert_thresholds, status, version, created_at, created_by, updated_at)
          SELECT ${cap.tenantId}::uuid, ${cap.name}, ${JSON.stringify(cap.scope)}::text::jsonb, ${cap.unit},
            ${cap.limitAmount}::bigint, ${cap.period}, ${cap.windowSeconds}::integer, ${cap.timeZone},
            ${cap.anchor}::integer, ${cap.mode}, ${JSON.stringify(cap.alertThresholds)}::text::jsonb, ${cap.status},
            ${cap.version}::integer, ${DateTime.toDateUtc(cap.createdAt)}::timestamptz, ${by},
            ${DateTime.toDateUtc(cap.updatedAt)}::timestamptz
          WHERE ${cap.tenantId}::uuid = ${allTenants}::uuid
            OR EXISTS (SELECT FROM tenants WHERE id = ${cap.tenantId}::uuid)
          RETURNING ${all}`
    })
    const updateOne = SqlSchema.findOne({
      Request: Schema.toType(StoredCap),
      Result: StoredCap,
      execute: (cap) => sql`
          UPDATE budget_caps SET name = ${cap.name}, limit_amount = ${cap.limitAmount},
            limit_changed_at = CASE WHEN limit_amount = ${cap.limitAmount} THEN limit_changed_at
              ELSE ${DateTime.toDateUtc(cap.updatedAt)}::timestamptz END, mode = ${cap.mode},
            alert_thresholds = ${JSON.stringify(cap.alertThresholds)}::text::jsonb, status = ${cap.status},
            version = ${cap.version}, updated_at = ${DateTime.toDateUtc(cap.updatedAt)}
          WHERE tenant_id = ${cap.tenantId} AND id = ${cap.id} RETURNING ${all}`
    })
    const selectZone = SqlSchema.findOneOption({
      Request: Schema.String,
      Result: Schema.Struct({ name: Schema.String }),
      execute: (zone) => sql`SELECT name FROM pg_timezone_names WHERE name = ${zone} LIMIT 1`
    })
    const selectCount = SqlSchema.findOne({
      Request: TenantId,
      Result: Schema.Struct({ count: Schema.Int }),
      execute: (tenantId) => sql`
          SELECT count(*)::integer AS count FROM budget_caps WHERE tenant_id = ${tenantId} AND deleted_at IS NULL`
    })
    const selectNamed = SqlSchema.findOne({
      Request: Schema.Struct({
        tenantId: TenantId,
        agentId: Schema.NullOr(Schema.String),
        apiKeyId: Schema.NullOr(Schema.String),
        applicationId: Schema.NullOr(Schema.Int)
      }),
      Result: Schema.Struct({ hasAgent: Schema.Boolean, hasApiKey: Schema.Boolean, hasApplication: Schema.Boolean }),
      execute: ({ agentId, apiKeyId, applicationId, tenantId }) => sql`
          WITH owner AS (SELECT nullif(${tenantId}::uuid, ${allTenants}::uuid) AS id)
          SELECT
            ${agentId}::uuid IS NULL OR EXISTS (
              SELECT FROM agents a WHERE a.id = ${agentId}::uuid AND a.tenant_id = coalesce(o.id, a.tenant_id)) AS has_agent,
            ${apiKeyId}::uuid IS NULL OR EXISTS (
              SELECT FROM api_keys k WHERE k.id = ${apiKeyId}::uuid
                AND (o.id IS NULL OR k.tenant_id IS NULL OR k.tenant_id = o.id)) AS has_api_key,
            ${applicationId}::integer IS NULL OR EXISTS (
              SELECT FROM applications p WHERE p.id = ${applicationId}::integer) AS has_application
          FROM owner o`
    })
    // The change of a replica that was stopped must not keep others waiting.
    const briefly = sql`SELECT set_config('idle_in_transaction_session_timeout', '2s', true)`
    // A replica that decides by a copy of the caps finds another revision here, and reads them again.
    const bump = (tenantId: TenantId) =>
      sql`
          INSERT INTO budget_books AS b (tenant_id, caps_version) VALUES (${tenantId}, 1)
          ON CONFLICT (tenant_id) DO UPDATE SET caps_version = b.caps_version + 1`

    return {
      list: Effect.fn("CapsRepository.list")(
        ({ agentId, apiKeyId, applicationId, tenantId }: CapFilter, request: ListRequest<CapId>) =>
          page(
            [
              sql`deleted_at IS NULL`,
              ...(tenantId === undefined ? [] : [sql`tenant_id = ${tenantId}`]),
              ...Object.entries({ agentId, apiKeyId, applicationId }).flatMap(([member, value]) =>
                value === undefined ? [] : [sql`scope @> ${JSON.stringify({ [member]: value })}::text::jsonb`]
              )
            ],
            request
          )
      ),
      find: Effect.fn("CapsRepository.find")((id: CapId) => Effect.orDie(selectOne(id))),
      /** The row, locked until the transaction ends. */
      lock: Effect.fn("CapsRepository.lock")((id: CapId) =>
        Change.use(() => Effect.orDie(Effect.andThen(briefly, selectLocked(id))))
      ),
      /** With it the tenant has at most `maximum` caps. */
      insert: Effect.fn("CapsRepository.insert")((cap: StoredCap, by: string, maximum: number) =>
        Change.use(
          Effect.fnUntraced(function* () {
            yield* Effect.orDie(briefly)
            const inserted = yield* Effect.orDie(insertOne({ cap, by }))
            if (Option.isNone(inserted)) return yield* new TenantNotFound({})
            yield* Effect.orDie(bump(cap.tenantId))
            // The revision is locked until the transaction ends, so concurrent inserts count each other.
            const { count } = yield* Effect.orDie(selectCount(cap.tenantId))
            if (count > maximum) return yield* new TooManyCaps({ maximum })
            return inserted.value
          })
        )
      ),
      update: Effect.fn("CapsRepository.update")((cap: StoredCap) =>
        Change.use(() => Effect.orDie(Effect.tap(updateOne(cap), bump(cap.tenantId))))
      ),
      /** Leaves a tombstone: its counters and entries stay. */
      delete: Effect.fn("CapsRepository.delete")(({ id, tenantId }: StoredCap, at: DateTime.Utc) =>
        Change.use(() =>
          sql`
              UPDATE budget_caps SET deleted_at = ${DateTime.toDateUtc(at)}
              WHERE tenant_id = ${tenantId} AND id = ${id}`.pipe(
            Effect.andThen(bump(tenantId)),
            Effect.asVoid,
            Effect.orDie
          )
        )
      ),
      /** Fails where a scope names an agent, a key or an application that the tenant does not have. */
      requireNamed: Effect.fn("CapsRepository.requireNamed")(function* (
        tenantId: TenantId,
        { agentId, apiKeyId, applicationId }: StoredCap["scope"]
      ) {
        const named = yield* Effect.orDie(
          selectNamed({
            tenantId,
            agentId: single(agentId),
            apiKeyId: single(apiKeyId),
            applicationId: single(applicationId)
          })
        )
        if (!named.hasAgent) return yield* new AgentNotFound({})
        if (!named.hasApiKey) return yield* new ApiKeyNotFound({})
        if (!named.hasApplication) return yield* new ApplicationNotFound({})
      }),
      /** Whether the database knows a time zone. */
      knowsZone: Effect.fn("CapsRepository.knowsZone")((zone: string) =>
        Effect.orDie(Effect.map(selectZone(zone), Option.isSome))
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

/** What a scope names by its id; nothing where each is counted. */
const single = <Value>(value: Value | "each" | undefined): Value | null =>
  value === undefined || value === "each" ? null : (value as Value)
