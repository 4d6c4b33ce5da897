import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlModel, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { underFreeSlug } from "../../kernel/slug.ts"
import {
  Application,
  ApplicationId,
  ApplicationInUse,
  ApplicationNotFound,
  ApplicationSlugTaken,
  ApplicationStatus
} from "./domain.ts"

export class ApplicationsRepository extends Context.Service<
  ApplicationsRepository,
  {
    get(id: ApplicationId): Effect.Effect<Application, ApplicationNotFound>
    getBySlug(slug: string): Effect.Effect<Application, ApplicationNotFound>
    /** The row locked until the transaction ends: FOR UPDATE to change it, FOR SHARE to rely on it. */
    lock(id: ApplicationId, mode: "UPDATE" | "SHARE"): Effect.Effect<Application, ApplicationNotFound, Change>
    list(
      status: ApplicationStatus | undefined,
      after: ApplicationId | undefined,
      limit: number
    ): Effect.Effect<ReadonlyArray<Application>>
    insert(application: typeof Application.insert.Type): Effect.Effect<Application, ApplicationSlugTaken, Change>
    /** Inserts under the first of `slugs` that no application has, safe against concurrent inserts. */
    insertUnderFree(
      application: typeof Application.insert.Type,
      slugs: ReadonlyArray<string>
    ): Effect.Effect<Application, ApplicationSlugTaken, Change>
    update(application: typeof Application.update.Type): Effect.Effect<Application, ApplicationSlugTaken, Change>
    delete(id: ApplicationId): Effect.Effect<void, ApplicationInUse, Change>
  }
>()("app/applications/ApplicationsRepository") {
  static readonly layer = Layer.effect(
    ApplicationsRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const model = yield* SqlModel.makeRepository(Application, {
        tableName: "applications",
        spanPrefix: "ApplicationsRepository",
        idColumn: "id"
      })

      const selectLocked = (mode: "UPDATE" | "SHARE") =>
        SqlSchema.findOneOption({
          Request: ApplicationId,
          Result: Application,
          execute: (id) => sql`SELECT * FROM applications WHERE id = ${id} FOR ${sql.literal(mode)}`
        })
      const locked = { UPDATE: selectLocked("UPDATE"), SHARE: selectLocked("SHARE") }
      const selectBySlug = SqlSchema.findOneOption({
        Request: Schema.String,
        Result: Application,
        execute: (slug) => sql`SELECT * FROM applications WHERE slug = ${slug}`
      })
      const selectPage = SqlSchema.findAll({
        Request: Schema.Struct({
          status: Schema.UndefinedOr(ApplicationStatus),
          after: Schema.Int,
          limit: Schema.Int
        }),
        Result: Application,
        execute: ({ after, limit, status }) => sql`
          SELECT * FROM applications
          WHERE id > ${after} ${status === undefined ? sql`` : sql`AND status = ${status}`}
          ORDER BY id LIMIT ${limit}`
      })
      const selectFree = SqlSchema.findOneOption({
        Request: Schema.Array(Schema.String),
        Result: Schema.Struct({ slug: Schema.String }),
        execute: (slugs) => sql`
          SELECT slug FROM unnest(${slugs}::text[]) WITH ORDINALITY AS wanted(slug, place)
          WHERE NOT EXISTS (SELECT FROM applications WHERE applications.slug = wanted.slug)
          ORDER BY place LIMIT 1`
      })
      const insertUnlessTaken = SqlSchema.findOneOption({
        Request: Application.insert,
        Result: Application,
        execute: (row) => sql`INSERT INTO applications ${sql.insert(row)} ON CONFLICT (slug) DO NOTHING RETURNING *`
      })

      const found = Effect.flatMap(
        Option.match({
          onNone: () => Effect.fail(new ApplicationNotFound({})),
          onSome: (application: Application) => Effect.succeed(application)
        })
      )
      const slugTaken = <A, R>(effect: Effect.Effect<A, Effect.Error<ReturnType<typeof model.insert>>, R>) =>
        Change.use(() =>
          effect.pipe(
            Effect.catchReason("SqlError", "UniqueViolation", (reason) =>
              reason.constraint === "applications_slug" ? new ApplicationSlugTaken({}) : Effect.die(reason)
            ),
            Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
          )
        )

      const insertUnderFree = Effect.fn("ApplicationsRepository.insertUnderFree")(function* (
        application: typeof Application.insert.Type,
        slugs: ReadonlyArray<string>
      ) {
        yield* Change
        const inserted = yield* underFreeSlug(slugs, {
          free: (wanted) => Effect.orDie(selectFree(wanted)),
          insert: (slug) => Effect.orDie(insertUnlessTaken({ ...application, slug }))
        })
        return Option.isSome(inserted) ? inserted.value : yield* new ApplicationSlugTaken({})
      })

      return ApplicationsRepository.of({
        get: (id) =>
          model.findById(id).pipe(
            Effect.catchTags({
              NoSuchElementError: () => new ApplicationNotFound({}),
              SqlError: Effect.die,
              SchemaError: Effect.die
            })
          ),
        getBySlug: Effect.fn("ApplicationsRepository.getBySlug")((slug) => found(Effect.orDie(selectBySlug(slug)))),
        lock: Effect.fn("ApplicationsRepository.lock")((id, mode) =>
          Change.use(() => found(Effect.orDie(locked[mode](id))))
        ),
        list: Effect.fn("ApplicationsRepository.list")((status, after, limit) =>
          Effect.orDie(selectPage({ status, after: after ?? 0, limit }))
        ),
        insert: (application) => slugTaken(model.insert(application)),
        insertUnderFree,
        update: (application) => slugTaken(model.update(application)),
        delete: (id) =>
          Change.use(() =>
            model.delete(id).pipe(
              // Deleting a row breaks no constraint but the references to it, whatever their names.
              Effect.catchReason("SqlError", "ConstraintError", () => new ApplicationInUse({})),
              Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
            )
          )
      })
    })
  )
}
