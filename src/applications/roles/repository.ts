import { Context, Effect, Layer, Option, Predicate, Schema } from "effect"
import { SqlClient, type SqlError, SqlModel, SqlSchema } from "effect/sql"
import { ApplicationId, ApplicationNotFound } from "../applications/domain.ts"
import { Change } from "../../audit/log/domain.ts"
import { Role, RoleId, RoleInUse, RoleNameTaken, RoleNotFound } from "./domain.ts"

export class RolesRepository extends Context.Service<
  RolesRepository,
  {
    get(id: RoleId): Effect.Effect<Role, RoleNotFound>
    /** The row locked FOR UPDATE until the transaction ends. */
    lock(id: RoleId): Effect.Effect<Role, RoleNotFound, Change>
    list(
      applicationId: ApplicationId | undefined,
      after: RoleId | undefined,
      limit: number
    ): Effect.Effect<ReadonlyArray<Role>>
    insert(role: typeof Role.insert.Type): Effect.Effect<Role, RoleNameTaken | ApplicationNotFound, Change>
    /** Inserts unless the application has a role of this name (none then), safe against concurrent inserts. */
    insertIfMissing(role: typeof Role.insert.Type): Effect.Effect<Option.Option<Role>, never, Change>
    update(role: typeof Role.update.Type): Effect.Effect<Role, RoleNameTaken, Change>
    delete(id: RoleId): Effect.Effect<void, RoleInUse, Change>
    /** Those of `ids` that the application has, locked FOR SHARE until the transaction ends. */
    lockShared(
      applicationId: ApplicationId,
      ids: ReadonlyArray<RoleId>
    ): Effect.Effect<ReadonlyArray<Role>, never, Change>
    findNamed(applicationId: ApplicationId, name: string): Effect.Effect<Option.Option<Role>>
  }
>()("app/roles/RolesRepository") {
  static readonly layer = Layer.effect(
    RolesRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const model = yield* SqlModel.makeRepository(Role, {
        tableName: "roles",
        spanPrefix: "RolesRepository",
        idColumn: "id"
      })

      const selectLocked = SqlSchema.findOneOption({
        Request: RoleId,
        Result: Role,
        execute: (id) => sql`SELECT * FROM roles WHERE id = ${id} FOR UPDATE`
      })
      const selectPage = SqlSchema.findAll({
        Request: Schema.Struct({
          applicationId: Schema.UndefinedOr(ApplicationId),
          after: Schema.Int,
          limit: Schema.Int
        }),
        Result: Role,
        execute: ({ after, applicationId, limit }) => sql`
          SELECT * FROM roles
          WHERE id > ${after} ${applicationId === undefined ? sql`` : sql`AND application_id = ${applicationId}`}
          ORDER BY id LIMIT ${limit}`
      })
      const selectShared = SqlSchema.findAll({
        Request: Schema.Struct({ applicationId: ApplicationId, ids: Schema.Array(RoleId) }),
        Result: Role,
        execute: ({ applicationId, ids }) => sql`
          SELECT * FROM roles WHERE application_id = ${applicationId} AND id = ANY(${ids}::integer[])
          ORDER BY id FOR SHARE`
      })
      const selectNamed = SqlSchema.findOneOption({
        Request: Schema.Struct({ applicationId: ApplicationId, name: Schema.String }),
        Result: Role,
        execute: ({ applicationId, name }) =>
          sql`SELECT * FROM roles WHERE application_id = ${applicationId} AND name = ${name}`
      })
      const insertUnlessTaken = SqlSchema.findOneOption({
        Request: Role.insert,
        Result: Role,
        execute: (row) =>
          sql`INSERT INTO roles ${sql.insert(row)} ON CONFLICT (application_id, name) DO NOTHING RETURNING *`
      })

      return RolesRepository.of({
        get: (id) =>
          model.findById(id).pipe(
            Effect.catchTags({
              NoSuchElementError: () => new RoleNotFound({}),
              SqlError: Effect.die,
              SchemaError: Effect.die
            })
          ),
        lock: Effect.fn("RolesRepository.lock")((id) =>
          Change.use(() =>
            Effect.flatMap(
              Effect.orDie(selectLocked(id)),
              Option.match({ onNone: () => Effect.fail(new RoleNotFound({})), onSome: (role) => Effect.succeed(role) })
            )
          )
        ),
        list: Effect.fn("RolesRepository.list")((applicationId, after, limit) =>
          Effect.orDie(selectPage({ applicationId, after: after ?? 0, limit }))
        ),
        insert: (role) =>
          Change.use(() =>
            model
              .insert(role)
              .pipe(
                Effect.catchReasons("SqlError", { UniqueViolation: nameTaken, ConstraintError: applicationGone }),
                Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
              )
          ),
        insertIfMissing: Effect.fn("RolesRepository.insertIfMissing")((role) =>
          Change.use(() =>
            Effect.flatMap(Effect.orDie(selectNamed(role)), (known) =>
              Option.isSome(known) ? Effect.succeedNone : Effect.orDie(insertUnlessTaken(role))
            )
          )
        ),
        update: (role) =>
          Change.use(() =>
            model
              .update(role)
              .pipe(
                Effect.catchReason("SqlError", "UniqueViolation", nameTaken),
                Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
              )
          ),
        delete: (id) =>
          Change.use(() =>
            model
              .delete(id)
              .pipe(
                Effect.catchReason("SqlError", "ConstraintError", inUse),
                Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
              )
          ),
        lockShared: Effect.fn("RolesRepository.lockShared")((applicationId, ids) =>
          Change.use(() => Effect.orDie(selectShared({ applicationId, ids })))
        ),
        findNamed: Effect.fn("RolesRepository.findNamed")((applicationId, name) =>
          Effect.orDie(selectNamed({ applicationId, name }))
        )
      })
    })
  )
}

const nameTaken = (reason: SqlError.UniqueViolation) =>
  reason.constraint === "roles_name" ? new RoleNameTaken({}) : Effect.die(reason)

const applicationGone = (reason: SqlError.ConstraintError) =>
  Predicate.hasProperty(reason.cause, "constraint") && reason.cause.constraint === "roles_application"
    ? new ApplicationNotFound({})
    : Effect.die(reason)

const inUse = (reason: SqlError.ConstraintError) =>
  Predicate.hasProperty(reason.cause, "constraint") && reason.cause.constraint === "account_roles_role"
    ? new RoleInUse({})
    : Effect.die(reason)
