import { Context, DateTime, Effect, Latch, Layer, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import { declaredActions } from "../../kernel/authority/audit-action.ts"
import { withCanonicalUuids } from "../../kernel/identifier.ts"
import { planningWithout, tenantInScope } from "../../platform/database/database.ts"
import { containing, inIndexOrder } from "../../platform/database/list.ts"
import { readRows } from "../../platform/database/table.ts"
import {
  type AuditCursor,
  AuditEntry,
  AuditEntryId,
  type AuditFilter,
  type AuditOrigin,
  type AuditSearch,
  StoredEntryDetail
} from "./domain.ts"

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

/** The kinds of principals that have a name, and so an id behind their kind. */
const principalKinds = ["account", "agent", "api-key"] as const
/** How many of the newest entries a search reads before it asks for each value that it may mean. */
const maxNear = 4000
const isTraceId = (word: string) => /^[0-9a-f]{32}$/u.test(word)
/** How many principals of each kind a search looks for. */
const maxPrincipals = 20

/** Open once this replica has committed entries, until the chainer looks for them. */
export class UnlinkedEntries extends Context.Service<UnlinkedEntries, Latch.Latch>()("app/audit/UnlinkedEntries") {
  static readonly layer = Layer.effect(UnlinkedEntries, Latch.make())
}

export class AuditRepository extends Context.Service<AuditRepository>()("app/audit/AuditRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient

    const unlinked = yield* UnlinkedEntries
    const hint = sql.afterCommit(Effect.asVoid(unlinked.open))

    const columns = sql.literal(`${ofLink("l.sequence::double precision")} AS sequence, ${entryColumns}`)
    const hash = sql.literal(ofLink("encode(l.hash, 'hex')"))
    const selectOne = SqlSchema.findOneOption({
      Request: AuditEntryId,
      Result: StoredEntryDetail,
      execute: (id) => sql`SELECT ${columns}, changes, ${hash} AS hash FROM audit_entries WHERE id = ${id}`
    })
    const entries = readRows(AuditEntry)
    const principals = readRows(Schema.Struct({ name: Schema.String }))
    const walked = readRows(
      Schema.Struct({ id: AuditEntryId, place: Schema.String, isFound: Schema.Boolean, isEnd: Schema.Boolean })
    )

    /** What a text may mean: the values of columns. */
    const meanings = Effect.fnUntraced(function* (search: string) {
      const known = yield* principals(
        sql`SELECT name FROM search_principals(lower(${containing(search)}), ${maxPrincipals}) AS name`
      )
      const names = known.map(({ name }) => name)
      const word = search.toLowerCase()
      const isUuid = Schema.is(AuditEntryId)(word)
      const types = declaredActions().filter(({ actionType }) => actionType.toLowerCase().includes(word))
      const given = isUuid ? [word, ...principalKinds.map((kind) => `${kind}:${word}`)] : [search]
      return {
        id: isUuid ? [word] : [],
        entity_id: [isUuid ? word : search, ...names.map((name) => name.slice(name.indexOf(":") + 1))],
        user_id: [...given, ...names],
        action_type: types.map(({ actionType }) => actionType)
      }
    })

    /**
     * The entries that a search finds: among the newest that the caller may see, and where these are not enough the newest of
     * each value that it may mean, each by its index. So a tenant with few entries reads no others', and one with many meets its
     * own among all.
     */
    const find = Effect.fnUntraced(function* (search: string, where: Statement.Fragment, limit: number) {
      const wanted = Object.entries(yield* meanings(search))
      const isFound = sql.or(
        wanted.map(([column, values]) => sql`e.${sql.literal(column)}::text = ANY (${values}::text[])`)
      )
      const near = yield* walked(
        sql`
        SELECT e.id, e.occurred_at::text AS place, coalesce(e.is_found, false) AS is_found, e.nth = ${maxNear} AS is_end FROM (
          SELECT e.id, e.occurred_at, ${isFound} AS is_found, row_number() OVER (ORDER BY occurred_at DESC, id DESC) AS nth FROM (
            SELECT * FROM audit_entries WHERE ${where} ORDER BY occurred_at DESC, id DESC LIMIT ${maxNear}) e) e
        WHERE e.is_found OR e.nth = ${maxNear} ORDER BY e.nth LIMIT ${limit}`.unprepared
      )
      const found = near.filter((entry) => entry.isFound)
      if (found.length === limit || near.every((entry) => !entry.isEnd)) return found
      // As a range, since the planner would look for one value along the index of times.
      const newest = wanted.map(([column, values]) => {
        const by = sql.literal(column)
        return sql`
          SELECT e.id, e.occurred_at FROM unnest(${[...new Set(values)]}::${sql.literal(column === "id" ? "uuid" : "text")}[]) AS wanted(value)
          CROSS JOIN LATERAL (
            SELECT id, occurred_at FROM audit_entries WHERE ${by} >= wanted.value AND ${by} <= wanted.value AND ${where}
            ORDER BY ${by}, occurred_at DESC, id DESC LIMIT ${limit}) e`
      })
      return yield* walked(
        sql`
        SELECT f.id, f.occurred_at::text AS place, true AS is_found, false AS is_end
        FROM (${sql.join(" UNION ", false)(newest)}) f ORDER BY f.occurred_at DESC, f.id DESC LIMIT ${limit}`.unprepared
      )
    })

    // The planner takes an index of Bloom filters for one that finds nearly all rows.
    /** The entries of a trace, which are few. */
    const traced = (traceId: string, where: Statement.Fragment) =>
      planningWithout(
        sql,
        "enable_seqscan",
        walked(
          sql`
          SELECT id, occurred_at::text AS place, true AS is_found, false AS is_end
          FROM audit_entries WHERE trace_id = ${traceId} AND ${where}`.unprepared
        )
      )

    return {
      insert: Effect.fn("AuditRepository.insert")((rows: ReadonlyArray<AuditRow>) =>
        rows.length === 0
          ? Effect.void
          : Effect.orDie(
              Effect.andThen(
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
                      ip_address text, user_agent text, trace_id text, changes jsonb)`,
                hint
              )
            )
      ),
      list: Effect.fn("AuditRepository.list")(function* (
        { search, ...filter }: AuditSearch,
        after: AuditCursor | undefined,
        limit: number
      ) {
        const tenantId = yield* tenantInScope
        const where = sql.and([
          sql`true`,
          ...filterConditions(sql, filter),
          ...(tenantId === undefined ? [] : [sql`tenant_id = ${tenantId}`]),
          ...(after === undefined
            ? []
            : [sql`(occurred_at, id) < (${DateTime.toDateUtc(after.occurredAt)}, ${after.id})`])
        ])
        if (search === undefined) {
          const newest = sql`
            SELECT ${columns}, NULL::jsonb AS changes FROM audit_entries
            WHERE ${where} ORDER BY occurred_at DESC, id DESC LIMIT ${limit}`.unprepared
          return yield* inIndexOrder(sql, entries(newest))
        }
        const given = search.trim()
        const found = yield* isTraceId(given) ? traced(given, where) : inIndexOrder(sql, find(given, where, limit))
        return yield* entries(sql`
          SELECT ${columns}, NULL::jsonb AS changes
          FROM unnest(${found.map(({ id }) => id)}::uuid[], ${found.map(({ place }) => place)}::timestamptz[])
            AS f(id, occurred_at) JOIN audit_entries USING (id, occurred_at)
          ORDER BY occurred_at DESC, id DESC LIMIT ${limit}`)
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
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(UnlinkedEntries.layer))
}

/** A column of the link of a row of `audit_entries`; NULL while it has none. */
const ofLink = (column: string) =>
  `(SELECT ${column} FROM audit_links l
    WHERE l.entry_id = audit_entries.id AND l.occurred_at = audit_entries.occurred_at)`

/** The columns of a row of `audit_entries` that a list shows; its `sequence` is in another table. */
export const entryColumns =
  "id, occurred_at, action_type, entity_type, entity_id, user_id, actor_type, tenant_id, application_id, outcome, reason, " +
  "count, ip_address, user_agent, trace_id"

/** Whether a column has a text, or the same one with its ids as we write them: ids of events are their publishers'. */
const isNamed = (sql: SqlClient.SqlClient, column: string, text: string) => {
  const written = withCanonicalUuids(text)
  const given = sql`${sql(column)} = ${text}`
  return written === text ? given : sql`(${given} OR ${sql(column)} = ${written})`
}

/** The conditions that a filter puts on rows of `audit_entries`. */
export const filterConditions = (sql: SqlClient.SqlClient, filter: AuditFilter): ReadonlyArray<Statement.Fragment> => [
  ...(filter.actionType === undefined ? [] : [sql`action_type = ${filter.actionType}`]),
  ...(filter.entityType === undefined ? [] : [sql`entity_type = ${filter.entityType}`]),
  ...(filter.entityId === undefined ? [] : [isNamed(sql, "entity_id", filter.entityId)]),
  ...(filter.userId === undefined ? [] : [isNamed(sql, "user_id", filter.userId)]),
  ...(filter.tenantId === undefined ? [] : [sql`tenant_id = ${filter.tenantId}`]),
  // The partial index serves refusals; "success" is what nearly every row is, so time alone finds it.
  ...(filter.outcome === undefined ? [] : [sql`outcome = ${filter.outcome}`]),
  ...(filter.outcome === undefined || filter.outcome === "success" ? [] : [sql`outcome <> 'success'`]),
  ...(filter.startDate === undefined ? [] : [sql`occurred_at > ${DateTime.toDateUtc(filter.startDate)}`]),
  ...(filter.endDate === undefined ? [] : [sql`occurred_at < ${DateTime.toDateUtc(filter.endDate)}`])
]
