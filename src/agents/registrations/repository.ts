import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { makeTable } from "../../platform/database/table.ts"
import { Registration, RegistrationNotFound } from "./domain.ts"

export class RegistrationsRepository extends Context.Service<RegistrationsRepository>()(
  "app/agents/RegistrationsRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const table = yield* makeTable(Registration, {
        name: "application_registrations",
        spanPrefix: "RegistrationsRepository",
        notFound: RegistrationNotFound,
        permit: Change
      })
      const selectWaiting = SqlSchema.findOne({
        Request: Schema.Int,
        Result: Schema.Struct({ waiting: Schema.Int }),
        execute: (most) => sql`
          SELECT count(*)::integer AS waiting FROM (
            SELECT FROM applications a JOIN application_registrations r ON r.id = a.id
            WHERE a.status = 'pending' AND r.registration_token_id IS NULL LIMIT ${most}) counted`
      })
      return {
        ...table,
        /** How many open registrations wait for an approval, counted up to `most`. */
        waiting: Effect.fn("RegistrationsRepository.waiting")((most: number) =>
          Effect.map(Effect.orDie(selectWaiting(most)), ({ waiting }) => waiting)
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
