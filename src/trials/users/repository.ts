import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { emailKey } from "../../kernel/email.ts"
import { indexedText } from "../../platform/database/list.ts"
import { makeTable } from "../../platform/database/table.ts"
import { trialUserListing, EmailTaken, TrialUser, TrialUserNotFound } from "./domain.ts"

export class TrialUsersRepository extends Context.Service<TrialUsersRepository>()("app/trials/TrialUsersRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const table = yield* makeTable(TrialUser, {
      name: "trial_users",
      spanPrefix: "TrialUsersRepository",
      notFound: TrialUserNotFound,
      permit: Change,
      list: { as: trialUserListing, text: indexedText },
      violations: { insert: { trial_users_email: EmailTaken }, update: { trial_users_email: EmailTaken } },
      batchedBy: "integer"
    })
    const selectByEmail = SqlSchema.findOneOption({
      Request: Schema.String,
      Result: TrialUser,
      execute: (email) => sql`SELECT * FROM trial_users WHERE email_key = ${emailKey(email)}`
    })
    return {
      ...table,
      getByEmail: Effect.fn("TrialUsersRepository.getByEmail")(function* (email: string) {
        const user = yield* Effect.orDie(selectByEmail(email))
        return Option.isSome(user) ? user.value : yield* new TrialUserNotFound({})
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
