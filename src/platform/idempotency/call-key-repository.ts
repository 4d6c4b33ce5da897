import { Context, type DateTime, Effect, Layer, type Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Uuid } from "../../kernel/identifier.ts"

/** A key of a caller at a route. */
export interface CallKeySlot {
  readonly principal: string
  readonly route: string
  readonly key: string
}

const Slot = Schema.Struct({ principal: Schema.String, route: Schema.String, key: Schema.String })
const Row = Schema.Struct({ requestSha256: Schema.Uint8Array, reservationId: Schema.NullOr(Uuid) })

/** The call of each key of its caller; of the request only a fingerprint is stored. */
export class CallKeyRepository extends Context.Service<
  CallKeyRepository,
  {
    /** Takes a slot that is free, or was taken by a call that never got a reservation. */
    claim(
      slot: CallKeySlot,
      requestSha256: Uint8Array,
      at: DateTime.Utc,
      unheldBefore: DateTime.Utc,
      keptSince: DateTime.Utc
    ): Effect.Effect<boolean>
    find(slot: CallKeySlot): Effect.Effect<Option.Option<typeof Row.Type>>
    /** Takes a slot over from a call that was cancelled and cost nothing. */
    takeOver(slot: CallKeySlot, from: string, requestSha256: Uint8Array, at: DateTime.Utc): Effect.Effect<boolean>
    hold(slot: CallKeySlot, reservationId: string): Effect.Effect<void>
    free(slot: CallKeySlot): Effect.Effect<void>
    purge(before: DateTime.Utc): Effect.Effect<void>
  }
>()("app/idempotency/CallKeyRepository") {
  static readonly layer = Layer.effect(
    CallKeyRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const Taken = Schema.Struct({ key: Schema.String })
      const At = Schema.DateTimeUtcFromDate

      const insert = SqlSchema.findOneOption({
        Request: Schema.Struct({
          ...Slot.fields,
          requestSha256: Schema.Uint8Array,
          at: At,
          unheldBefore: At,
          keptSince: At
        }),
        Result: Taken,
        execute: ({ at, keptSince, key, principal, requestSha256, route, unheldBefore }) => sql`
          INSERT INTO call_keys AS r (principal, route, key, request_sha256, created_at)
          VALUES (${principal}, ${route}, ${key}, ${requestSha256}, ${at})
          ON CONFLICT (principal, route, key) DO UPDATE
          SET request_sha256 = EXCLUDED.request_sha256, created_at = EXCLUDED.created_at, reservation_id = NULL
          WHERE r.created_at <= ${keptSince} OR (r.reservation_id IS NULL AND r.created_at <= ${unheldBefore})
          RETURNING key`
      })
      const select = SqlSchema.findOneOption({
        Request: Slot,
        Result: Row,
        execute: ({ key, principal, route }) => sql`
          SELECT request_sha256, reservation_id FROM call_keys
          WHERE principal = ${principal} AND route = ${route} AND key = ${key}`
      })
      const updateFrom = SqlSchema.findOneOption({
        Request: Schema.Struct({ ...Slot.fields, from: Uuid, requestSha256: Schema.Uint8Array, at: At }),
        Result: Taken,
        execute: ({ at, from, key, principal, requestSha256, route }) => sql`
          UPDATE call_keys SET reservation_id = NULL, request_sha256 = ${requestSha256}, created_at = ${at}
          WHERE principal = ${principal} AND route = ${route} AND key = ${key} AND reservation_id = ${from}
          RETURNING key`
      })
      const update = SqlSchema.void({
        Request: Schema.Struct({ ...Slot.fields, reservationId: Uuid }),
        execute: ({ key, principal, reservationId, route }) => sql`
          UPDATE call_keys SET reservation_id = ${reservationId}
          WHERE principal = ${principal} AND route = ${route} AND key = ${key}`
      })
      const remove = SqlSchema.void({
        Request: Slot,
        execute: ({ key, principal, route }) => sql`
          DELETE FROM call_keys WHERE principal = ${principal} AND route = ${route} AND key = ${key}`
      })
      const purge = SqlSchema.void({
        Request: At,
        execute: (before) => sql`DELETE FROM call_keys WHERE created_at < ${before}`
      })

      return CallKeyRepository.of({
        claim: Effect.fn("CallKeyRepository.claim")((slot, requestSha256, at, unheldBefore, keptSince) =>
          Effect.map(
            Effect.orDie(insert({ ...slot, requestSha256, at, unheldBefore, keptSince })),
            ({ _tag }) => _tag === "Some"
          )
        ),
        find: Effect.fn("CallKeyRepository.find")((slot) => Effect.orDie(select(slot))),
        takeOver: Effect.fn("CallKeyRepository.takeOver")((slot, from, requestSha256, at) =>
          Effect.map(Effect.orDie(updateFrom({ ...slot, from, requestSha256, at })), ({ _tag }) => _tag === "Some")
        ),
        hold: Effect.fn("CallKeyRepository.hold")((slot, reservationId) =>
          Effect.orDie(update({ ...slot, reservationId }))
        ),
        free: Effect.fn("CallKeyRepository.free")((slot) => Effect.orDie(remove(slot))),
        purge: (before) => Effect.orDie(purge(before))
      })
    })
  )
}
