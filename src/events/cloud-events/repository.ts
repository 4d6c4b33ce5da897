import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { type TenantId } from "../../kernel/identifier.ts"

/** Events of others, by a digest of their source and id in hex. */
export class ReceivedEventsRepository extends Context.Service<ReceivedEventsRepository>()(
  "app/events/ReceivedEventsRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const insert = SqlSchema.findAll({
        Request: Schema.Struct({
          tenantId: Schema.NullOr(Schema.String),
          digests: Schema.Array(Schema.String),
          now: Schema.Date
        }),
        Result: Schema.Struct({ digest: Schema.String }),
        execute: ({ digests, now, tenantId }) => sql`
          INSERT INTO received_events (tenant_id, digest, received_at)
          SELECT ${tenantId}::uuid, decode(d, 'hex'), ${now} FROM unnest(${digests}::text[]) d ORDER BY d
          ON CONFLICT DO NOTHING RETURNING encode(digest, 'hex') AS digest`
      })
      return {
        /** Stores which events were received; answers those that are new. */
        insert: (tenantId: TenantId | null, digests: ReadonlyArray<string>, now: DateTime.Utc) =>
          Change.use(() =>
            insert({ tenantId, digests, now: DateTime.toDateUtc(now) }).pipe(
              Effect.map((rows) => new Set(rows.map(({ digest }) => digest))),
              Effect.orDie
            )
          )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
