import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { SecretId } from "./configuration-domain.ts"

const NewSecret = Schema.Struct({ id: SecretId, sealed: Schema.Uint8Array, at: Schema.Date, by: Schema.String })

/** Encrypted keys of providers. They are only ever added, since old versions of the configuration reference them. */
export class SecretRepository extends Context.Service<
  SecretRepository,
  {
    readonly nextId: Effect.Effect<SecretId>
    insert(secret: typeof NewSecret.Type): Effect.Effect<void, never, Change>
    find(id: SecretId): Effect.Effect<Option.Option<Uint8Array>>
  }
>()("app/gateway/SecretRepository") {
  static readonly layer = Layer.effect(
    SecretRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const selectId = SqlSchema.findOne({
        Request: Schema.Void,
        Result: Schema.Struct({ id: SecretId }),
        execute: () => sql`SELECT new_id() AS id`
      })
      const insert = SqlSchema.void({
        Request: NewSecret,
        execute: ({ at, by, id, sealed }) => sql`
          INSERT INTO gateway_secrets (id, sealed, created_at, created_by) VALUES (${id}, ${sealed}, ${at}, ${by})`
      })
      const selectOne = SqlSchema.findOneOption({
        Request: SecretId,
        Result: Schema.Struct({ sealed: Schema.Uint8Array }),
        execute: (id) => sql`SELECT sealed FROM gateway_secrets WHERE id = ${id}`
      })
      return SecretRepository.of({
        nextId: Effect.orDie(Effect.map(selectId(undefined), ({ id }) => id)),
        insert: (secret) => Change.use(() => Effect.orDie(insert(secret))),
        find: Effect.fn("SecretRepository.find")((id) =>
          Effect.map(
            Effect.orDie(selectOne(id)),
            Option.map(({ sealed }) => sealed)
          )
        )
      })
    })
  )
}
