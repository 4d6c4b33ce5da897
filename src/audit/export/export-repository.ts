import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { storedColumns } from "../chain/chain-repository.ts"
import { linkedRow, type LinkedRow, type EntryPlace } from "../chain/proof-repository.ts"
import { type AuditFilter } from "../log/domain.ts"
import { filterConditions } from "../log/repository.ts"

/** One read of entries in the order of their time. */
export interface ExportPage {
  /** Those that are linked, up to the head that was asked for. */
  readonly rows: ReadonlyArray<LinkedRow>
  /** The last entry looked at; undefined at the end. */
  readonly last: EntryPlace | undefined
}

/** What an export reads; whose rows it sees is up to the transaction. */
export class ExportRepository extends Context.Service<ExportRepository>()("app/audit/ExportRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const columns = sql.literal(storedColumns)
    const current = SqlSchema.findOne({
      Request: Schema.Void,
      Result: Schema.Struct({ id: Schema.String }),
      execute: () => sql`SELECT pg_current_xact_id()::text AS id`
    })
    const isLinked = SqlSchema.findOne({
      Request: Schema.String,
      Result: Schema.Struct({ linked: Schema.Boolean }),
      execute: (id) => sql`SELECT pg_visible_in_snapshot(${id}::xid8, linked) AS linked FROM audit_chain`
    })

    return {
      /** The transaction in hand, for {@link isLinked}. */
      transaction: current(undefined).pipe(
        Effect.map(({ id }) => id),
        Effect.orDie
      ),
      /** Whether all entries of a transaction that was committed have their links. */
      isLinked: Effect.fn("ExportRepository.isLinked")((id: string) =>
        isLinked(id).pipe(
          Effect.map(({ linked }) => linked),
          Effect.orDie
        )
      ),
      /** Up to `limit` entries behind a place that the filter lets through, the oldest first. */
      page: Effect.fn("ExportRepository.page")((filter: AuditFilter, behind: EntryPlace, upTo: number, limit: number) =>
        sql`
            SELECT l.sequence::double precision, e.id, encode(l.previous_hash, 'hex'), encode(l.hash, 'hex'),
              e.occurred_at::text, ${columns}
            FROM (
              SELECT * FROM audit_entries
              WHERE ${sql.and([
                ...filterConditions(sql, filter),
                sql`(occurred_at, id) > (${behind.occurredAt}::timestamptz, ${behind.id}::uuid)`
              ])}
              ORDER BY occurred_at, id LIMIT ${limit}
            ) e LEFT JOIN LATERAL (
              SELECT * FROM audit_links l WHERE l.entry_id = e.id AND l.occurred_at = e.occurred_at LIMIT 1
            ) l ON l.sequence <= ${upTo}::bigint
            ORDER BY e.occurred_at, e.id`.values.pipe(
          Effect.map((rows) => ({ rows: rows.filter(hasLink).map(withoutPlace), last: lastPlace(rows, limit) })),
          Effect.orDie
        )
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

type Row = ReadonlyArray<unknown>

const hasLink = ([sequence]: Row): boolean => sequence !== null

const withoutPlace = (row: Row): LinkedRow => linkedRow(row.toSpliced(4, 1))

const lastPlace = (rows: ReadonlyArray<Row>, limit: number): EntryPlace | undefined => {
  const last = rows.length < limit ? undefined : rows.at(-1)
  return last === undefined ? undefined : { occurredAt: String(last[4]), id: String(last[1]) }
}
