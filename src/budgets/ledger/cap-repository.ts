import { Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { AgentNotFound } from "../../identity/agents/domain.ts"
import { ApiKeyNotFound } from "../../identity/api-keys/domain.ts"
import { ApplicationNotFound } from "../../applications/applications/domain.ts"
import { Change } from "../../audit/log/domain.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { TenantNotFound } from "../../identity/tenants/domain.ts"
import { AlertThreshold, CapId, CapMode, CapScope, CapStatus, Period, TooManyCaps } from "./cap-domain.ts"
import { Unit } from "./quantity-domain.ts"

/** A cap as it is stored. */
export const StoredCap = Schema.Struct({
  tenantId: TenantId,
  id: CapId,
  name: Schema.String,
  scope: CapScope,
  unit: Unit,
  limitAmount: Schema.BigInt,
  period: Period,
  windowSeconds: Schema.NullOr(Schema.Int),
  timeZone: Schema.String,
  anchor: Schema.NullOr(Schema.Int),
  mode: CapMode,
  alertThresholds: Schema.Array(AlertThreshold),
  status: CapStatus,
  version: Schema.Int,
  createdAt: InstantFromDate,
  updatedAt: InstantFromDate
})
export type StoredCap = typeof StoredCap.Type

export interface CapFilter {
  readonly tenantId?: TenantId
}

/** The caps of some tenants, each with the version that the list of its caps has. */
export interface Book {
  readonly version: bigint
  readonly caps: ReadonlyArray<StoredCap>
}

const columns =
  "tenant_id, id, name, scope, unit, limit_amount, period, window_seconds, time_zone, anchor, mode, alert_thresholds, status, version, created_at, updated_at"

export class CapsRepository extends Context.Service<
  CapsRepository,
  {
    book(tenantId: TenantId): Effect.Effect<Book>
    list(filter: CapFilter, after: CapId | undefined, limit: number): Effect.Effect<ReadonlyArray<StoredCap>>
    find(id: CapId): Effect.Effect<Option.Option<StoredCap>>
    /** The row locked until the transaction ends. */
    lock(id: CapId): Effect.Effect<Option.Option<StoredCap>, never, Change>
    /** With it the tenant has at most `most`. */
    insert(cap: StoredCap, by: string, most: number): Effect.Effect<StoredCap, TenantNotFound | TooManyCaps, Change>
    update(cap: StoredCap): Effect.Effect<StoredCap, never, Change>
    /** Leaves a tombstone: what was counted stays. */
    delete(cap: StoredCap, at: DateTime.Utc): Effect.Effect<void, never, Change>
    /** Fails where a scope names an agent, a key or an application that the tenant does not have. */
    requireNamed(
      tenantId: TenantId,
      scope: StoredCap["scope"]
    ): Effect.Effect<void, AgentNotFound | ApiKeyNotFound | ApplicationNotFound>
    /** Whether the database knows a time zone. */
    knowsZone(zone: string): Effect.Effect<boolean>
  }
>()("app/budgets/CapsRepository") {
  static readonly layer = Layer.effect(
    CapsRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const all = sql.literal(columns)
      const selectVersion = SqlSchema.findOneOption({
        Request: TenantId,
        Result: Schema.Struct({ version: Schema.BigInt }),
        execute: (tenantId) => sql`SELECT caps_version AS version FROM budget_books WHERE tenant_id = ${tenantId}`
      })
      const selectOfTenant = SqlSchema.findAll({
        Request: TenantId,
        Result: StoredCap,
        execute: (tenantId) => sql`
          SELECT ${all} FROM budget_caps WHERE tenant_id = ${tenantId} AND deleted_at IS NULL ORDER BY id`
      })
      const selectPage = SqlSchema.findAll({
        Request: Schema.Struct({
          tenantId: Schema.UndefinedOr(TenantId),
          after: Schema.UndefinedOr(CapId),
          limit: Schema.Int
        }),
        Result: StoredCap,
        execute: ({ after, limit, tenantId }) => sql`
          SELECT ${all} FROM budget_caps
          WHERE ${sql.and([
            sql`deleted_at IS NULL`,
            ...(tenantId === undefined ? [] : [sql`tenant_id = ${tenantId}`]),
            ...(after === undefined ? [] : [sql`id > ${after}`])
          ])}
          ORDER BY id LIMIT ${limit}`
      })
      const selectOne = SqlSchema.findOneOption({
        Request: CapId,
        Result: StoredCap,
        execute: (id) => sql`SELECT ${all} FROM budget_caps WHERE id = ${id} AND deleted_at IS NULL`
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
          WHERE ${cap.tenantId}::uuid = '00000000-0000-0000-0000-000000000000'
            OR EXISTS (SELECT FROM tenants WHERE id = ${cap.tenantId}::uuid)
          RETURNING ${all}`
      })
      const updateOne = SqlSchema.findOne({
        Request: Schema.toType(StoredCap),
        Result: StoredCap,
        execute: (cap) => sql`
          UPDATE budget_caps SET name = ${cap.name}, limit_amount = ${cap.limitAmount}, mode = ${cap.mode},
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
          WITH owner AS (SELECT nullif(${tenantId}::uuid, '00000000-0000-0000-0000-000000000000') AS id)
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
      // Whoever decides by a copy of the caps finds another version here, and reads them again.
      const bump = (tenantId: TenantId) =>
        sql`
          INSERT INTO budget_books AS b (tenant_id, caps_version) VALUES (${tenantId}, 1)
          ON CONFLICT (tenant_id) DO UPDATE SET caps_version = b.caps_version + 1`

      return CapsRepository.of({
        // The version is read first: caps that are newer than it only make the copy look old.
        book: Effect.fn("CapsRepository.book")(function* (tenantId) {
          const version = yield* Effect.orDie(selectVersion(tenantId))
          const caps = yield* Effect.orDie(selectOfTenant(tenantId))
          return { version: Option.match(version, { onNone: () => 0n, onSome: (row) => row.version }), caps }
        }),
        list: Effect.fn("CapsRepository.list")(({ tenantId }, after, limit) =>
          Effect.orDie(selectPage({ tenantId, after, limit }))
        ),
        find: Effect.fn("CapsRepository.find")((id) => Effect.orDie(selectOne(id))),
        lock: Effect.fn("CapsRepository.lock")((id) => Change.use(() => Effect.orDie(selectLocked(id)))),
        insert: Effect.fn("CapsRepository.insert")((cap, by, most) =>
          Change.use(() =>
            Effect.gen(function* () {
              const inserted = yield* Effect.orDie(insertOne({ cap, by }))
              if (Option.isNone(inserted)) return yield* new TenantNotFound({})
              yield* Effect.orDie(bump(cap.tenantId))
              // The book is locked until the transaction ends, so of those who make one at once each counts those before it.
              const { count } = yield* Effect.orDie(selectCount(cap.tenantId))
              if (count > most) return yield* new TooManyCaps({ maximum: most })
              return inserted.value
            })
          )
        ),
        update: Effect.fn("CapsRepository.update")((cap) =>
          Change.use(() => Effect.orDie(Effect.tap(updateOne(cap), bump(cap.tenantId))))
        ),
        delete: Effect.fn("CapsRepository.delete")(({ id, tenantId }, at) =>
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
        requireNamed: Effect.fn("CapsRepository.requireNamed")(function* (
          tenantId,
          { agentId, apiKeyId, applicationId }
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
        knowsZone: Effect.fn("CapsRepository.knowsZone")((zone) =>
          Effect.orDie(Effect.map(selectZone(zone), Option.isSome))
        )
      })
    })
  )
}

/** What a scope names by its id; nothing where each is counted. */
const single = <Value>(value: Value | "each" | undefined): Value | null =>
  value === undefined || value === "each" ? null : (value as Value)
