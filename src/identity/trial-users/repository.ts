import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlModel, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { makeBatcher } from "../../platform/database/batcher.ts"
import { EmailTaken, TrialUser, TrialUserId, TrialUserNotFound } from "./domain.ts"

export class TrialUsersRepository extends Context.Service<
  TrialUsersRepository,
  {
    get(id: TrialUserId): Effect.Effect<TrialUser, TrialUserNotFound>
    /** The row locked until the transaction ends: FOR UPDATE to change it, FOR SHARE to rely on it. */
    lock(id: TrialUserId, mode: "UPDATE" | "SHARE"): Effect.Effect<TrialUser, TrialUserNotFound>
    getByEmail(email: string): Effect.Effect<TrialUser, TrialUserNotFound>
    list(
      active: boolean | undefined,
      after: TrialUserId | undefined,
      limit: number
    ): Effect.Effect<ReadonlyArray<TrialUser>>
    insert(user: typeof TrialUser.insert.Type): Effect.Effect<TrialUser, EmailTaken, Change>
    update(user: typeof TrialUser.update.Type): Effect.Effect<TrialUser, EmailTaken, Change>
    delete(id: TrialUserId): Effect.Effect<void, never, Change>
  }
>()("app/trial-users/TrialUsersRepository") {
  static readonly layer = Layer.effect(
    TrialUsersRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const model = yield* SqlModel.makeRepository(TrialUser, {
        tableName: "trial_users",
        spanPrefix: "TrialUsersRepository",
        idColumn: "id"
      })

      const selectSome = SqlSchema.findAll({
        Request: Schema.Array(TrialUserId),
        Result: TrialUser,
        execute: (ids) => sql`SELECT * FROM trial_users WHERE id = ANY(${ids}::integer[])`
      })
      const batcher = yield* makeBatcher({
        maximum: 100,
        run: (ids: ReadonlyArray<TrialUserId>) =>
          Effect.map(Effect.orDie(selectSome(ids)), (users) => {
            const byId = new Map(users.map((user) => [user.id, user]))
            return ids.map((id) => Option.fromUndefinedOr(byId.get(id)))
          })
      })
      const selectLocked = (mode: "UPDATE" | "SHARE") =>
        SqlSchema.findOneOption({
          Request: TrialUserId,
          Result: TrialUser,
          execute: (id) => sql`SELECT * FROM trial_users WHERE id = ${id} FOR ${sql.literal(mode)}`
        })
      const locked = { UPDATE: selectLocked("UPDATE"), SHARE: selectLocked("SHARE") }
      const selectByEmail = SqlSchema.findOneOption({
        Request: Schema.String,
        Result: TrialUser,
        execute: (email) => sql`SELECT * FROM trial_users WHERE lower(email) = lower(${email})`
      })
      const selectPage = SqlSchema.findAll({
        Request: Schema.Struct({
          active: Schema.UndefinedOr(Schema.Boolean),
          after: Schema.Int,
          limit: Schema.Int
        }),
        Result: TrialUser,
        execute: ({ active, after, limit }) => sql`
          SELECT * FROM trial_users
          WHERE id > ${after} ${active === undefined ? sql`` : sql`AND is_active = ${active}`}
          ORDER BY id LIMIT ${limit}`
      })

      const found = Effect.flatMap(
        Option.match({
          onNone: () => Effect.fail(new TrialUserNotFound({})),
          onSome: (user: TrialUser) => Effect.succeed(user)
        })
      )
      const emailTaken = <A, R>(effect: Effect.Effect<A, Effect.Error<ReturnType<typeof model.insert>>, R>) =>
        Change.use(() =>
          effect.pipe(
            Effect.catchReason("SqlError", "UniqueViolation", () => new EmailTaken({})),
            Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
          )
        )

      return TrialUsersRepository.of({
        get: (id) => found(batcher.submit(id)),
        lock: Effect.fn("TrialUsersRepository.lock")((id, mode) => found(Effect.orDie(locked[mode](id)))),
        getByEmail: Effect.fn("TrialUsersRepository.getByEmail")((email) => found(Effect.orDie(selectByEmail(email)))),
        list: Effect.fn("TrialUsersRepository.list")((active, after, limit) =>
          Effect.orDie(selectPage({ active, after: after ?? 0, limit }))
        ),
        insert: (user) => emailTaken(model.insert(user)),
        update: (user) => emailTaken(model.update(user)),
        delete: (id) => Change.use(() => Effect.orDie(model.delete(id)))
      })
    })
  )
}
