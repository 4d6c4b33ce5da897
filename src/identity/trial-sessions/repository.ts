import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlModel, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { type TrialUserId } from "../trial-users/domain.ts"
import { Session, SessionId, SessionNotFound } from "./domain.ts"

export class SessionsRepository extends Context.Service<SessionsRepository>()("app/sessions/SessionsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const model = yield* SqlModel.makeRepository(Session, {
      tableName: "sessions",
      spanPrefix: "SessionsRepository",
      idColumn: "id"
    })
    const selectPage = SqlSchema.findAll({
      Request: Schema.Struct({
        userId: Schema.UndefinedOr(Schema.Int),
        active: Schema.UndefinedOr(Schema.Boolean),
        after: Schema.Int,
        limit: Schema.Int
      }),
      Result: Session,
      execute: ({ active, after, limit, userId }) => sql`
          SELECT * FROM sessions
          WHERE id > ${after}
            ${userId === undefined ? sql`` : sql`AND trial_user_id = ${userId}`}
            ${active === undefined ? sql`` : sql`AND is_active = ${active}`}
          ORDER BY id LIMIT ${limit}`
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

    return {
      get: (id: SessionId) =>
        model.findById(id).pipe(
          Effect.catchTags({
            NoSuchElementError: () => new SessionNotFound({}),
            SqlError: Effect.die,
            SchemaError: Effect.die
          })
        ),
      list: Effect.fn("SessionsRepository.list")(
        (
          filter: { readonly userId: TrialUserId | undefined; readonly active: boolean | undefined },
          after: SessionId | undefined,
          limit: number
        ) => Effect.orDie(selectPage({ ...filter, after: after ?? 0, limit }))
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
