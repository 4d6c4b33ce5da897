import { Context, DateTime, Effect, Layer } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import {
  type AuditCursor,
  AuditEntry,
  AuditEntryId,
  type AuditFilter,
  type AuditOrigin,
  StoredEntryDetail
} from "./domain.ts"
import { readRows } from "../../platform/database/table.ts"

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

export class AuditRepository extends Context.Service<AuditRepository>()("app/audit/AuditRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient

    const columns = sql.literal(`${ofLink("l.sequence::double precision")} AS sequence, ${entryColumns}`)
    const hash = sql.literal(ofLink("encode(l.hash, 'hex')"))
    const selectOne = SqlSchema.findOneOption({
      Request: AuditEntryId,
      Result: StoredEntryDetail,
      execute: (id) => sql`SELECT ${columns}, changes, ${hash} AS hash FROM audit_entries WHERE id = ${id}`
    })
    const entries = readRows(AuditEntry)

    return {
      insert: Effect.fn("AuditRepository.insert")((rows: ReadonlyArray<AuditRow>) =>
        rows.length === 0
          ? Effect.void
          : Effect.orDie(
              Effect.asVoid(
                sql`
                    INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type,
                      tenant_id, application_id, outcome, reason, count, ip_address, user_agent, trace_id, changes,
                      transaction_id)
                    SELECT occurred_at, action_type, entity_type, entity_id, user_id, actor_type,
                      tenant_id, application_id, outcome, reason, count, ip_address, user_agent, trace_id, changes,
                      pg_current_xact_id()
                    FROM json_to_recordset(${JSON.stringify(rows)}::json) AS r(
                      occurred_at timestamptz, action_type text, entity_type text, entity_id text, user_id text,
                      actor_type text, tenant_id uuid, application_id integer, outcome text, reason text, count integer,
                      ip_address text, user_agent text, trace_id text, changes jsonb)`
              )
            )
      ),
      list: Effect.fn("AuditRepository.list")((filter: AuditFilter, after: AuditCursor | undefined, limit: number) => {
        const conditions = [
          ...filterConditions(sql, filter),
          ...(after === undefined
            ? []
            : [sql`(occurred_at, id) < (${DateTime.toDateUtc(after.occurredAt)}, ${after.id})`])
        ]
        return sql`
            SELECT ${columns}, NULL::jsonb AS changes FROM audit_entries
            WHERE ${sql.and(conditions)} ORDER BY occurred_at DESC, id DESC LIMIT ${limit}`.pipe(entries)
      }),
      find: Effect.fn("AuditRepository.find")((id: AuditEntryId) => Effect.orDie(selectOne(id))),
      // Writers of entries queue behind this, so it gives up rather than block them or deadlock.
      makePartitions: Effect.fn("AuditRepository.makePartitions")((months: number) =>
        sql`SET LOCAL lock_timeout = '500ms'`.pipe(
          Effect.andThen(
            sql`SELECT audit_make_partitions(now(), ${months}), audit_make_link_partitions(now(), ${months})`
          ),
          sql.withTransaction,
          Effect.asVoid,
          Effect.orDie
        )
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

/** A column of the link of a row of `audit_entries`; NULL while it has none. */
const ofLink = (column: string) =>
  `(SELECT ${column} FROM audit_links l
    WHERE l.entry_id = audit_entries.id AND l.occurred_at = audit_entries.occurred_at)`

/** The columns of a row of `audit_entries` that a list shows; its `sequence` is in another table. */
export const entryColumns =
  "id, occurred_at, action_type, entity_type, entity_id, user_id, actor_type, tenant_id, application_id, outcome, reason, " +
  "count, ip_address, user_agent, trace_id"

/** The conditions that a filter puts on rows of `audit_entries`. */
export const filterConditions = (sql: SqlClient.SqlClient, filter: AuditFilter): ReadonlyArray<Statement.Fragment> => [
  ...(filter.actionType === undefined ? [] : [sql`action_type = ${filter.actionType}`]),
  ...(filter.entityType === undefined ? [] : [sql`entity_type = ${filter.entityType}`]),
  ...(filter.entityId === undefined ? [] : [sql`entity_id = ${filter.entityId}`]),
  ...(filter.userId === undefined ? [] : [sql`user_id = ${filter.userId}`]),
  ...(filter.tenantId === undefined ? [] : [sql`tenant_id = ${filter.tenantId}`]),
  // The partial index serves refusals; "success" is what nearly every row is, so time alone finds it.
  ...(filter.outcome === undefined ? [] : [sql`outcome = ${filter.outcome}`]),
  ...(filter.outcome === undefined || filter.outcome === "success" ? [] : [sql`outcome <> 'success'`]),
  ...(filter.startDate === undefined ? [] : [sql`occurred_at > ${DateTime.toDateUtc(filter.startDate)}`]),
  ...(filter.endDate === undefined ? [] : [sql`occurred_at < ${DateTime.toDateUtc(filter.endDate)}`])
]
