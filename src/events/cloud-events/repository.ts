import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { type Moment, momentText } from "../../platform/database/database.ts"

/** So few that a publication of one of them at this moment waits for milliseconds only. */
const forgottenAtOnce = 5000

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
      const known = SqlSchema.findAll({
        Request: Schema.Struct({ tenantId: Schema.NullOr(Schema.String), digests: Schema.Array(Schema.String) }),
        Result: Schema.Struct({ digest: Schema.String }),
        execute: ({ digests, tenantId }) => sql`
          SELECT d AS digest FROM unnest(${digests}::text[]) d WHERE EXISTS (
            SELECT FROM received_events e WHERE e.digest = decode(d, 'hex')
            AND ${tenantId === null ? sql`e.tenant_id IS NULL` : sql`e.tenant_id = ${tenantId}`})`
      })
      // A month of the audit log ends as a whole, so what was received in it is known for as long as it is kept.
      const forget = SqlSchema.findOne({
        Request: Schema.Struct({ days: Schema.Int, moment: Schema.NullOr(Schema.String) }),
        Result: Schema.Struct({ forgotten: Schema.Int }),
        execute: ({ days, moment }) => sql`
          WITH owner AS MATERIALIZED (
            SELECT pg_try_advisory_xact_lock(hashtext('received-events')) AS leads
          ), old AS MATERIALIZED (
            SELECT e.ctid AS place FROM received_events e
            WHERE (SELECT leads FROM owner) AND e.received_at < date_trunc('month',
              least(${moment}::timestamptz, now()) - ${days}::integer * interval '24 hours', 'UTC')
            LIMIT ${forgottenAtOnce} FOR UPDATE SKIP LOCKED
          ), gone AS (
            DELETE FROM received_events e USING old WHERE e.ctid = old.place RETURNING 1
          )
          SELECT count(*)::integer AS forgotten FROM gone`
      })
      return {
        /** Those of the events that were received before. */
        known: (tenantId: TenantId | null, digests: ReadonlyArray<string>) =>
          Effect.orDie(Effect.map(known({ tenantId, digests }), digestsOf)),
        /** Forgets some events that came so many days ago; none while another replica does. True if there may be more. */
        forget: (days: number, moment: Moment) =>
          forget({ days, moment: momentText(moment) ?? null }).pipe(
            Effect.map(({ forgotten }) => forgotten === forgottenAtOnce),
            Effect.orDie
          ),
        /** Stores which events were received; answers those that are new. */
        insert: (tenantId: TenantId | null, digests: ReadonlyArray<string>, now: DateTime.Utc) =>
          Change.use(() =>
            insert({ tenantId, digests, now: DateTime.toDateUtc(now) }).pipe(Effect.map(digestsOf), Effect.orDie)
          )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}

const digestsOf = (rows: ReadonlyArray<{ readonly digest: string }>) => new Set(rows.map(({ digest }) => digest))
