import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { makeTable } from "../../platform/database/table.ts"
import { ApplicationId, ApplicationNotFound } from "../applications/domain.ts"
import { roleListing, Role, RoleId, RoleInUse, RoleNameTaken, RoleNotFound } from "./domain.ts"

export class RolesRepository extends Context.Service<RolesRepository>()("app/applications/RolesRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const table = yield* makeTable(Role, {
      name: "roles",
      spanPrefix: "RolesRepository",
      notFound: RoleNotFound,
      permit: Change,
      list: { as: roleListing, text: "lower(t.name || ' ' || t.description)" },
      violations: {
        insert: { roles_name: RoleNameTaken, roles_application: ApplicationNotFound },
        update: { roles_name: RoleNameTaken },
        delete: { account_roles_role: RoleInUse }
      }
    })
    const selectShared = SqlSchema.findAll({
      Request: Schema.Struct({ applicationId: ApplicationId, ids: Schema.Array(RoleId) }),
      Result: Role,
      execute: ({ applicationId, ids }) => sql`
        SELECT * FROM roles WHERE application_id = ${applicationId} AND id = ANY(${ids}::integer[])
        ORDER BY id FOR SHARE`
    })
    const insertUnlessTaken = SqlSchema.findOneOption({
      Request: Role.insert,
      Result: Role,
      execute: (row) =>
        sql`INSERT INTO roles ${sql.insert(row)} ON CONFLICT (application_id, name) DO NOTHING RETURNING *`
    })
    return {
      ...table,
      /** Inserts unless the application has a role of this name (none then), safe against concurrent inserts. */
      insertIfMissing: Effect.fn("RolesRepository.insertIfMissing")(function* (role: typeof Role.insert.Type) {
        yield* Change
        const { applicationId, name } = role
        const known = yield* Effect.option(table.getBy({ applicationId, name }))
        return Option.isSome(known) ? Option.none() : yield* Effect.orDie(insertUnlessTaken(role))
      }),
      /** Those of `ids` that the application has, locked FOR SHARE until the transaction ends. */
      lockShared: (applicationId: ApplicationId, ids: ReadonlyArray<RoleId>) =>
        Effect.andThen(Change, Effect.orDie(selectShared({ applicationId, ids })))
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
