import { Context, Effect, Layer, type Option, Schema } from "effect"
import { SqlClient, SqlModel, SqlSchema } from "effect/sql"
import { Change } from "../audit/domain.ts"
import { AttestationKey, KeyPurpose } from "./domain.ts"

export class AttestationKeysRepository extends Context.Service<
  AttestationKeysRepository,
  {
    insert(key: typeof AttestationKey.insert.Type): Effect.Effect<AttestationKey, never, Change>
    /** The newest active key of a purpose. */
    active(purpose: KeyPurpose): Effect.Effect<Option.Option<AttestationKey>>
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

      return AttestationKeysRepository.of({
        insert: (key) => Change.use(() => Effect.orDie(model.insert(key))),
        active: Effect.fn("AttestationKeysRepository.active")((purpose) => Effect.orDie(selectActive(purpose))),
        find: Effect.fn("AttestationKeysRepository.find")((keyId) => Effect.orDie(selectOne(keyId))),
        published: Effect.orDie(selectPublished(undefined))
      })
    })
  )
}
