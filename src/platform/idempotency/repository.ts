import { Context, DateTime, Effect, Layer, type Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { type StoredResponse } from "./domain.ts"

export interface Slot {
  readonly principal: string
  readonly route: string
  readonly key: string
}

const Row = Schema.Struct({
  requestSha256: Schema.Uint8Array,
  status: Schema.Int,
  headers: Schema.Record(Schema.String, Schema.String),
  body: Schema.String
})

export class IdempotencyRepository extends Context.Service<
  IdempotencyRepository,
  {
    /** Claims the slot until the transaction ends; false when another transaction holds it. */
    claim(slot: Slot): Effect.Effect<boolean>
    find(slot: Slot, notBefore: DateTime.Utc): Effect.Effect<Option.Option<StoredResponse>>
    store(slot: Slot, response: StoredResponse, at: DateTime.Utc): Effect.Effect<void>
    purge(before: DateTime.Utc): Effect.Effect<void>
  }
>()("app/platform/IdempotencyRepository") {
  static readonly layer = Layer.effect(
    IdempotencyRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const claimed = Schema.decodeUnknownEffect(Schema.Tuple([Schema.Tuple([Schema.Boolean])]))
      const select = SqlSchema.findOneOption({
        Request: Schema.Struct({
          principal: Schema.String,
          route: Schema.String,
          key: Schema.String,
          notBefore: Schema.DateTimeUtcFromDate
        }),
        Result: Row,
        execute: ({ key, notBefore, principal, route }) => sql`
          SELECT request_sha256, status, headers, body FROM idempotency_keys
          WHERE principal = ${principal} AND route = ${route} AND key = ${key} AND created_at > ${notBefore}`
      })

      return IdempotencyRepository.of({
        claim: ({ key, principal, route }) =>
          sql`SELECT pg_try_advisory_xact_lock(hashtextextended(${`${principal}\n${route}\n${key}`}, 7))`.values.pipe(
            Effect.flatMap(claimed),
            Effect.map(([[free]]) => free),
            Effect.orDie
          ),
        find: (slot, notBefore) => Effect.orDie(select({ ...slot, notBefore })),
        store: (slot, response, at) =>
          sql`
            INSERT INTO idempotency_keys (principal, route, key, request_sha256, status, headers, body, created_at)
            VALUES (${slot.principal}, ${slot.route}, ${slot.key}, ${response.requestSha256}, ${response.status},
              ${JSON.stringify(response.headers)}::jsonb, ${response.body}, ${DateTime.toDateUtc(at)})
            ON CONFLICT (principal, route, key) DO UPDATE SET request_sha256 = EXCLUDED.request_sha256,
              status = EXCLUDED.status, headers = EXCLUDED.headers, body = EXCLUDED.body,
              created_at = EXCLUDED.created_at`.pipe(Effect.asVoid, Effect.orDie),
        purge: (before) =>
          sql`DELETE FROM idempotency_keys WHERE created_at < ${DateTime.toDateUtc(before)}`.pipe(
            Effect.asVoid,
            Effect.orDie
          )
      })
    })
  )
}
