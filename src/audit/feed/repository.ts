import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { readRows } from "../../platform/database/table.ts"
import { AuditEntry, type AuditFilter } from "../log/domain.ts"
import { entryColumns, filterConditions } from "../log/repository.ts"

/** What a feed of the log reads; whose rows it sees is up to the transaction. */
export class FeedRepository extends Context.Service<
  FeedRepository,
  {
    /** The sequence of the newest link. */
    readonly head: Effect.Effect<number>
    /** The entries between two sequences (the first excluded) that the filter lets through, in the order of the chain. */
    between(after: number, upTo: number, filter: AuditFilter): Effect.Effect<ReadonlyArray<AuditEntry>>
  }
>()("app/audit/FeedRepository") {
  static readonly layer = Layer.effect(
    FeedRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const entries = readRows(AuditEntry)
      const head = SqlSchema.findOne({
        Request: Schema.Void,
        Result: Schema.Struct({ sequence: Schema.Int }),
        execute: () => sql`SELECT sequence::double precision AS sequence FROM audit_chain`
      })

      return FeedRepository.of({
        head: head(undefined).pipe(
          Effect.map(({ sequence }) => sequence),
          Effect.orDie
        ),
        between: Effect.fn("FeedRepository.between")((after, upTo, filter) =>
          sql`
            SELECT e.* FROM audit_links l CROSS JOIN LATERAL (
              SELECT l.sequence::double precision AS sequence, ${sql.literal(entryColumns)}, changes
              FROM audit_entries
              WHERE ${sql.and([
                sql`id = l.entry_id`,
                sql`occurred_at = l.occurred_at`,
                ...filterConditions(sql, filter)
              ])} LIMIT 1
            ) e
            WHERE l.sequence > ${after}::bigint AND l.sequence <= ${upTo}::bigint ORDER BY l.sequence`.pipe(entries)
        )
      })
    })
  )
}
