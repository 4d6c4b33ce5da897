import { Context, type DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { makeTable } from "../../platform/database/table.ts"
import { registrationTokenListing, RegistrationToken, RegistrationTokenNotFound } from "./domain.ts"

export class RegistrationTokensRepository extends Context.Service<RegistrationTokensRepository>()(
  "app/agents/RegistrationTokensRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const table = yield* makeTable(RegistrationToken, {
        name: "registration_tokens",
        spanPrefix: "RegistrationTokensRepository",
        notFound: RegistrationTokenNotFound,
        permit: Change,
        list: { as: registrationTokenListing, text: "lower(t.created_by)" }
      })
      const At = Schema.Struct({ sha256: Schema.Uint8Array, now: InstantFromDate })
      const live = SqlSchema.findOneOption({
        Request: At,
        Result: RegistrationToken,
        execute: ({ now, sha256 }) => sql`
          SELECT * FROM registration_tokens
          WHERE token_sha256 = ${sha256} AND remaining_uses > 0 AND expires_at > ${now}`
      })
      const spend = SqlSchema.findOneOption({
        Request: At,
        Result: RegistrationToken,
        execute: ({ now, sha256 }) => sql`
          UPDATE registration_tokens SET remaining_uses = remaining_uses - 1
          WHERE token_sha256 = ${sha256} AND remaining_uses > 0 AND expires_at > ${now} RETURNING *`
      })
      return {
        ...table,
        /** The token with this hash, if it can be used. */
        live: Effect.fn("RegistrationTokensRepository.live")((sha256: Uint8Array, now: DateTime.Utc) =>
          Effect.orDie(live({ sha256, now }))
        ),
        /** Takes one use of the token; none where another request took the last one. */
        spend: Effect.fn("RegistrationTokensRepository.spend")((sha256: Uint8Array, now: DateTime.Utc) =>
          Change.use(() => Effect.orDie(spend({ sha256, now })))
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
