import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { AccountId } from "./domain.ts"

/** The invitation of an account; its link is stored as the SHA-256 of the token. */
interface Invitation {
  readonly accountId: AccountId
  readonly tenantId: TenantId | null
  readonly tokenSha256: Uint8Array
  readonly expiresAt: DateTime.Utc
}

/** The invitations by which accounts get their passwords: at most one for each. */
export class InvitationRepository extends Context.Service<InvitationRepository>()("app/people/InvitationRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const select = SqlSchema.findOneOption({
      Request: Schema.Struct({ sha256: Schema.Uint8Array, at: Schema.Date }),
      Result: Schema.Struct({ accountId: AccountId }),
      execute: ({ at, sha256 }) => sql`
        SELECT account_id FROM account_invitations WHERE token_sha256 = ${sha256} AND expires_at > ${at}`
    })
    return {
      /** Puts an invitation in the place of an earlier one. */
      put: Effect.fn("InvitationRepository.put")(({ expiresAt, ...invitation }: Invitation) =>
        Change.use(() =>
          sql`
            INSERT INTO account_invitations ${sql.insert({ ...invitation, expiresAt: DateTime.toDateUtc(expiresAt) })}
            ON CONFLICT (account_id) DO UPDATE
            SET token_sha256 = excluded.token_sha256, expires_at = excluded.expires_at`.pipe(
            Effect.asVoid,
            Effect.orDie
          )
        )
      ),
      /** The account that a live link invites. */
      find: Effect.fn("InvitationRepository.find")((sha256: Uint8Array, at: DateTime.Utc) =>
        Effect.orDie(select({ sha256, at: DateTime.toDateUtc(at) }))
      ),
      /** Consumes a link; false when it was no longer the live one of the account. */
      use: Effect.fn("InvitationRepository.use")((accountId: AccountId, sha256: Uint8Array, at: DateTime.Utc) =>
        Change.use(() =>
          sql`
            DELETE FROM account_invitations
            WHERE account_id = ${accountId} AND token_sha256 = ${sha256} AND expires_at > ${DateTime.toDateUtc(at)}
            RETURNING 1`.values.pipe(
            Effect.map((rows) => rows.length > 0),
            Effect.orDie
          )
        )
      ),
      /** Ends the invitation of an account; false when it had none. */
      end: Effect.fn("InvitationRepository.end")((accountId: AccountId) =>
        Change.use(() =>
          sql`DELETE FROM account_invitations WHERE account_id = ${accountId} RETURNING 1`.values.pipe(
            Effect.map((rows) => rows.length > 0),
            Effect.orDie
          )
        )
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
