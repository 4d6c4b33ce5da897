import { Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { rowLock } from "../../platform/database/database.ts"
import { makeList } from "../../platform/database/list.ts"
import { readRows, violations } from "../../platform/database/table.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { maxTargets, Target, TargetId, type TargetKind, targetListing, TooManyEventTargets } from "./domain.ts"

const columns =
  "id, tenant_id, kind, name, url, event_types, filters, config, status, created_at, created_by, updated_at"

/** The secrets of a target, encrypted for `event-target:<id>`. */
const SealedSecrets = Schema.Struct({
  sealedSecret: Schema.NullOr(Schema.Uint8Array),
  sealedPreviousSecret: Schema.NullOr(Schema.Uint8Array),
  previousSecretUntil: Schema.NullOr(Schema.DateTimeUtcFromDate)
})
export type SealedSecrets = typeof SealedSecrets.Type

const DeliverableTarget = Schema.Struct({ ...Target.fields, ...SealedSecrets.fields, afterSequence: Schema.Int })
export type DeliverableTarget = typeof DeliverableTarget.Type

type Kinds = ReadonlyArray<typeof TargetKind.Type>

export class TargetRepository extends Context.Service<TargetRepository>()("app/events/TargetRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const all = sql.literal(columns)
    const rows = readRows(Target)
    const page = makeList(sql, rows, targetListing, {
      from: "event_targets",
      columns,
      hasTenant: true,
      text: "lower(t.name || ' ' || t.url)"
    })
    const one = (kinds: Kinds, id: TargetId, lock: Statement.Fragment) =>
      Effect.map(
        rows(sql`SELECT ${all} FROM event_targets WHERE id = ${id} AND kind = ANY(${kinds}) ${lock}`),
        ([target]) => Option.fromNullishOr(target)
      )
    const deliverable = SqlSchema.findAll({
      Request: Schema.Void,
      Result: DeliverableTarget,
      execute: () => sql`
        SELECT ${all}, sealed_secret, sealed_previous_secret, previous_secret_until,
          after_sequence::double precision AS after_sequence
        FROM event_targets WHERE status = 'active' ORDER BY id`
    })
    const secrets = SqlSchema.findOne({
      Request: TargetId,
      Result: SealedSecrets,
      execute: (id) => sql`
        SELECT sealed_secret, sealed_previous_secret, previous_secret_until FROM event_targets WHERE id = ${id}`
    })
    const failing = SqlSchema.findAll({
      Request: Schema.Array(TargetId),
      Result: Schema.Struct({ id: TargetId, failingSince: Schema.DateTimeUtcFromDate }),
      execute: (ids) => sql`
        SELECT id, failing_since FROM event_targets
        WHERE id = ANY(${ids}::uuid[]) AND status = 'active' AND failing_since IS NOT NULL`
    })

    const selectCount = SqlSchema.findOne({
      Request: Target.fields.tenantId,
      Result: Schema.Struct({ count: Schema.Int }),
      execute: (tenantId) => sql`
        SELECT count(*)::integer AS count FROM event_targets
        WHERE ${tenantId === null ? sql`tenant_id IS NULL` : sql`tenant_id = ${tenantId}`}`
    })

    /** Waits for a dispatch under way; every replica reads the targets again before the next one. */
    const announce = Effect.orDie(sql`UPDATE event_dispatch SET revision = revision + 1`)

    return {
      list: Effect.fn("TargetRepository.list")(
        (kinds: Kinds, tenantId: TenantId | undefined, request: ListRequest<TargetId>) =>
          page([sql`kind = ANY(${kinds})`, ...(tenantId === undefined ? [] : [sql`tenant_id = ${tenantId}`])], request)
      ),
      find: Effect.fn("TargetRepository.find")((kinds: Kinds, id: TargetId) =>
        Effect.flatMap(rowLock(sql), (lock) => one(kinds, id, lock))
      ),
      /** Locked in the order of a dispatch, which holds its place and then refers to targets: no deadlock between them. */
      lock: (kinds: Kinds, id: TargetId) =>
        Change.use(() =>
          Effect.andThen(
            Effect.orDie(sql`SELECT revision FROM event_dispatch FOR UPDATE`),
            one(kinds, id, sql.literal("FOR NO KEY UPDATE"))
          )
        ),
      /** Keeps it from being deleted. Dispatch goes on, since deliveries of every tenant wait for that. */
      hold: (kinds: Kinds, id: TargetId) => Change.use(() => one(kinds, id, sql.literal("FOR KEY SHARE"))),
      /** With it its tenant has at most {@link maxTargets}. */
      insert: (target: Target, sealedSecret: Uint8Array | null) =>
        Change.use(
          Effect.fnUntraced(function* () {
            yield* announce
            // The revision is locked until the transaction ends, so concurrent inserts count each other.
            const { count } = yield* Effect.orDie(selectCount(target.tenantId))
            if (count >= maxTargets) return yield* new TooManyEventTargets({ maximum: maxTargets })
            yield* sql`
              INSERT INTO event_targets (id, tenant_id, kind, name, url, event_types, filters, config, status,
                sealed_secret, after_sequence, created_at, created_by, updated_at)
              VALUES (${target.id}, ${target.tenantId}, ${target.kind}, ${target.name}, ${target.url},
                ${target.eventTypes}::text[], ${JSON.stringify(target.filters)}::text::jsonb,
                ${JSON.stringify(target.config)}::text::jsonb, ${target.status}, ${sealedSecret},
                (SELECT sequence FROM audit_chain), ${date(target.createdAt)}, ${target.createdBy},
                ${date(target.updatedAt)})`.pipe(violations({ event_targets_tenant: TenantNotFound }))
          })
        ),
      /** A target that becomes active gets what comes next. */
      update: (target: Target) =>
        Change.use(() =>
          announce.pipe(
            Effect.andThen(sql`
              UPDATE event_targets SET name = ${target.name}, url = ${target.url},
                event_types = ${target.eventTypes}::text[], filters = ${JSON.stringify(target.filters)}::text::jsonb,
                config = ${JSON.stringify(target.config)}::text::jsonb, status = ${target.status},
                after_sequence = CASE WHEN event_targets.status = ${target.status} THEN after_sequence
                  ELSE (SELECT c.sequence FROM audit_chain c) END,
                failing_since = CASE WHEN event_targets.status = ${target.status} THEN failing_since END,
                updated_at = ${date(target.updatedAt)}
              WHERE id = ${target.id}`),
            Effect.asVoid,
            Effect.orDie
          )
        ),
      /**
       * The secret in use becomes the previous one; what was the previous one no longer signs. No answer shows a secret, so
       * `updatedAt` moves in any case: the target has another tag.
       */
      rotateSecret: (id: TargetId, sealedSecret: Uint8Array, previousUntil: DateTime.Utc, at: DateTime.Utc) =>
        Change.use(() =>
          announce.pipe(
            Effect.andThen(sql`
              UPDATE event_targets SET sealed_previous_secret = sealed_secret, sealed_secret = ${sealedSecret},
                previous_secret_until = ${date(previousUntil)},
                updated_at = greatest(${date(at)}, updated_at + interval '1 millisecond')
              WHERE id = ${id}`),
            Effect.asVoid,
            Effect.orDie
          )
        ),
      /** Neither the secret in use nor the previous one signs any more. */
      removeSecrets: (id: TargetId) =>
        Change.use(() =>
          announce.pipe(
            Effect.andThen(sql`
              UPDATE event_targets SET sealed_secret = NULL, sealed_previous_secret = NULL, previous_secret_until = NULL
              WHERE id = ${id}`),
            Effect.asVoid,
            Effect.orDie
          )
        ),
      delete: (id: TargetId) =>
        Change.use(() =>
          announce.pipe(Effect.andThen(sql`DELETE FROM event_targets WHERE id = ${id}`), Effect.asVoid, Effect.orDie)
        ),
      secrets: (id: TargetId) => Effect.orDie(secrets(id)),
      /** Every active target of every tenant, with its secrets. */
      deliverable: Effect.orDie(deliverable(undefined)),
      /** Since when the active ones among these fail. */
      failing: (ids: ReadonlyArray<TargetId>) => Effect.orDie(failing(ids)),
      disable: (id: TargetId, now: DateTime.Utc) =>
        Change.use(() =>
          announce.pipe(
            Effect.andThen(sql`
              UPDATE event_targets SET status = 'disabled', updated_at = ${date(now)}
              WHERE id = ${id} AND status = 'active' RETURNING id`),
            Effect.map(({ length }) => length === 1),
            Effect.orDie
          )
        )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

const date = (moment: DateTime.Utc) => DateTime.toDateUtc(moment)
