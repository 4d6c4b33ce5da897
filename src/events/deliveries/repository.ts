import { Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { AuditEntry } from "../../audit/log/domain.ts"
import { slice } from "../../kernel/http/page.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { type Moment, momentText } from "../../platform/database/database.ts"
import { readRows } from "../../platform/database/table.ts"
import {
  DeliveryAttempt,
  type AttemptResult,
  DeliveryId,
  type DeliveryStatus,
  StoredDelivery,
  type TakenDelivery,
  TargetId
} from "./domain.ts"

/** How long a replica has for an attempt that it took, longer than one can last. */
export const leaseSeconds = 30
const keptDays = 30

const Dispatch = Schema.Struct({ sequence: Schema.Int, revision: Schema.Int, head: Schema.Int })
export type Dispatch = typeof Dispatch.Type

/** Of one target so many waiting deliveries are counted at most. */
const countedOfTarget = 10_000

const Backlog = Schema.Struct({
  /** Deliveries whose time has come, and for how long the first of them waits. */
  due: Schema.Int,
  dueSeconds: Schema.Finite,
  /** Targets whose last attempt failed. */
  failingTargets: Schema.Int,
  /** How old the first event is of which no deliveries were made yet. */
  undispatchedSeconds: Schema.Finite
})

/** A delivery that is to be made. */
export interface NewDelivery {
  readonly tenantId: TenantId | null
  readonly targetId: TargetId
  readonly entryId: string
  readonly sequence: number
  readonly type: string
}

/** How many deliveries of a tenant may be taken, and of each of its targets. */
export interface TenantRoom {
  readonly free: number
  readonly targets: ReadonlyArray<{ readonly id: TargetId; readonly free: number }>
}

const Taken = Schema.Struct({
  ...AuditEntry.fields,
  deliveryId: DeliveryId,
  targetId: TargetId,
  tried: Schema.Int,
  isGone: Schema.Boolean
})

export class DeliveryRepository extends Context.Service<DeliveryRepository>()("app/events/DeliveryRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const now = (moment: Moment) => sql`coalesce(${momentText(moment) ?? null}::timestamptz, clock_timestamp())`

    const dispatch = (lock: string) =>
      SqlSchema.findOneOption({
        Request: Schema.Void,
        Result: Dispatch,
        execute: () => sql`
          SELECT d.sequence::double precision AS sequence, d.revision::double precision AS revision,
            (SELECT c.sequence::double precision FROM audit_chain c) AS head
          FROM event_dispatch d ${sql.literal(lock)}`
      })
    const look = dispatch("")
    const lock = dispatch("FOR UPDATE SKIP LOCKED")

    const take = SqlSchema.findAll({
      Request: Schema.Struct({ free: Schema.String, limit: Schema.Int, moment: Schema.Any }),
      Result: Taken,
      execute: ({ free, limit, moment }) => sql`
        WITH taken AS (
          UPDATE event_deliveries d SET due_at = ${now(moment as Moment)} + ${leaseSeconds} * interval '1 second'
          FROM (
            SELECT own.id FROM json_to_recordset(${free}::json) AS o(free integer, targets json)
            CROSS JOIN LATERAL (
              SELECT due.id FROM json_to_recordset(o.targets) AS t(id uuid, free integer)
              CROSS JOIN LATERAL (
                SELECT e.id, e.due_at FROM event_deliveries e
                WHERE e.target_id = t.id AND e.status = 'pending' AND e.due_at <= ${now(moment as Moment)}
                ORDER BY e.due_at LIMIT t.free FOR UPDATE SKIP LOCKED
              ) due LIMIT o.free
            ) own LIMIT ${limit}
          ) chosen
          WHERE d.id = chosen.id
          RETURNING d.id, d.target_id, d.entry_id, d.occurred_at, d.sequence, d.type, d.attempts, d.due_at
        )
        SELECT t.id AS delivery_id, t.target_id, jsonb_array_length(t.attempts) AS tried, e.id IS NULL AS is_gone,
          t.entry_id AS id, t.sequence::double precision AS sequence, t.occurred_at,
          coalesce(e.action_type, '') AS action_type, coalesce(e.entity_type, '') AS entity_type, e.entity_id,
          coalesce(e.user_id, '') AS user_id, coalesce(e.actor_type, '') AS actor_type, e.tenant_id, e.application_id,
          coalesce(e.outcome, 'success') AS outcome, e.reason, coalesce(e.count, 1) AS count, e.ip_address, e.user_agent,
          e.trace_id, e.changes
        FROM taken t LEFT JOIN audit_entries e ON e.id = t.entry_id AND e.occurred_at = t.occurred_at
        ORDER BY t.sequence`
    })

    const backlog = SqlSchema.findOne({
      Request: Schema.NullOr(Schema.String),
      Result: Backlog,
      execute: (given) => sql`
        WITH m AS MATERIALIZED (
          SELECT coalesce(${given}::timestamptz, clock_timestamp()) AS now
        ), active AS (
          SELECT id, after_sequence, failing_since FROM event_targets WHERE status = 'active'
        ), due AS (
          SELECT e.due_at FROM m CROSS JOIN active t CROSS JOIN LATERAL (
            SELECT d.due_at FROM event_deliveries d
            WHERE d.target_id = t.id AND d.status = 'pending' AND d.due_at <= m.now ORDER BY d.due_at LIMIT ${countedOfTarget}
          ) e
        )
        SELECT (SELECT count(*) FROM due)::integer AS due,
          coalesce((SELECT extract(epoch FROM m.now - min(due_at)) FROM due), 0)::double precision AS due_seconds,
          (SELECT count(*) FROM active WHERE failing_since IS NOT NULL)::integer AS failing_targets,
          coalesce((SELECT extract(epoch FROM m.now - l.occurred_at) FROM audit_links l
            WHERE l.sequence > greatest((SELECT sequence FROM event_dispatch), (SELECT min(after_sequence) FROM active))
            AND EXISTS (SELECT FROM active) ORDER BY l.sequence LIMIT 1), 0)::double precision AS undispatched_seconds
        FROM m`
    })

    const deliveryColumns = sql.literal(`d.id, d.type, d.status, d.attempts,
      CASE WHEN d.status = 'pending' THEN d.due_at END AS next_attempt_at, d.entry_id AS webhook_id`)
    const deliveries = readRows(StoredDelivery)

    return {
      /**
       * Spares the transaction the wait for the disk: what a crash of the database undoes is dispatched or attempted again, with
       * the same ids.
       */
      relaxed: Effect.orDie(Effect.asVoid(sql`SET LOCAL synchronous_commit = off`)),
      look: Effect.orDie(Effect.map(look(undefined), Option.getOrThrow)),
      /** Keeps other replicas from dispatching until the transaction ends; none while one does. */
      lock: Effect.orDie(lock(undefined)),
      moveTo: (sequence: number) =>
        Effect.orDie(Effect.asVoid(sql`UPDATE event_dispatch SET sequence = ${sequence}::bigint`)),
      insert: (some: ReadonlyArray<NewDelivery>, moment: Moment) =>
        Effect.orDie(
          Effect.asVoid(sql`
            INSERT INTO event_deliveries (tenant_id, target_id, entry_id, occurred_at, sequence, type, status, due_at,
              created_at)
            SELECT r."tenantId", r."targetId", r."entryId", l.occurred_at, r.sequence, r.type, 'pending', m.now, m.now
            FROM json_to_recordset(${JSON.stringify(some)}::json) AS r(
              "tenantId" uuid, "targetId" uuid, "entryId" uuid, sequence bigint, type text)
            JOIN audit_links l ON l.entry_id = r."entryId" AND l.sequence = r.sequence
            CROSS JOIN (SELECT ${now(moment)} AS now) m
            ORDER BY r.sequence`)
        ),
      /**
       * Makes deliveries of the events since a moment again: of the types that actions have and of those of others, where a
       * pattern is a prefix or the whole.
       */
      replay: (
        target: { readonly id: TargetId; readonly tenantId: TenantId | null },
        since: DateTime.Utc,
        own: ReadonlyArray<{ readonly type: string; readonly actionType: string; readonly entityType: string }>,
        patterns: ReadonlyArray<string>,
        moment: Moment
      ) =>
        sql`
          INSERT INTO event_deliveries (tenant_id, target_id, entry_id, occurred_at, sequence, type, status, due_at, created_at)
          SELECT ${target.tenantId}::uuid, ${target.id}::uuid, e.id, e.occurred_at, l.sequence,
            coalesce(o.type, e.changes->'after'->>'type'), 'pending', m.now, m.now
          FROM audit_entries e
          JOIN audit_links l ON l.entry_id = e.id AND l.occurred_at = e.occurred_at
          CROSS JOIN (SELECT ${now(moment)} AS now) m
          LEFT JOIN json_to_recordset(${JSON.stringify(own)}::json) AS o(type text, "actionType" text, "entityType" text)
            ON o."actionType" = e.action_type AND o."entityType" = e.entity_type
          WHERE e.occurred_at >= ${DateTime.toDateUtc(since)} AND l.occurred_at >= ${DateTime.toDateUtc(since)}
            AND l.sequence <= (SELECT sequence FROM event_dispatch)
            AND (${target.tenantId}::uuid IS NULL OR e.tenant_id = ${target.tenantId}::uuid)
            AND (o.type IS NOT NULL OR e.action_type = 'EventReceived' AND EXISTS (
              SELECT FROM unnest(${patterns}::text[]) p WHERE CASE WHEN right(p, 1) = '*'
                THEN starts_with(e.changes->'after'->>'type', left(p, -1)) ELSE e.changes->'after'->>'type' = p END))
          ORDER BY l.sequence
          RETURNING id`.pipe(
          Effect.map(({ length }) => length),
          Effect.orDie
        ),
      /** Takes deliveries that are due, at most so many of each target. */
      take: Effect.fn("DeliveryRepository.take")(
        (
          rooms: ReadonlyArray<TenantRoom>,
          limit: number,
          moment: Moment
        ): Effect.Effect<ReadonlyArray<TakenDelivery>> =>
          take({ free: JSON.stringify(rooms), limit, moment }).pipe(
            Effect.map((rows) =>
              rows.map(({ deliveryId, isGone, targetId, tried, ...entry }) => ({
                id: deliveryId,
                targetId,
                tried,
                entry: isGone ? null : AuditEntry.make(entry, { disableChecks: true })
              }))
            ),
            Effect.orDie
          )
      ),
      /** Stores what became of attempts, and since when their targets fail. */
      store: (results: ReadonlyArray<AttemptResult>, moment: Moment) => {
        const lastOfTarget = new Map(results.map(({ isDelivered, targetId }) => [targetId, isDelivered]))
        return sql`
          WITH stored AS (
            UPDATE event_deliveries d SET
              status = r.status, attempts = d.attempts || jsonb_build_array(r.attempt),
              due_at = ${now(moment)} + r.pause * interval '1 millisecond'
            FROM json_to_recordset(${JSON.stringify(
              results.map(({ attempt, id, isDelivered, retryInMillis }) => ({
                id,
                status: isDelivered ? "delivered" : retryInMillis === null ? "failed" : "pending",
                attempt: encodeAttempt(attempt),
                pause: retryInMillis ?? 0
              }))
            )}::json) AS r(id uuid, status text, attempt jsonb, pause double precision)
            WHERE d.id = r.id AND d.status = 'pending'
          )
          UPDATE event_targets t SET failing_since = CASE WHEN r.ok THEN NULL ELSE ${now(moment)} END
          FROM json_to_recordset(${JSON.stringify(
            Array.from(lastOfTarget, ([id, ok]) => ({ id, ok }))
          )}::json) AS r(id uuid, ok boolean)
          WHERE t.id = r.id AND (t.failing_since IS NULL) <> r.ok`.pipe(Effect.asVoid, Effect.orDie)
      },
      list: Effect.fn("DeliveryRepository.list")(
        (
          targetId: TargetId,
          status: typeof DeliveryStatus.Type | undefined,
          before: DeliveryId | undefined,
          limit: number
        ) =>
          Effect.map(
            deliveries(sql`
              SELECT ${deliveryColumns} FROM event_deliveries d WHERE ${sql.and([
                sql`d.target_id = ${targetId}`,
                ...(status === undefined ? [] : [sql`d.status = ${status}`]),
                ...(before === undefined ? [] : [sql`d.id < ${before}`])
              ])} ORDER BY d.id DESC LIMIT ${limit + 1}`),
            (some) => slice(some, limit, ({ id }) => id)
          )
      ),
      /** Makes a delivery due now, also one that has been delivered. */
      retry: (targetId: TargetId, id: DeliveryId, moment: Moment) =>
        Effect.map(
          deliveries(sql`
            UPDATE event_deliveries d SET status = 'pending', due_at = ${now(moment)}
            WHERE d.target_id = ${targetId} AND d.id = ${id} RETURNING ${deliveryColumns}`),
          ([delivery]) => Option.fromNullishOr(delivery)
        ),
      /** What waits for a replica. */
      backlog: (moment: Moment) => Effect.orDie(backlog(momentText(moment) ?? null)),
      deleteOld: (moment: Moment) =>
        Effect.orDie(
          Effect.asVoid(sql`
            DELETE FROM event_deliveries WHERE created_at < ${now(moment)} - ${keptDays} * interval '24 hours'`)
        )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

const encodeAttempt = Schema.encodeSync(DeliveryAttempt)
