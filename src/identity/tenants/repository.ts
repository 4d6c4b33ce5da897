import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlModel, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { makeBatcher } from "../../platform/database/batcher.ts"
import { underFreeSlug } from "../../kernel/slug.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Tenant, TenantNotFound, TenantSlugTaken, TenantStatus } from "./domain.ts"

export class TenantsRepository extends Context.Service<
  TenantsRepository,
  {
    get(id: TenantId): Effect.Effect<Tenant, TenantNotFound>
    readonly defaultId: Effect.Effect<TenantId>
    /** The row locked FOR UPDATE until the transaction ends. */
    lock(id: TenantId): Effect.Effect<Tenant, TenantNotFound, Change>
    list(
      status: TenantStatus | undefined,
      after: TenantId | undefined,
      limit: number
    ): Effect.Effect<ReadonlyArray<Tenant>>
    insert(tenant: typeof Tenant.insert.Type): Effect.Effect<Tenant, TenantSlugTaken, Change>
    /** Inserts under the first of `slugs` that no tenant has, safe against concurrent inserts. */
    insertUnderFree(
      tenant: typeof Tenant.insert.Type,
      slugs: ReadonlyArray<string>
    ): Effect.Effect<Tenant, TenantSlugTaken, Change>
    update(tenant: typeof Tenant.update.Type): Effect.Effect<Tenant, TenantSlugTaken, Change>
  }
>()("app/tenants/TenantsRepository") {
  static readonly layer = Layer.effect(
    TenantsRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const model = yield* SqlModel.makeRepository(Tenant, {
        tableName: "tenants",
        spanPrefix: "TenantsRepository",
        idColumn: "id"
      })

      const selectSome = SqlSchema.findAll({
        Request: Schema.Array(TenantId),
        Result: Tenant,
        execute: (ids) => sql`SELECT * FROM tenants WHERE id = ANY(${ids}::uuid[])`
      })
      const batcher = yield* makeBatcher({
        maximum: 100,
        run: (ids: ReadonlyArray<TenantId>) =>
          Effect.map(Effect.orDie(selectSome([...new Set(ids)])), (tenants) => {
            const byId = new Map(tenants.map((tenant) => [tenant.id, tenant]))
            return ids.map((id) => byId.get(id))
          })
      })
      const selectLocked = SqlSchema.findOneOption({
        Request: TenantId,
        Result: Tenant,
        execute: (id) => sql`SELECT * FROM tenants WHERE id = ${id} FOR UPDATE`
      })
      const selectPage = SqlSchema.findAll({
        Request: Schema.Struct({
          status: Schema.UndefinedOr(TenantStatus),
          after: Schema.UndefinedOr(TenantId),
          limit: Schema.Int
        }),
        Result: Tenant,
        execute: ({ after, limit, status }) => sql`
          SELECT * FROM tenants
          WHERE ${sql.and([
            ...(status === undefined ? [] : [sql`status = ${status}`]),
            ...(after === undefined ? [] : [sql`id > ${after}`])
          ])}
          ORDER BY id LIMIT ${limit}`
      })
      const selectDefault = SqlSchema.findOne({
        Request: Schema.Void,
        Result: Schema.Struct({ id: TenantId }),
        execute: () => sql`SELECT id FROM tenants WHERE slug = 'default'`
      })
      const selectFree = SqlSchema.findOneOption({
        Request: Schema.Array(Schema.String),
        Result: Schema.Struct({ slug: Schema.String }),
        execute: (slugs) => sql`
          SELECT slug FROM unnest(${slugs}::text[]) WITH ORDINALITY AS wanted(slug, place)
          WHERE NOT EXISTS (SELECT FROM tenants WHERE tenants.slug = wanted.slug)
          ORDER BY place LIMIT 1`
      })
      const insertUnlessTaken = SqlSchema.findOneOption({
        Request: Tenant.insert,
        Result: Tenant,
        execute: (row) => sql`INSERT INTO tenants ${sql.insert(row)} ON CONFLICT (slug) DO NOTHING RETURNING *`
      })

      const slugTaken = <A, R>(effect: Effect.Effect<A, Effect.Error<ReturnType<typeof model.insert>>, R>) =>
        Change.use(() =>
          effect.pipe(
            Effect.catchReason("SqlError", "UniqueViolation", (reason) =>
              reason.constraint === "tenants_slug_key" ? new TenantSlugTaken({}) : Effect.die(reason)
            ),
            Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die })
          )
        )

      const insertUnderFree = Effect.fn("TenantsRepository.insertUnderFree")(function* (
        tenant: typeof Tenant.insert.Type,
        slugs: ReadonlyArray<string>
      ) {
        yield* Change
        const inserted = yield* underFreeSlug(slugs, {
          free: (wanted) => Effect.orDie(selectFree(wanted)),
          insert: (slug) => Effect.orDie(insertUnlessTaken({ ...tenant, slug }))
        })
        return Option.isSome(inserted) ? inserted.value : yield* new TenantSlugTaken({})
      })

      return TenantsRepository.of({
        get: (id) =>
          Effect.filterOrFail(
            batcher.submit(id),
            (tenant) => tenant !== undefined,
            () => new TenantNotFound({})
          ),
        lock: Effect.fn("TenantsRepository.lock")((id) =>
          Change.use(() =>
            Effect.flatMap(
              Effect.orDie(selectLocked(id)),
              Option.match({
                onNone: () => Effect.fail(new TenantNotFound({})),
                onSome: (tenant) => Effect.succeed(tenant)
              })
            )
          )
        ),
        list: Effect.fn("TenantsRepository.list")((status, after, limit) =>
          Effect.orDie(selectPage({ status, after, limit }))
        ),
        defaultId: Effect.orDie(Effect.map(selectDefault(undefined), ({ id }) => id)),
        insert: (tenant) => slugTaken(model.insert(tenant)),
        insertUnderFree,
        update: (tenant) => slugTaken(model.update(tenant))
      })
    })
  )
}
