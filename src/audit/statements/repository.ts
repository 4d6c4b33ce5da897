import { Context, Effect, Option, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../log/domain.ts"

const Signing = Schema.Struct({ digest: Schema.Uint8Array, keyId: Schema.String, signedAt: Schema.Date })

/** When the installation signed which payload with which key. */
export class StatementsRepository extends Context.Service<StatementsRepository>()("app/audit/StatementsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const insert = SqlSchema.void({
      Request: Signing,
      execute: ({ digest, keyId, signedAt }) => sql`
        INSERT INTO attestation_statements (digest, key_id, signed_at) VALUES (${digest}, ${keyId}, ${signedAt})
        ON CONFLICT DO NOTHING`
    })
    const find = SqlSchema.findOneOption({
      Request: Schema.Struct({ digest: Schema.Uint8Array, keyId: Schema.String }),
      Result: Schema.Struct({ signedAt: Schema.DateTimeUtcFromDate }),
      execute: ({ digest, keyId }) => sql`
        SELECT signed_at FROM attestation_statements WHERE digest = ${digest} AND key_id = ${keyId}`
    })
    return {
      /** Keeps when a payload was signed; of several times the first. */
      insert: (signing: typeof Signing.Type) => Change.use(() => Effect.orDie(insert(signing))),
      signedAt: Effect.fn("StatementsRepository.signedAt")((digest: Uint8Array, keyId: string) =>
        Effect.map(
          Effect.orDie(find({ digest, keyId })),
          Option.map(({ signedAt }) => signedAt)
        )
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
