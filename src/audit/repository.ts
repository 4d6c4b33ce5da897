import { Context, DateTime, Effect, Layer, type Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { type AuditCursor, AuditEntry, AuditEntryId, type AuditFilter, type AuditOrigin } from "./domain.ts"

/** A row as it is written: the draft with everything that the request and the principal add to it. */
export interface AuditRow extends AuditOrigin {
  readonly action_type: string
  readonly entity_type: string
  readonly entity_id: string | null
  readonly application_id: number | null
  readonly outcome: "success" | "denied" | "failed"
  readonly reason: string | null
  readonly count: number
  readonly changes: { readonly before: object | null; readonly after: object | null } | null
}

export class AuditRepository extends Context.Service<
  AuditRepository,
  {
    insert(rows: ReadonlyArray<AuditRow>): Effect.Effect<void>
    list(filter: AuditFilter, after: AuditCursor | undefined, limit: number): Effect.Effect<ReadonlyArray<AuditEntry>>
    find(id: AuditEntryId): Effect.Effect<Option.Option<AuditEntry>>
    makePartitions(months: number): Effect.Effect<void>
  }
>()("app/audit/AuditRepository") {
  static readonly layer = Layer.effect(
    AuditRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient

      const columns = sql.literal(
        "id, NULL::integer AS sequence, occurred_at, action_type, entity_type, entity_id, user_id, actor_type, tenant_id, " +
          "application_id, outcome, reason, count, ip_address, user_agent, trace_id"
      )
      const selectOne = SqlSchema.findOneOption({
        Request: AuditEntryId,
        Result: AuditEntry,
        execute: (id) => sql`SELECT ${columns}, changes FROM audit_entries WHERE id = ${id}`
      })
      const decode = Schema.decodeUnknownEffect(Schema.Array(AuditEntry))

      return AuditRepository.of({
        insert: Effect.fn("AuditRepository.insert")((rows) =>
          rows.length === 0
            ? Effect.void
            : Effect.orDie(
                Effect.asVoid(
                  sql`
                    INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type,
                      tenant_id, application_id, outcome, reason, count, ip_address, user_agent, trace_id, changes)
                    SELECT occurred_at, action_type, entity_type, entity_id, user_id, actor_type,
                      tenant_id, application_id, outcome, reason, count, ip_address, user_agent, trace_id, changes
                    FROM json_to_recordset(${JSON.stringify(rows)}::json) AS r(
                      occurred_at timestamptz, action_type text, entity_type text, entity_id text, user_id text,
                      actor_type text, tenant_id uuid, application_id integer, outcome text, reason text, count integer,
                      ip_address text, user_agent text, trace_id text, changes jsonb)`
                )
              )
        ),
        list: Effect.fn("AuditRepository.list")((filter, after, limit) => {
          const conditions = [
            ...(filter.actionType === undefined ? [] : [sql`action_type = ${filter.actionType}`]),
            ...(filter.entityType === undefined ? [] : [sql`entity_type = ${filter.entityType}`]),
            ...(filter.entityId === undefined ? [] : [sql`entity_id = ${filter.entityId}`]),
            ...(filter.userId === undefined ? [] : [sql`user_id = ${filter.userId}`]),
            ...(filter.tenantId === undefined ? [] : [sql`tenant_id = ${filter.tenantId}`]),
            // The partial index serves refusals; "success" is what nearly every row is, so time alone finds it.
            ...(filter.outcome === undefined ? [] : [sql`outcome = ${filter.outcome}`]),
            ...(filter.outcome === undefined || filter.outcome === "success" ? [] : [sql`outcome <> 'success'`]),
            ...(filter.startDate === undefined ? [] : [sql`occurred_at > ${DateTime.toDateUtc(filter.startDate)}`]),
            ...(filter.endDate === undefined ? [] : [sql`occurred_at < ${DateTime.toDateUtc(filter.endDate)}`]),
            ...(after === undefined
              ? []
              : [sql`(occurred_at, id) < (${DateTime.toDateUtc(after.occurredAt)}, ${after.id})`])
          ]
          return sql`
            SELECT ${columns}, NULL::jsonb AS changes FROM audit_entries
            WHERE ${sql.and(conditions)} ORDER BY occurred_at DESC, id DESC LIMIT ${limit}`.pipe(
            Effect.flatMap(decode),
            Effect.orDie
          )
        }),
        find: Effect.fn("AuditRepository.find")((id) => Effect.orDie(selectOne(id))),
        makePartitions: Effect.fn("AuditRepository.makePartitions")((months) =>
          Effect.orDie(Effect.asVoid(sql`SELECT audit_make_partitions(now(), ${months})`))
        )
      })
    })
  )
}
