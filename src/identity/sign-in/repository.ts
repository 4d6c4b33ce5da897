import { Context, DateTime, Effect, Layer, type Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { AccountId } from "../accounts/domain.ts"
import { Change } from "../../audit/log/domain.ts"
import { Capability } from "../../kernel/capability.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { SessionId } from "../trial-sessions/domain.ts"
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
  replacedAt: Schema.NullOr(InstantFromDate)
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

export class AccountSessionsRepository extends Context.Service<
  AccountSessionsRepository,
  {
    owner(sha256: Uint8Array): Effect.Effect<Option.Option<TokenOwner>>
    /** The live sign-ins of an account, the newest first. */
    list(
      accountId: AccountId,
      liveAt: DateTime.Utc,
      idleSince: DateTime.Utc,
      before: AccountSessionId | undefined,
      limit: number
    ): Effect.Effect<ReadonlyArray<StoredSession>>
    /** The row locked until the transaction ends, unless the sign-in has ended. */
    lock(id: AccountSessionId): Effect.Effect<Option.Option<StoredSession>, never, Change>
    insert(session: NewSession): Effect.Effect<AccountSessionId, never, Change>
    insertToken(token: TokenRow, at: DateTime.Utc): Effect.Effect<void, never, Change>
    /** Marks a token as replaced, unless it is; false when there is none any more. */
    replaceToken(sha256: Uint8Array, at: DateTime.Utc): Effect.Effect<boolean, never, Change>
    /** Takes every token of a sign-in away at once. */
    dropTokens(id: AccountSessionId): Effect.Effect<void, never, Change>
    touch(id: AccountSessionId, at: DateTime.Utc): Effect.Effect<void, never, Change>
    end(id: AccountSessionId, at: DateTime.Utc): Effect.Effect<Option.Option<EndedSession>, never, Change>
    /** Ends the sign-ins of an account, but for one that is kept. */
    endAllOf(
      accountId: AccountId,
      kept: AccountSessionId | undefined,
      at: DateTime.Utc
    ): Effect.Effect<ReadonlyArray<EndedSession>, never, Change>
    /** Moves the last use of many forward at once, and answers the interface sessions that go with them. */
    used(
      uses: ReadonlyArray<{ readonly id: string; readonly at: number }>
    ): Effect.Effect<ReadonlyArray<{ readonly trialSessionId: SessionId | null }>>
    /** Removes sign-ins that were over before. */
    purge(before: DateTime.Utc): Effect.Effect<void>
  }
>()("app/sign-in/AccountSessionsRepository") {
  static readonly layer = Layer.effect(
    AccountSessionsRepository,
    Effect.gen(function* () {
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
        Request: Schema.Struct({
          accountId: AccountId,
          tenantId: Schema.NullOr(TenantId),
          rotationSecret: Schema.Uint8Array,
          ipAddress: Schema.NullOr(Schema.String),
          userAgent: Schema.NullOr(Schema.String),
          trialSessionId: Schema.NullOr(SessionId),
          createdAt: InstantFromDate,
          lastUsedAt: InstantFromDate,
          expiresAt: InstantFromDate
        }),
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

      return AccountSessionsRepository.of({
        owner: (sha256) => Effect.orDie(selectOwner(sha256)),
        list: Effect.fn("AccountSessionsRepository.list")((accountId, liveAt, idleSince, before, limit) =>
          Effect.orDie(selectLive({ accountId, liveAt, idleSince, before, limit }))
        ),
        lock: Effect.fn("AccountSessionsRepository.lock")((id) => Change.use(() => Effect.orDie(selectLocked(id)))),
        insert: Effect.fn("AccountSessionsRepository.insert")((session) =>
          Change.use(() => Effect.map(Effect.orDie(insertOne(session)), ({ id }) => id))
        ),
        insertToken: Effect.fn("AccountSessionsRepository.insertToken")((token, at) =>
          Change.use(() =>
            sql`
              INSERT INTO account_session_tokens (sha256, session_id, tenant_id, issued_at)
              VALUES (${token.sha256}, ${token.sessionId}, ${token.tenantId}, ${DateTime.toDateUtc(at)})
              ON CONFLICT (sha256) DO NOTHING`.pipe(Effect.asVoid, Effect.orDie)
          )
        ),
        replaceToken: Effect.fn("AccountSessionsRepository.replaceToken")((sha256, at) =>
          Change.use(() =>
            sql`
              UPDATE account_session_tokens SET replaced_at = coalesce(replaced_at, ${DateTime.toDateUtc(at)})
              WHERE sha256 = ${sha256} RETURNING session_id`.values.pipe(
              Effect.map((rows) => rows.length > 0),
              Effect.orDie
            )
          )
        ),
        dropTokens: Effect.fn("AccountSessionsRepository.dropTokens")((id) =>
          Change.use(() =>
            sql`DELETE FROM account_session_tokens WHERE session_id = ${id}`.pipe(Effect.asVoid, Effect.orDie)
          )
        ),
        touch: Effect.fn("AccountSessionsRepository.touch")((id, at) =>
          Change.use(() =>
            sql`
              UPDATE account_sessions SET last_used_at = greatest(last_used_at, ${DateTime.toDateUtc(at)})
              WHERE id = ${id}`.pipe(Effect.asVoid, Effect.orDie)
          )
        ),
        end: Effect.fn("AccountSessionsRepository.end")((id, at) => Change.use(() => Effect.orDie(endOne({ id, at })))),
        endAllOf: Effect.fn("AccountSessionsRepository.endAllOf")((accountId, kept, at) =>
          Change.use(() => Effect.orDie(endAll({ accountId, kept, at })))
        ),
        used: Effect.fn("AccountSessionsRepository.used")((uses) => Effect.orDie(useMany(uses))),
        purge: Effect.fn("AccountSessionsRepository.purge")((before) =>
          sql`
            DELETE FROM account_sessions
            WHERE expires_at < ${DateTime.toDateUtc(before)} OR ended_at < ${DateTime.toDateUtc(before)}`.pipe(
            Effect.asVoid,
            Effect.orDie
          )
        )
      })
    })
  )
}
