import { Context, type DateTime, Effect, Layer, type Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"

const StoredContent = Schema.Struct({
  reservationId: Uuid,
  tenantId: TenantId,
  sealed: Schema.Uint8Array,
  createdAt: InstantFromDate
})
type StoredContent = typeof StoredContent.Type

/** Stored transcripts: encrypted, and deleted when they expire. */
export class ContentsRepository extends Context.Service<
  ContentsRepository,
  {
    insert(content: StoredContent): Effect.Effect<void>
    find(reservationId: string): Effect.Effect<Option.Option<StoredContent>>
    purge(before: DateTime.Utc): Effect.Effect<void>
  }
>()("app/gateway/ContentsRepository") {
  static readonly layer = Layer.effect(
    ContentsRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const insert = SqlSchema.void({
        Request: StoredContent,
        execute: ({ createdAt, reservationId, sealed, tenantId }) => sql`
          INSERT INTO gateway_contents (reservation_id, tenant_id, sealed, created_at)
          VALUES (${reservationId}, ${tenantId}, ${sealed}, ${createdAt}) ON CONFLICT DO NOTHING`
      })
      const select = SqlSchema.findOneOption({
        Request: Schema.String,
        Result: StoredContent,
        execute: (id) => sql`
          SELECT reservation_id, tenant_id, sealed, created_at FROM gateway_contents WHERE reservation_id = ${id}`
      })
      const purge = SqlSchema.void({
        Request: Schema.DateTimeUtcFromDate,
        execute: (before) => sql`DELETE FROM gateway_contents WHERE created_at < ${before}`
      })
      return ContentsRepository.of({
        insert: Effect.fn("ContentsRepository.insert")((content) => Effect.orDie(insert(content))),
        find: Effect.fn("ContentsRepository.find")((id) => Effect.orDie(select(id))),
        purge: (before) => Effect.orDie(purge(before))
      })
    })
  )
}
