import { DateTime, Effect } from "effect"
import { type SqlClient, type Statement } from "effect/sql"
import { type Listing, type ListRequest, type Place, type SortKind } from "../../kernel/http/listing.ts"
import { type Slice } from "../../kernel/http/page.ts"
import { planningWithout, tenantInScope } from "./database.ts"

/** How many rows a search reads in the order of the list: before it asks the index, and after that. */
const walks = { near: 1_500, far: 3_000 } as const
/** The index answers a search alone where it finds no more rows than that; a walk soon meets what is more frequent. */
const maxFound = 2_000
/** The index reads all that it finds, of other tenants too: it is not asked where the planner expects more rows than that. */
const maxEstimated = 2 * maxFound

/** The column with an index of its trigrams that a search looks into. */
export const indexedText = "t.search_text"

/** The rows of a list, as a table or a view has them, and how they are searched. */
export interface ListSource {
  readonly from: string
  /** What is read of a row `t`; all of it when absent. */
  readonly columns?: string
  /** Whether rows belong to tenants, by `tenant_id`. */
  readonly hasTenant: boolean
  /** Whether the list itself begins with the highest id. */
  readonly isDown?: boolean
  /** The expressions of sorts that are not the columns of their names. */
  readonly by?: Readonly<Record<string, string>>
  /** What a search looks into, in lower case. */
  readonly text?: string
  /** Finds rows `t` that refer to what has the searched text. */
  readonly mentions?: (pattern: Statement.Fragment) => Statement.Fragment
}

interface Order {
  /** As a request names it; undefined for the order of ids. */
  readonly sort: string | undefined
  readonly kind: SortKind
  readonly than: Statement.Fragment
  readonly column: Statement.Fragment
  readonly ordered: Statement.Fragment
  /** Where a row is, as a cursor has it: moments are exact to the microsecond. */
  readonly place: Statement.Fragment
  /** Both behind a subquery that has `list_id` and `list_order`. */
  readonly reordered: Statement.Fragment
  readonly replaced: Statement.Fragment
}

/** Where a row is in an order. */
interface Placed<Id> {
  readonly listId: Id
  readonly listValue: string
}

const columnOf = (member: string) => `t.${member.replaceAll(/[A-Z]/gu, (letter) => `_${letter.toLowerCase()}`)}`

// Whether characters of other scripts are letters depends on the locale of the database.
const hasTrigram = (search: string) => /[a-z0-9]{3}/iu.test(search)

/** The pattern of LIKE for texts that contain a search; a capital sigma is that of two small letters. */
export const containing = (search: string): string =>
  `%${search.replaceAll(/[\\%_]/gu, String.raw`\$&`).replaceAll(/[Σσς]/gu, "_")}%`

const orderBy = (
  sql: SqlClient.SqlClient,
  sort: string | undefined,
  kind: SortKind,
  column: string,
  isDown: boolean
) => {
  const direction = isDown ? "DESC" : "ASC"
  const readPlace = (id: string, by: string) =>
    sql.literal(`${id} AS list_id, ${kind === "id" ? "''" : kind === "text" ? by : microseconds(by)} AS list_value`)
  const order: Order = {
    sort,
    kind,
    than: sql.literal(isDown ? "<" : ">"),
    column: sql.literal(column),
    place: readPlace("t.id", column),
    replaced: readPlace("t.list_id", "t.list_order"),
    ordered: sql.literal(kind === "id" ? `t.id ${direction}` : `${column} ${direction}, t.id ${direction}`),
    reordered: sql.literal(`t.list_order ${direction}, t.list_id ${direction}`)
  }
  return order
}

/** Where a row is in an order, as a cursor has it. */
const placeOf = <Id>({ sort }: Order, { listId, listValue }: Placed<Id>): Place<Id> =>
  sort === undefined ? listId : [sort, listValue, listId]

const microseconds = (column: string) => `(extract(epoch FROM ${column}) * 1000000)::bigint::text`

const expressions: Readonly<Record<SortKind, (column: string) => string>> = {
  id: () => "t.id",
  moment: (column) => column,
  // As people sort names, in the order of the indexes; the database's own locale may sort by code points.
  text: (column) => `${column} COLLATE "und-x-icu"`,
  // As coalesce(), which row-level security takes for leaking, and so would only compare once it has read the row.
  use: (column) => `CASE WHEN ${column} IS NULL THEN 'epoch' ELSE ${column} END`
}

/**
 * Reads rows in the order of an index. The planner takes row-level security to show one row of a hundred, and would read and
 * sort all rows to find the first of these.
 */
export const inIndexOrder = <A, E, R>(
  sql: SqlClient.SqlClient,
  reading: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> => planningWithout(sql, "enable_sort", reading)

/**
 * Reads pages of a list in each of its orders. By keyset, so that no page costs more than the first; and a search reads a
 * bounded number of rows, whatever it is for: at the bound its page ends, and the next one goes on there.
 */
export const makeList = <Row, Id extends string | number>(
  sql: SqlClient.SqlClient,
  read: (rows: Effect.Effect<unknown, unknown>) => Effect.Effect<ReadonlyArray<Row>>,
  { idOf, idType, limitDefault, sorts }: Listing<Id>,
  { by = {}, columns = "t.*", from, hasTenant, isDown = false, mentions, text = "''" }: ListSource
) => {
  const table = sql.literal(`${from} t`)
  const all = sql.literal(columns)
  const ids = sql.literal(`${idType}[]`)
  const searched = sql.literal(text)
  const byId = orderBy(sql, undefined, "id", "t.id", isDown)
  const orders = new Map(
    Object.entries(sorts).flatMap(([sort, kind]) => {
      const column = by[sort] ?? expressions[kind](columnOf(sort))
      return [
        [sort, orderBy(sql, sort, kind, column, false)],
        [`-${sort}`, orderBy(sql, `-${sort}`, kind, column, true)]
      ]
    })
  )

  const behind = ({ column, kind, than }: Order, cursor: Place<Id>) => {
    const [, value, id] = Array.isArray(cursor) ? (cursor as readonly [string, string, Id]) : ["", "", cursor as Id]
    if (kind === "id") return sql`t.id ${than} ${id}`
    const at =
      kind === "text" ? sql`${value}::text` : sql`'epoch'::timestamptz + ${value}::bigint * interval '1 microsecond'`
    return sql`(${column}, t.id) ${than} (${at}, ${id}::${sql.literal(idType)})`
  }

  const places = (statement: Effect.Effect<unknown, unknown>) =>
    Effect.orDie(statement) as Effect.Effect<ReadonlyArray<Placed<Id>>>

  /** The rows among the first `most` that a search finds; where these are not enough, also the last row of them. */
  const walk = Effect.fnUntraced(function* (
    { column, ordered, reordered, replaced }: Order,
    where: Statement.Fragment,
    isFound: Statement.Fragment,
    limit: number,
    most: number
  ) {
    // A plan that is kept for later would take the index that suits large tenants for small ones too.
    const rows = (yield* places(
      sql`
      SELECT ${replaced}, t.is_found, t.nth::integer AS nth FROM (
        SELECT t.*, row_number() OVER (ORDER BY ${reordered}) AS nth FROM (
          SELECT t.id AS list_id, ${column} AS list_order, ${isFound} AS is_found
          FROM ${table} WHERE ${where} ORDER BY ${ordered} LIMIT ${most}) t) t
      WHERE t.is_found OR t.nth = ${most} ORDER BY ${reordered} LIMIT ${limit}`.unprepared
    )) as ReadonlyArray<Placed<Id> & { readonly isFound: boolean; readonly nth: number }>
    return { found: rows.filter((row) => row.isFound), end: rows.find((row) => row.nth === most) }
  })

  const inOrder = <A>(search: Effect.Effect<A>): Effect.Effect<A> => (hasTenant ? inIndexOrder(sql, search) : search)

  /** The rows whose text has the pattern, by the index; undefined where these are so many that a walk soon meets some. */
  const findIndexed = Effect.fnUntraced(function* (pattern: Statement.Fragment) {
    const [estimate] = (yield* Effect.orDie(
      sql`SELECT search_estimate(${from}, ${pattern}) AS rows`
    )) as unknown as ReadonlyArray<{ readonly rows: number }>
    if (estimate === undefined || estimate.rows > maxEstimated) return undefined
    const most = maxFound + 1
    // Row-level security is checked before a comparison of texts, but in a function that checks it itself.
    const matches = yield* places(
      hasTenant
        ? sql`SELECT id AS list_id FROM search_list(${from}, ${pattern}, ${most}) AS id`
        : sql`SELECT t.id AS list_id FROM ${table} WHERE ${searched} LIKE ${pattern} LIMIT ${most}`
    )
    return matches.length < most ? matches.filter(({ listId }) => (listId as unknown) !== null) : undefined
  })

  /** At most `limit` rows that a search finds; where there may be more behind a row, also that row. */
  const find = Effect.fnUntraced(function* (search: string, order: Order, where: Statement.Fragment, limit: number) {
    const pattern = sql`lower(${containing(search)})`
    const id = idOf(search)
    if (id !== undefined) {
      const identified = yield* places(sql`SELECT ${order.place} FROM ${table} WHERE ${where} AND t.id = ${id}`)
      if (identified.length > 0) return { found: identified, end: undefined }
    }
    const isFound = sql`(${searched} LIKE ${pattern}${mentions === undefined ? sql`` : sql` OR ${mentions(pattern)}`})`
    const near = yield* walk(order, where, isFound, limit, walks.near)
    if (near.end === undefined || near.found.length === limit) return near
    const isFrequent = near.found.length * (walks.near + walks.far) >= limit * walks.near
    if (text === indexedText && hasTrigram(search) && !isFrequent) {
      const matches = yield* findIndexed(pattern)
      if (matches !== undefined) {
        const found = yield* places(sql`
          SELECT ${order.replaced} FROM unnest(${matches.map(({ listId }) => listId)}::${ids}) wanted (id)
          CROSS JOIN LATERAL (
            SELECT t.id AS list_id, ${order.column} AS list_order FROM ${table}
            WHERE t.id = wanted.id AND ${where} OFFSET 0) t
          ORDER BY ${order.reordered} LIMIT ${limit}`)
        return { found, end: undefined }
      }
    }
    const beyond = sql`${where} AND ${behind(order, placeOf(order, near.end))}`
    const far = yield* walk(order, beyond, isFound, limit - near.found.length, walks.far)
    return { found: [...near.found, ...far.found], end: far.end }
  })

  return Effect.fnUntraced(function* (
    filters: ReadonlyArray<Statement.Fragment>,
    { createdFrom, createdTo, cursor, ids: wanted, limit = limitDefault, search, sort }: ListRequest<Id>,
    shown: Statement.Fragment = all
  ) {
    const order = orders.get(sort ?? "") ?? byId
    const { ordered, place } = order
    const tenantId = hasTenant ? yield* tenantInScope : undefined
    const where = sql.and([
      sql`true`,
      ...filters,
      ...(tenantId === undefined ? [] : [sql`t.tenant_id = ${tenantId}`]),
      ...(wanted === undefined ? [] : [sql`t.id = ANY(${wanted}::${ids})`]),
      ...(createdFrom === undefined ? [] : [sql`t.created_at >= ${DateTime.toDateUtc(createdFrom)}`]),
      ...(createdTo === undefined ? [] : [sql`t.created_at < ${DateTime.toDateUtc(createdTo)}`]),
      ...(cursor === undefined ? [] : [behind(order, cursor)])
    ])
    const { end, found } =
      search === undefined
        ? {
            found: yield* places(
              sql`SELECT ${shown}, ${place} FROM ${table} WHERE ${where} ORDER BY ${ordered} LIMIT ${limit + 1}`
            ),
            end: undefined
          }
        : yield* inOrder(find(search.trim(), order, where, limit + 1))
    const last = found.length > limit ? found[limit - 1] : end
    const items = yield* read(
      search === undefined
        ? Effect.succeed(found.slice(0, limit))
        : sql`SELECT ${shown} FROM ${table} WHERE t.id = ANY(${found.slice(0, limit).map(({ listId }) => listId)}::${ids}) ORDER BY ${ordered}`
    )
    const page: Slice<Row, Place<Id>> = {
      items,
      nextCursor: last === undefined ? null : placeOf(order, last)
    }
    return page
  })
}
