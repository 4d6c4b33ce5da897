import { Context, DateTime, Effect, Layer, Schema, Struct } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { Capability } from "../../kernel/authority/capability.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { SessionId } from "../../trials/sessions/domain.ts"
import { AccountId } from "../accounts/domain.ts"
import { AccountSessionId } from "./domain.ts"

/** What a token says of its bearer; read past row-level security, since the tenant is not known yet. */
export const TokenOwner = Schema.Struct({
  sessionId: AccountSessionId,
  accountId: AccountId,
  tenantId: Schema.NullOr(TenantId),
  tenantStatus: Schema.NullOr(Schema.String),
  accountStatus: Schema.String,
  capabilities: Schema.Array(Capability),
  lastUsedAt: InstantFromDate,
  expiresAt: InstantFromDate,
  isEnded: Schema.Boolean,
  /** When another token took its place; null for the current one. */
  replacedAt: Schema.NullOr(InstantFromDate),
  applicationId: Schema.NullOr(Schema.Int),
  accountExpiresAt: Schema.NullOr(InstantFromDate)
})
export type TokenOwner = typeof TokenOwner.Type

/** A sign-in as it is stored. */
export const StoredSession = Schema.Struct({
  id: AccountSessionId,
  accountId: AccountId,
  tenantId: Schema.NullOr(TenantId),
  /** Derives the next token from the current one, so that neither the database nor the token alone reveals it. */
  rotationSecret: Schema.Uint8Array,
  ipAddress: Schema.NullOr(Schema.String),
  userAgent: Schema.NullOr(Schema.String),
  trialSessionId: Schema.NullOr(SessionId),
  createdAt: InstantFromDate,
  lastUsedAt: InstantFromDate,
  expiresAt: InstantFromDate
})
export type StoredSession = typeof StoredSession.Type
export type NewSession = Omit<StoredSession, "id">

export const EndedSession = Schema.Struct({
  id: AccountSessionId,
  accountId: AccountId,
  tenantId: Schema.NullOr(TenantId),
  trialSessionId: Schema.NullOr(SessionId)
})
export type EndedSession = typeof EndedSession.Type

export interface TokenRow {
  readonly sha256: Uint8Array
  readonly sessionId: AccountSessionId
  readonly tenantId: TenantId | null
}

export class AccountSessionsRepository extends Context.Service<AccountSessionsRepository>()(
  "app/people/AccountSessionsRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const isLive = sql.literal(
        "ended_at IS NULL AND (trial_session_id IS NULL OR EXISTS (SELECT FROM sessions i WHERE i.id = trial_session_id AND i.is_active))"
      )
      const selectOwner = SqlSchema.findOneOption({
        Request: Schema.Uint8Array,
        Result: TokenOwner,
        execute: (sha256) => sql`SELECT * FROM account_session_by_token(${sha256})`
      })
      const selectLive = SqlSchema.findAll({
        Request: Schema.Struct({
          accountId: AccountId,
          liveAt: InstantFromDate,
          idleSince: InstantFromDate,
          before: Schema.UndefinedOr(AccountSessionId),
          limit: Schema.Int
        }),
        Result: StoredSession,
        execute: ({ accountId, before, idleSince, limit, liveAt }) => sql`
          SELECT * FROM account_sessions
          WHERE account_id = ${accountId} AND expires_at > ${liveAt} AND last_used_at > ${idleSince} AND ${isLive}
            ${before === undefined ? sql`` : sql`AND id < ${before}`}
          ORDER BY id DESC LIMIT ${limit}`
      })
      const selectLocked = SqlSchema.findOneOption({
        Request: AccountSessionId,
        Result: StoredSession,
        execute: (id) => sql`SELECT * FROM account_sessions WHERE id = ${id} AND ${isLive} FOR UPDATE`
      })
      const insertOne = SqlSchema.findOne({
        Request: StoredSession.mapFields(Struct.omit(["id"])),
        Result: Schema.Struct({ id: AccountSessionId }),
        execute: (row) => sql`INSERT INTO account_sessions ${sql.insert(row)} RETURNING id`
      })
      const endOne = SqlSchema.findOneOption({
        Request: Schema.Struct({ id: AccountSessionId, at: InstantFromDate }),
        Result: EndedSession,
        execute: ({ at, id }) =>
          sql`UPDATE account_sessions SET ended_at = ${at} WHERE id = ${id} AND ended_at IS NULL RETURNING *`
      })
      const endAll = SqlSchema.findAll({
        Request: Schema.Struct({
          accountId: AccountId,
          kept: Schema.UndefinedOr(AccountSessionId),
          at: InstantFromDate
        }),
        Result: EndedSession,
        execute: ({ accountId, at, kept }) => sql`
          UPDATE account_sessions SET ended_at = ${at}
          WHERE account_id = ${accountId} AND ended_at IS NULL ${kept === undefined ? sql`` : sql`AND id <> ${kept}`}
          RETURNING *`
      })
      const useMany = SqlSchema.findAll({
        Request: Schema.Array(Schema.Struct({ id: Schema.String, at: Schema.Finite })),
        Result: Schema.Struct({ trialSessionId: Schema.NullOr(SessionId) }),
        execute: (uses) => sql`
          UPDATE account_sessions s SET last_used_at = greatest(s.last_used_at, u.at)
          FROM json_to_recordset(${JSON.stringify(
            uses.map(({ at, id }) => ({ id, at: DateTime.formatIso(DateTime.makeUnsafe(at)) }))
          )}::json) AS u(id uuid, at timestamptz)
          WHERE s.id = u.id AND s.ended_at IS NULL RETURNING s.trial_session_id`
      })

      return {
        owner: (sha256: Uint8Array) => Effect.orDie(selectOwner(sha256)),
        /** The live sign-ins of an account, the newest first. */
        list: Effect.fn("AccountSessionsRepository.list")(
          (
            accountId: AccountId,
            liveAt: DateTime.Utc,
            idleSince: DateTime.Utc,
            before: AccountSessionId | undefined,
            limit: number
          ) => Effect.orDie(selectLive({ accountId, liveAt, idleSince, before, limit }))
        ),
        /** The row locked until the transaction ends, unless the sign-in has ended. */
        lock: Effect.fn("AccountSessionsRepository.lock")((id: AccountSessionId) =>
          Change.use(() => Effect.orDie(selectLocked(id)))
        ),
        insert: Effect.fn("AccountSessionsRepository.insert")((session: NewSession) =>
          Change.use(() => Effect.map(Effect.orDie(insertOne(session)), ({ id }) => id))
        ),
        insertToken: Effect.fn("AccountSessionsRepository.insertToken")((token: TokenRow, at: DateTime.Utc) =>
          Change.use(() =>
            sql`
              INSERT INTO account_session_tokens (sha256, session_id, tenant_id, issued_at)
              VALUES (${token.sha256}, ${token.sessionId}, ${token.tenantId}, ${DateTime.toDateUtc(at)})
              ON CONFLICT (sha256) DO NOTHING`.pipe(Effect.asVoid, Effect.orDie)
          )
        ),
        /** Marks a token as replaced, unless it is; false when there is none any more. */
        replaceToken: Effect.fn("AccountSessionsRepository.replaceToken")((sha256: Uint8Array, at: DateTime.Utc) =>
          Change.use(() =>
            sql`
              UPDATE account_session_tokens SET replaced_at = coalesce(replaced_at, ${DateTime.toDateUtc(at)})
              WHERE sha256 = ${sha256} RETURNING session_id`.values.pipe(
              Effect.map((rows) => rows.length > 0),
              Effect.orDie
            )
          )
        ),
        /** Takes every token of a sign-in away at once. */
        dropTokens: Effect.fn("AccountSessionsRepository.dropTokens")((id: AccountSessionId) =>
          Change.use(() =>
            sql`DELETE FROM account_session_tokens WHERE session_id = ${id}`.pipe(Effect.asVoid, Effect.orDie)
          )
        ),
        touch: Effect.fn("AccountSessionsRepository.touch")((id: AccountSessionId, at: DateTime.Utc) =>
          Change.use(() =>
            sql`
              UPDATE account_sessions SET last_used_at = greatest(last_used_at, ${DateTime.toDateUtc(at)})
              WHERE id = ${id}`.pipe(Effect.asVoid, Effect.orDie)
          )
        ),
        end: Effect.fn("AccountSessionsRepository.end")((id: AccountSessionId, at: DateTime.Utc) =>
          Change.use(() => Effect.orDie(endOne({ id, at })))
        ),
        /** Ends the sign-ins of an account, but for one that is kept. */
        endAllOf: Effect.fn("AccountSessionsRepository.endAllOf")(
          (accountId: AccountId, kept: AccountSessionId | undefined, at: DateTime.Utc) =>
            Change.use(() => Effect.orDie(endAll({ accountId, kept, at })))
        ),
        /** Moves the last use of many forward at once, and answers the interface sessions that go with them. */
        used: Effect.fn("AccountSessionsRepository.used")(
          (uses: ReadonlyArray<{ readonly id: string; readonly at: number }>) => Effect.orDie(useMany(uses))
        ),
        /** Removes sign-ins that were over before. */
        purge: Effect.fn("AccountSessionsRepository.purge")((before: DateTime.Utc) =>
          sql`
            DELETE FROM account_sessions
            WHERE expires_at < ${DateTime.toDateUtc(before)} OR ended_at < ${DateTime.toDateUtc(before)}`.pipe(
            Effect.asVoid,
            Effect.orDie
          )
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
