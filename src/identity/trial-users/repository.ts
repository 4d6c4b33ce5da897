import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { indexedText } from "../../platform/database/list.ts"
import { makeTable, violations } from "../../platform/database/table.ts"
import { trialUserListing, EmailTaken, TrialUser, type TrialUserId, TrialUserNotFound } from "./domain.ts"

export class TrialUsersRepository extends Context.Service<TrialUsersRepository>()(
  "app/trial-users/TrialUsersRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const table = yield* makeTable(TrialUser, {
        name: "trial_users",
        spanPrefix: "TrialUsersRepository",
        notFound: TrialUserNotFound,
        permit: Change,
        list: { as: trialUserListing, text: indexedText },
        batchedBy: "integer"
      })
      const selectByEmail = SqlSchema.findOneOption({
        Request: Schema.String,
        Result: TrialUser,
        execute: (email) => sql`SELECT * FROM trial_users WHERE lower(email) = lower(${email})`
      })
      const emailTaken = violations({ trial_users_email: EmailTaken })
      return {
        ...table,
        getByEmail: Effect.fn("TrialUsersRepository.getByEmail")(function* (email: string) {
          const user = yield* Effect.orDie(selectByEmail(email))
          return Option.isSome(user) ? user.value : yield* new TrialUserNotFound({})
        }),
        insert: (user: typeof TrialUser.insert.Type) => emailTaken(table.insert(user)),
        update: (user: typeof TrialUser.update.Type) => emailTaken(table.update(user)),
        delete: (id: TrialUserId) => Effect.orDie(table.delete(id))
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
