import { DateTime, Schema } from "effect"
import { Instant } from "../instant.ts"
import { described, name, storable } from "../text.ts"
import { arrayLimitDefault, ArrayLimit, cursor, PageLimit, pageLimitDefault } from "./page.ts"
import { integerParameter, listParameter } from "./parameter.ts"

/**
 * What a list can be sorted by: a moment, that of a use which there may not have been (before all others then), text as people
 * sort names, or `id`, for ids that are in the order of the member.
 */
export type SortKind = "id" | "moment" | "text" | "use"

/** The place of a row in a list: its id in the order of ids, else the sort with the row's value before it. */
export type Place<Id> = Id | readonly [sort: string, value: string, id: Id]

/** Which part of a list is wanted, and in which order. */
export interface ListRequest<Id> {
  /** The ids of the rows that alone are wanted. */
  readonly ids?: ReadonlyArray<Id>
  readonly search?: string
  /** A member to sort by, with `-` before it for descending; absent for the order of the list itself. */
  readonly sort?: string
  readonly createdFrom?: DateTime.Utc
  readonly createdTo?: DateTime.Utc
  readonly cursor?: Place<Id>
  readonly limit?: number
}

/** How a list can be searched, sorted and paged: what its API declares, and what its repository carries out. */
export interface Listing<Id> {
  readonly sorts: Readonly<Record<string, SortKind>>
  readonly idType: "integer" | "uuid"
  /** The id that a search may mean. */
  readonly idOf: (search: string) => Id | undefined
  readonly limitDefault: number
}

// Texts in an index of PostgreSQL are shorter than that.
const SortText = storable(Schema.String.pipe(Schema.check(Schema.isMaxLength(8192))))
/** Microseconds since 1970, up to the year 9999. */
const SortMoment = Schema.String.pipe(
  Schema.check(Schema.isPattern(/^(?:0|[1-9]\d{0,16}|[12]\d{17})$/u, { expected: "microseconds since 1970" }))
)
const sortValues = { id: Schema.Literal(""), moment: SortMoment, text: SortText, use: SortMoment } as const

const SearchText = name(200, { component: "SearchText", examples: ["ada"] })
const maxIds = 100

/** The order that a cursor belongs to; undefined for that of the list itself. */
const sortOf = (cursor: unknown): unknown => (Array.isArray(cursor) ? cursor[0] : undefined)

const cursorFitsSort = Schema.makeFilter(({ cursor, sort }: { readonly cursor?: unknown; readonly sort?: unknown }) =>
  cursor === undefined || sortOf(cursor) === sort
    ? undefined
    : {
        path: ["cursor"],
        issue: `The cursor is of a list ${sortOf(cursor) === undefined ? "without sort" : `with sort=${String(sortOf(cursor))}`}: send it with the same sort`
      }
)

const created = { createdFrom: Schema.optionalKey(Instant), createdTo: Schema.optionalKey(Instant) }

const endsAfterStart = Schema.makeFilter(
  ({ createdFrom, createdTo }: { readonly createdFrom?: DateTime.Utc; readonly createdTo?: DateTime.Utc }) =>
    createdFrom === undefined || createdTo === undefined || DateTime.isLessThan(createdFrom, createdTo)
      ? undefined
      : { path: ["createdFrom"], issue: "Expected a moment before `createdTo`" }
)

/** Declares how a list is searched, sorted and paged, by its ids and the members that it can be sorted by. */
export const listing = <Id extends string | number, const Sorts extends Readonly<Record<string, SortKind>>>(
  id: Schema.Codec<Id, string | number>,
  sorts: Sorts,
  {
    isArray = false,
    searches
  }: {
    readonly isArray?: boolean
    /** What a search looks into. */
    readonly searches: string
  }
) => {
  type Sort = (keyof Sorts & string) | `-${keyof Sorts & string}`
  const names = Object.keys(sorts).flatMap((sort) => [sort, `-${sort}`]) as unknown as readonly [Sort, ...Array<Sort>]
  const places = Object.entries(sorts).map(([sort, kind]) =>
    Schema.Tuple([Schema.Literals([sort, `-${sort}`]), sortValues[kind], id])
  )
  const position = cursor(Schema.Union([id, ...places]) as Schema.Codec<Place<Id>, unknown>)
  const isId = Schema.is(id)
  const idType = isId(1) ? "integer" : "uuid"
  const idText = (idType === "integer" ? integerParameter(id as never) : id) as Schema.Codec<Id, string>
  const parameters = {
    ids: Schema.optionalKey(
      listParameter(idText, maxIds, {
        description: `The rows with these ids alone: at most ${maxIds}, with commas between them`,
        examples: [idType === "integer" ? "7,42" : "0198a5b0-7c00-7000-8000-00000000002a"]
      })
    ),
    search: Schema.optionalKey(
      described(SearchText, {
        description: `Text in ${searches}, without regard to case, or the whole id; a page may be short although the next one has more`
      })
    ),
    sort: Schema.optionalKey(
      Schema.Literals(names).annotate({
        description: "The member to sort by, with `-` before it for descending; a cursor is of one order",
        examples: [names[1]] as never
      })
    ),
    ...(("createdAt" in sorts ? created : {}) as typeof created),
    limit: Schema.optionalKey(integerParameter(isArray ? ArrayLimit : PageLimit)),
    cursor: Schema.optionalKey(position)
  }
  return {
    sorts,
    idType,
    idOf: (search: string): Id | undefined => {
      const wanted: unknown =
        idType === "uuid" ? search.toLowerCase() : /^\d{1,10}$/u.test(search) ? Number(search) : undefined
      return isId(wanted) ? wanted : undefined
    },
    limitDefault: isArray ? arrayLimitDefault : pageLimitDefault,
    position,
    /** The parameters of the list, with its filters. */
    query: <Filters extends Schema.Struct.Fields>(filters: Filters) =>
      Schema.Struct({ ...filters, ...parameters }).pipe(
        Schema.check(cursorFitsSort, endsAfterStart)
      ) as unknown as Schema.Struct<Filters & typeof parameters>
  } as const
}
