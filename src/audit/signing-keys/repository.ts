import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlModel, SqlSchema } from "effect/sql"
import { rowLock } from "../../platform/database/database.ts"
import { Change } from "../log/domain.ts"
import { AttestationKey, AttestationKeyExists, AttestationKeyId, AttestationKeyNotFound } from "./domain.ts"

const Ending = Schema.Struct({ id: AttestationKeyId, validUntil: Schema.Date })
const Beginning = Schema.Struct({ id: AttestationKeyId, validFrom: Schema.Date })
const Ended = Schema.Struct({
  ...Ending.fields,
  status: Schema.Literals(["retired", "compromised"]),
  compromisedAt: Schema.NullOr(Schema.Date),
  sealedPrivateKey: Schema.NullOr(Schema.Uint8Array)
})
const Retired = Schema.Struct({ ...Ending.fields, sealedPrivateKey: Schema.Uint8Array })

export class AttestationKeysRepository extends Context.Service<AttestationKeysRepository>()(
  "app/audit/AttestationKeysRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const model = yield* SqlModel.makeRepository(AttestationKey, {
        tableName: "attestation_keys",
        spanPrefix: "AttestationKeysRepository",
        idColumn: "id"
      })
      const selectPage = SqlSchema.findAll({
        Request: Schema.Struct({ after: Schema.UndefinedOr(AttestationKeyId), limit: Schema.Int }),
        Result: AttestationKey,
        execute: ({ after, limit }) => sql`
          SELECT * FROM attestation_keys WHERE ${after === undefined ? sql`true` : sql`id > ${after}`}
          ORDER BY id LIMIT ${limit}`
      })
      const selectOne = SqlSchema.findOneOption({
        Request: AttestationKeyId,
        Result: AttestationKey,
        execute: (id) =>
          Effect.flatMap(rowLock(sql), (lock) => sql`SELECT * FROM attestation_keys WHERE id = ${id} ${lock}`)
      })
      const selectLocked = SqlSchema.findOneOption({
        Request: AttestationKeyId,
        Result: AttestationKey,
        execute: (id) => sql`SELECT * FROM attestation_keys WHERE id = ${id} FOR UPDATE`
      })
      const selectOwn = SqlSchema.findAll({
        Request: Schema.Void,
        Result: AttestationKey,
        execute: () => sql`
          SELECT * FROM attestation_keys WHERE purpose <> 'verify' ORDER BY valid_from DESC, id DESC`
      })
      const selectTrusted = SqlSchema.findAll({
        Request: Schema.Void,
        Result: AttestationKey,
        execute: () => sql`SELECT * FROM attestation_keys WHERE purpose = 'verify' ORDER BY id DESC`
      })
      const end = SqlSchema.findOne({
        Request: Ending,
        Result: AttestationKey,
        execute: ({ id, validUntil }) => sql`
          UPDATE attestation_keys SET valid_until = ${validUntil} WHERE id = ${id} RETURNING *`
      })
      const begin = SqlSchema.findOne({
        Request: Beginning,
        Result: AttestationKey,
        execute: ({ id, validFrom }) => sql`
          UPDATE attestation_keys SET valid_from = ${validFrom} WHERE id = ${id} RETURNING *`
      })
      const close = SqlSchema.findOne({
        Request: Ended,
        Result: AttestationKey,
        execute: ({ compromisedAt, id, sealedPrivateKey, status, validUntil }) => sql`
          UPDATE attestation_keys SET status = ${status}, valid_until = ${validUntil}, compromised_at = ${compromisedAt},
            sealed_private_key = ${sealedPrivateKey}
          WHERE id = ${id} RETURNING *`
      })
      const retire = SqlSchema.void({
        Request: Retired,
        execute: ({ id, sealedPrivateKey, validUntil }) => sql`
          UPDATE attestation_keys SET status = 'retired', valid_until = ${validUntil},
            sealed_private_key = ${sealedPrivateKey}
          WHERE id = ${id} AND status = 'active'`
      })
      const found = Option.match({
        onNone: () => Effect.fail(new AttestationKeyNotFound({})),
        onSome: (key: AttestationKey) => Effect.succeed(key)
      })

      return {
        list: Effect.fn("AttestationKeysRepository.list")((after: AttestationKeyId | undefined, limit: number) =>
          Effect.orDie(selectPage({ after, limit }))
        ),
        get: Effect.fn("AttestationKeysRepository.get")((id: AttestationKeyId) =>
          Effect.flatMap(Effect.orDie(selectOne(id)), found)
        ),
        /** The row locked FOR UPDATE until the transaction ends. */
        lock: Effect.fn("AttestationKeysRepository.lock")((id: AttestationKeyId) =>
          Change.use(() => Effect.flatMap(Effect.orDie(selectLocked(id)), found))
        ),
        /** Makes every other transaction that makes keys wait until this one ends. */
        alone: Change.use(() =>
          Effect.orDie(Effect.asVoid(sql`SELECT pg_advisory_xact_lock(hashtext('attestation-keys'))`))
        ),
        insert: (key: typeof AttestationKey.insert.Type) => Change.use(() => Effect.orDie(model.insert(key))),
        /** Adds a key that may be known already. */
        insertGiven: (key: typeof AttestationKey.insert.Type) =>
          Change.use(() =>
            model.insert(key).pipe(
              Effect.catchReason("SqlError", "UniqueViolation", () => Effect.fail(new AttestationKeyExists({}))),
              Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
            )
          ),
        /** Says until when what a key signed counts. */
        end: (key: typeof Ending.Type) => Change.use(() => Effect.orDie(end(key))),
        /** Says from when on a key signs. */
        begin: Effect.fn("AttestationKeysRepository.begin")((key: typeof Beginning.Type) =>
          Change.use(() => Effect.orDie(begin(key)))
        ),
        /** Ends a key at once, whatever its status. */
        close: Effect.fn("AttestationKeysRepository.close")((key: typeof Ended.Type) =>
          Change.use(() => Effect.orDie(close(key)))
        ),
        /** Ends the use of a key, and puts something else in the place of its private half. */
        retire: (key: typeof Retired.Type) => Change.use(() => Effect.orDie(retire(key))),
        /** Every key of the service's own, the newest first. */
        own: Effect.withSpan(Effect.orDie(selectOwn(undefined)), "AttestationKeysRepository.own"),
        /** Every key of others that the service trusts, or trusted; the newest first. */
        trusted: Effect.withSpan(Effect.orDie(selectTrusted(undefined)), "AttestationKeysRepository.trusted")
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
