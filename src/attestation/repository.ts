import { Context, Effect, Layer, type Option, Schema } from "effect"
import { SqlClient, SqlModel, SqlSchema } from "effect/sql"
import { Change } from "../audit/domain.ts"
import { AttestationKey, AttestationKeyId, KeyPurpose } from "./domain.ts"

const Retired = Schema.Struct({ id: AttestationKeyId, validUntil: Schema.Date, sealedPrivateKey: Schema.Uint8Array })

export class AttestationKeysRepository extends Context.Service<
  AttestationKeysRepository,
  {
    insert(key: typeof AttestationKey.insert.Type): Effect.Effect<AttestationKey, never, Change>
    /** The newest active key of a purpose. */
    active(purpose: KeyPurpose): Effect.Effect<Option.Option<AttestationKey>>
    /** Ends the use of a key, and puts something else in the place of its private half. */
    retire(key: typeof Retired.Type): Effect.Effect<void, never, Change>
    /** Every key that may sign. */
    readonly allActive: Effect.Effect<ReadonlyArray<AttestationKey>>
    find(keyId: string): Effect.Effect<Option.Option<AttestationKey>>
    /** Those whose signatures may be relied on, the newest first. */
    readonly published: Effect.Effect<ReadonlyArray<AttestationKey>>
  }
>()("app/attestation/AttestationKeysRepository") {
  static readonly layer = Layer.effect(
    AttestationKeysRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const model = yield* SqlModel.makeRepository(AttestationKey, {
        tableName: "attestation_keys",
        spanPrefix: "AttestationKeysRepository",
        idColumn: "id"
      })
      const selectActive = SqlSchema.findOneOption({
        Request: KeyPurpose,
        Result: AttestationKey,
        execute: (purpose) => sql`
          SELECT * FROM attestation_keys WHERE purpose = ${purpose} AND status = 'active'
          ORDER BY valid_from DESC, id DESC LIMIT 1`
      })
      const selectOne = SqlSchema.findOneOption({
        Request: Schema.String,
        Result: AttestationKey,
        execute: (keyId) => sql`SELECT * FROM attestation_keys WHERE key_id = ${keyId}`
      })
      const selectPublished = SqlSchema.findAll({
        Request: Schema.Void,
        Result: AttestationKey,
        execute: () => sql`
          SELECT * FROM attestation_keys WHERE purpose <> 'verify' AND status IN ('active', 'retired')
          ORDER BY valid_from DESC, id DESC`
      })

      const selectAllActive = SqlSchema.findAll({
        Request: Schema.Void,
        Result: AttestationKey,
        execute: () => sql`
          SELECT * FROM attestation_keys WHERE purpose <> 'verify' AND status = 'active' ORDER BY valid_from, id`
      })
      const retire = SqlSchema.void({
        Request: Retired,
        execute: ({ id, sealedPrivateKey, validUntil }) => sql`
          UPDATE attestation_keys SET status = 'retired', valid_until = ${validUntil},
            sealed_private_key = ${sealedPrivateKey}
          WHERE id = ${id} AND status = 'active'`
      })

      return AttestationKeysRepository.of({
        retire: (key) => Change.use(() => Effect.orDie(retire(key))),
        allActive: Effect.orDie(selectAllActive(undefined)),
        insert: (key) => Change.use(() => Effect.orDie(model.insert(key))),
        active: Effect.fn("AttestationKeysRepository.active")((purpose) => Effect.orDie(selectActive(purpose))),
        find: Effect.fn("AttestationKeysRepository.find")((keyId) => Effect.orDie(selectOne(keyId))),
        published: Effect.orDie(selectPublished(undefined))
      })
    })
  )
}
