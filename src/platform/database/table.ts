import { type Context, DateTime, Effect, type Option, Schema } from "effect"
import { type Model } from "effect/schema"
import { SqlClient, SqlError, SqlModel, SqlSchema } from "effect/sql"
import { type Listing, type ListRequest, type Place } from "../../kernel/http/listing.ts"
import { pageLimitDefault, type Slice } from "../../kernel/http/page.ts"
import { underFreeSlug } from "../../kernel/slug.ts"
import { withSpan } from "../../kernel/with-span.ts"
import { makeBatcher } from "./batcher.ts"
import { rowLock, violatedConstraint } from "./database.ts"
import { type ListSource, makeList } from "./list.ts"

type Problems = Readonly<Record<string, new (props: Record<never, never>) => unknown>>

/** Fails with the problem of the violated constraint, by its name (`*`: any other); every other failure is a defect. */
export const violations =
  <const P extends Problems>(problems?: P) =>
  <A, E, R>(statement: Effect.Effect<A, E, R>): Effect.Effect<A, InstanceType<P[keyof P]>, R> =>
    Effect.catch(statement, (error) => {
      const constraint = SqlError.isSqlError(error) ? violatedConstraint(error.reason) : undefined
      const Problem = typeof constraint === "string" ? (problems?.[constraint] ?? problems?.["*"]) : undefined
      return Problem === undefined ? Effect.die(error) : Effect.fail(new Problem({}) as InstanceType<P[keyof P]>)
    })

/** Reads the rows of a statement through a schema; whatever fails is a defect. */
export const readRows = <S extends Schema.Top & { readonly DecodingServices: never }>(row: S) => {
  const decode = Schema.decodeUnknownEffect(Schema.Array(row))
  return (statement: Effect.Effect<unknown, unknown>): Effect.Effect<ReadonlyArray<S["Type"]>> =>
    Effect.orDie(Effect.flatMap(statement, (rows) => decode(rows))) as Effect.Effect<ReadonlyArray<S["Type"]>>
}

/** A model whose rows have an `id`, which lists are ordered by. */
type Keyed = Model.Any & {
  readonly Type: { readonly id: string | number }
  readonly fields: { readonly id: Schema.Top }
  readonly update: { readonly Type: { readonly id: unknown } }
  readonly DecodingServices: never
}

/** Columns and the values that they must have; an undefined one is not compared. */
type Filter<Row> = { readonly [Column in keyof Row]?: Row[Column] | undefined }

const unsorted: Listing<never> = { sorts: {}, idType: "uuid", idOf: () => undefined, limitDefault: pageLimitDefault }

/**
 * The statements that nearly every table needs, in spans `<Repository>.<method>`. Those that write, or lock a row to write
 * it, require `permit`: the leave to write that comes with audit entries.
 */
export const makeTable = Effect.fnUntraced(function* <
  S extends Keyed,
  NotFound,
  Permit,
  Shape,
  const Inserts extends Problems = {},
  const Updates extends Problems = {},
  const Deletes extends Problems = {}
>(
  model: S,
  options: {
    readonly name: string
    readonly spanPrefix: string
    readonly notFound: new (props: Record<never, never>) => NotFound
    readonly permit: Context.Key<Permit, Shape>
    /** How the rows are listed; in the order of their ids alone when absent. */
    readonly list?: Pick<ListSource, "by" | "isDown" | "text"> & { readonly as: Listing<S["Type"]["id"]> }
    /** What each statement fails with when it violates a constraint; every other failure is a defect. */
    readonly violations?: { readonly insert?: Inserts; readonly update?: Updates; readonly delete?: Deletes }
    /** Reads concurrent `get`s in one statement; names the type of the ids. */
    readonly batchedBy?: "integer" | "uuid"
  }
) {
  type Row = S["Type"]
  const { batchedBy, name, notFound, permit, spanPrefix } = options
  const sql = yield* SqlClient.SqlClient
  const statements = yield* SqlModel.makeRepository(model, { tableName: name, spanPrefix, idColumn: "id" as never })
  const rows: (statement: Effect.Effect<unknown, unknown>) => Effect.Effect<ReadonlyArray<Row>> = readRows<Keyed>(model)
  const found = (row: Row | undefined): Effect.Effect<Row, NotFound> =>
    row === undefined ? Effect.fail(new notFound({})) : Effect.succeed(row)
  const one = (statement: Effect.Effect<unknown, unknown>) => Effect.flatMap(rows(statement), ([row]) => found(row))
  const conditions = (filter: Filter<Row>) =>
    Object.entries(filter).flatMap(([column, value]) =>
      value === undefined ? [] : [sql`${sql(column)} = ${value as string | number | boolean}`]
    )

  const batch =
    batchedBy === undefined
      ? undefined
      : yield* makeBatcher({
          maximum: 100,
          run: (ids: ReadonlyArray<Row["id"]>) =>
            Effect.map(
              rows(sql`SELECT * FROM ${sql(name)} WHERE id = ANY(${[...new Set(ids)]}::${sql.literal(batchedBy)}[])`),
              (some) => {
                const byId = new Map(some.map((row) => [row.id, row]))
                return ids.map((id) => byId.get(id))
              }
            )
        })

  const getOne = (id: Row["id"]): Effect.Effect<Row, NotFound> =>
    Effect.flatMap(rowLock(sql), (lock) => one(sql`SELECT * FROM ${sql(name)} WHERE id = ${id} ${lock}`))
  // What holds a connection must not wait for that of the batch.
  const get = (id: Row["id"]): Effect.Effect<Row, NotFound> =>
    Effect.flatMap(Effect.serviceOption(sql.transactionService), ({ _tag }) =>
      batch === undefined || _tag === "Some" ? getOne(id) : Effect.flatMap(batch.submit(id), found)
    )
  const getBy = (filter: Filter<Row>): Effect.Effect<Row, NotFound> =>
    Effect.flatMap(rowLock(sql), (lock) =>
      one(sql`SELECT * FROM ${sql(name)} WHERE ${sql.and(conditions(filter))} ${lock}`)
    )
  const page = makeList(sql, rows, options.list?.as ?? unsorted, {
    from: name,
    hasTenant: "tenantId" in model.fields,
    ...options.list
  })
  const list = (filter: Filter<Row>, request: ListRequest<Row["id"]>): Effect.Effect<Slice<Row, Place<Row["id"]>>> =>
    page(conditions(filter), request)
  const lock = (filter: Filter<Row>, mode: "UPDATE" | "NO KEY UPDATE" | "SHARE" = "UPDATE") =>
    Effect.andThen(
      permit,
      one(sql`SELECT * FROM ${sql(name)} WHERE ${sql.and(conditions(filter))} FOR ${sql.literal(mode)}`)
    )
  const touch = (column: keyof Row & string, times: ReadonlyArray<LastUse>): Effect.Effect<void> =>
    Effect.orDie(
      sql`
        UPDATE ${sql(name)} t SET ${sql(column)} = u.at
        FROM json_to_recordset(${JSON.stringify(
          times.map(({ at, id }) => ({ id, at: DateTime.formatIso(DateTime.makeUnsafe(at)) }))
        )}::json) AS u(id uuid, at timestamptz)
        WHERE t.id = u.id AND (t.${sql(column)} IS NULL OR t.${sql(column)} < u.at - interval '1 minute')`.pipe(
        Effect.asVoid
      )
    )

  return {
    get: batch === undefined ? withSpan(`${spanPrefix}.get`, get) : get,
    getBy: withSpan(`${spanPrefix}.getBy`, getBy),
    /** One page of the rows with these values. */
    list: withSpan(`${spanPrefix}.list`, list),
    /** The row, locked until the transaction of the change ends: `SHARE` to rely on it, else to change it. */
    lock: withSpan(`${spanPrefix}.lock`, lock),
    /**
     * Moves a time of many rows forward at once, of each at most once a minute: it is in an order of lists, so that each time
     * writes all indexes of the row. Use is no audit entry.
     */
    touch: withSpan(`${spanPrefix}.touch`, touch),
    insert: (row: S["insert"]["Type"]) =>
      Effect.andThen(permit, violations(options.violations?.insert)(statements.insert(row))),
    update: (row: S["update"]["Type"]) =>
      Effect.andThen(permit, violations(options.violations?.update)(statements.update(row))),
    delete: (id: Row["id"]) =>
      Effect.andThen(permit, violations(options.violations?.delete)(statements.delete(id as never)))
  }
})

/** Inserts under the first of `slugs` that is free, safe against concurrent inserts; fails where all are taken. */
export const makeSlugInsert = <S extends Model.Any, Taken, Permit, Shape>(
  model: S,
  options: {
    readonly name: string
    readonly spanPrefix: string
    readonly taken: new (props: Record<never, never>) => Taken
    readonly permit: Context.Key<Permit, Shape>
  }
) =>
  Effect.map(SqlClient.SqlClient, (sql) => {
    const { name, permit, spanPrefix, taken } = options
    const selectFree = SqlSchema.findOneOption({
      Request: Schema.Array(Schema.String),
      Result: Schema.Struct({ slug: Schema.String }),
      execute: (slugs) => sql`
        SELECT slug FROM unnest(${slugs}::text[]) WITH ORDINALITY AS wanted(slug, place)
        WHERE NOT EXISTS (SELECT FROM ${sql(name)} t WHERE t.slug = wanted.slug)
        ORDER BY place LIMIT 1`
    })
    const insertUnlessTaken = SqlSchema.findOneOption({
      Request: model.insert,
      Result: model,
      execute: (row) =>
        sql`INSERT INTO ${sql(name)} ${sql.insert(row as never)} ON CONFLICT (slug) DO NOTHING RETURNING *`
    })
    return withSpan(`${spanPrefix}.insertUnderFree`, (row: S["insert"]["Type"], slugs: ReadonlyArray<string>) =>
      underFreeSlug(slugs, {
        free: (wanted) => Effect.orDie(selectFree(wanted)),
        insert: (slug) =>
          Effect.orDie(insertUnlessTaken({ ...(row as object), slug } as never)) as Effect.Effect<
            Option.Option<S["Type"]>
          >
      }).pipe(
        Effect.flatMap((inserted) => Effect.fromOption(inserted)),
        Effect.mapError(() => new taken({})),
        (inserted) => Effect.andThen(permit, inserted)
      )
    )
  })

/** When a row was last used, in milliseconds since 1970. */
export interface LastUse {
  readonly id: string
  readonly at: number
}
