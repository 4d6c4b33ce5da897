import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlModel, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { rowLock } from "../../platform/database/database.ts"
import { makeList } from "../../platform/database/list.ts"
import { readRows } from "../../platform/database/table.ts"
import { type TrialUserId } from "../users/domain.ts"
import { Session, SessionId, sessionListing, SessionNotFound } from "./domain.ts"

export class SessionsRepository extends Context.Service<SessionsRepository>()("app/trials/SessionsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const model = yield* SqlModel.makeRepository(Session, {
      tableName: "sessions",
      spanPrefix: "SessionsRepository",
      idColumn: "id"
    })
    const page = makeList(sql, readRows(Session), sessionListing, {
      from: "sessions",
      hasTenant: false,
      text: "lower(t.ip_address)"
    })
    const endOne = SqlSchema.findOneOption({
      Request: SessionId,
      Result: Session,
      execute: (id) => sql`UPDATE sessions SET is_active = false WHERE id = ${id} AND is_active RETURNING *`
    })
    const endOfUser = SqlSchema.findAll({
      Request: Schema.Int,
      Result: Session,
      execute: (userId) =>
        sql`UPDATE sessions SET is_active = false WHERE trial_user_id = ${userId} AND is_active RETURNING *`
    })
    const endOld = SqlSchema.findAll({
      Request: Schema.Struct({ idleSince: Schema.Date, limit: Schema.Int }),
      Result: Session,
      execute: ({ idleSince, limit }) => sql`
          UPDATE sessions SET is_active = false
          WHERE id IN (
            SELECT id FROM sessions WHERE is_active AND last_activity_at < ${idleSince}
            ORDER BY last_activity_at LIMIT ${limit} FOR UPDATE SKIP LOCKED)
          RETURNING *`
    })

    const selectOne = SqlSchema.findOneOption({
      Request: SessionId,
      Result: Session,
      execute: (id) => Effect.flatMap(rowLock(sql), (lock) => sql`SELECT * FROM sessions WHERE id = ${id} ${lock}`)
    })

    return {
      get: Effect.fn("SessionsRepository.get")((id: SessionId) =>
        Effect.flatMap(
          Effect.orDie(selectOne(id)),
          Option.match({ onNone: () => Effect.fail(new SessionNotFound({})), onSome: (found) => Effect.succeed(found) })
        )
      ),
      list: Effect.fn("SessionsRepository.list")(
        (
          { active, userId }: { readonly userId: TrialUserId | undefined; readonly active: boolean | undefined },
          request: ListRequest<SessionId>
        ) =>
          page(
            [
              ...(userId === undefined ? [] : [sql`trial_user_id = ${userId}`]),
              ...(active === undefined ? [] : [sql`is_active = ${active}`])
            ],
            request
          )
      ),
      insert: (session: typeof Session.insert.Type) => Change.use(() => Effect.orDie(model.insert(session))),
      /** Moves `lastActivityAt` of an active session forward; false when it is not active. Activity is no audit entry. */
      touch: Effect.fn("SessionsRepository.touch")((id: SessionId, at: Date) =>
        sql`
            UPDATE sessions SET last_activity_at = greatest(last_activity_at, ${at})
            WHERE id = ${id} AND is_active RETURNING id`.values.pipe(
          Effect.map((rows) => rows.length > 0),
          Effect.orDie
        )
      ),
      /** Ends an active session; none when there was nothing to end. */
      end: Effect.fn("SessionsRepository.end")((id: SessionId) => Change.use(() => Effect.orDie(endOne(id)))),
      endAllOf: Effect.fn("SessionsRepository.endAllOf")((userId: TrialUserId) =>
        Change.use(() => Effect.orDie(endOfUser(userId)))
      ),
      /** Ends up to `limit` sessions without activity since `idleSince`; rows that another replica holds are left to it. */
      endIdle: Effect.fn("SessionsRepository.endIdle")((idleSince: Date, limit: number) =>
        Change.use(() => Effect.orDie(endOld({ idleSince, limit })))
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
