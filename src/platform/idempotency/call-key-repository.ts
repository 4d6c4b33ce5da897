import { Context, Effect, Layer, type Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Uuid } from "../../kernel/identifier.ts"
import { type CallKeyClaim, type CallKeySlot } from "./domain.ts"

const Slot = Schema.Struct({ principal: Schema.String, route: Schema.String, key: Schema.String })
const Claim = Schema.Struct({ ...Slot.fields, claim: Schema.String })
const Row = Schema.Struct({ requestSha256: Schema.Uint8Array, reservationId: Schema.NullOr(Uuid) })

/** The call of each key of its caller; of the request only a fingerprint is stored. */
export class CallKeyRepository extends Context.Service<
  CallKeyRepository,
  {
    /** Takes a slot that is free, was taken a day ago, or by a call that got no reservation within a minute. */
    claim(slot: CallKeyClaim, requestSha256: Uint8Array): Effect.Effect<boolean>
    find(slot: CallKeySlot): Effect.Effect<Option.Option<typeof Row.Type>>
    /** Takes a slot over from a call that was cancelled and cost nothing. */
    takeOver(slot: CallKeyClaim, from: string, requestSha256: Uint8Array): Effect.Effect<boolean>
    hold(slot: CallKeySlot, reservationId: string): Effect.Effect<void>
    /** Frees a slot unless another call has claimed it since. */
    free(slot: CallKeyClaim): Effect.Effect<void>
    /** Removes the keys of a day ago. */
    readonly purge: Effect.Effect<void>
  }
>()("app/platform/CallKeyRepository") {
  static readonly layer = Layer.effect(
    CallKeyRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const Taken = Schema.Struct({ key: Schema.String })

      // A call gets its reservation within moments of its key; one that has none after a minute has failed.
      const insert = SqlSchema.findOneOption({
        Request: Schema.Struct({ ...Claim.fields, requestSha256: Schema.Uint8Array }),
        Result: Taken,
        execute: ({ claim, key, principal, requestSha256, route }) => sql`
          INSERT INTO call_keys AS r (principal, route, key, request_sha256, claim, created_at)
          VALUES (${principal}, ${route}, ${key}, ${requestSha256}, ${claim}, statement_timestamp())
          ON CONFLICT (principal, route, key) DO UPDATE
          SET request_sha256 = EXCLUDED.request_sha256, claim = EXCLUDED.claim, created_at = EXCLUDED.created_at,
            reservation_id = NULL
          WHERE r.created_at <= statement_timestamp() - interval '1 day'
            OR (r.reservation_id IS NULL AND r.created_at <= statement_timestamp() - interval '1 minute')
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
        Request: Schema.Struct({ ...Claim.fields, from: Uuid, requestSha256: Schema.Uint8Array }),
        Result: Taken,
        execute: ({ claim, from, key, principal, requestSha256, route }) => sql`
          UPDATE call_keys SET reservation_id = NULL, request_sha256 = ${requestSha256}, claim = ${claim},
            created_at = statement_timestamp()
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
        Request: Claim,
        execute: ({ claim, key, principal, route }) => sql`
          DELETE FROM call_keys
          WHERE principal = ${principal} AND route = ${route} AND key = ${key} AND claim = ${claim}`
      })

      return CallKeyRepository.of({
        claim: Effect.fn("CallKeyRepository.claim")((slot, requestSha256) =>
          Effect.map(Effect.orDie(insert({ ...slot, requestSha256 })), ({ _tag }) => _tag === "Some")
        ),
        find: Effect.fn("CallKeyRepository.find")((slot) => Effect.orDie(select(slot))),
        takeOver: Effect.fn("CallKeyRepository.takeOver")((slot, from, requestSha256) =>
          Effect.map(Effect.orDie(updateFrom({ ...slot, from, requestSha256 })), ({ _tag }) => _tag === "Some")
        ),
        hold: Effect.fn("CallKeyRepository.hold")((slot, reservationId) =>
          Effect.orDie(update({ ...slot, reservationId }))
        ),
        free: Effect.fn("CallKeyRepository.free")((slot) => Effect.orDie(remove(slot))),
        purge: Effect.orDie(
          Effect.asVoid(sql`DELETE FROM call_keys WHERE created_at < statement_timestamp() - interval '1 day'`)
        )
      })
    })
  )
}
