import { Context, Effect, Hash, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { Base64Url } from "effect/encoding"
import { HttpServerRequest } from "effect/http"
import { withCanonicalUuids } from "../identifier.ts"
import { integerParameter } from "./parameter.ts"

/** The path of an address, and its parameters. */
export const partsOfUrl = (url: string): readonly [path: string, parameters: URLSearchParams] => {
  const [path = ""] = url.split("?", 1)
  return [path, new URLSearchParams(url.slice(path.length + 1))]
}

/** Identifies the list at an address: its path and its filters, without what differs from page to page. A cursor has its own sort. */
export const listAt = (url: string): string => {
  const [path, parameters] = partsOfUrl(url)
  for (const name of ["cursor", "limit", "sort"]) parameters.delete(name)
  parameters.sort()
  return (Hash.string(withCanonicalUuids(`${path}?${parameters}`)) >>> 0).toString(36)
}

/** The list of the request that is being served; undefined in a client. */
const currentList = Effect.withFiber(({ context }) => {
  const request = Context.getOrUndefined(context, HttpServerRequest.HttpServerRequest)
  return Effect.succeed(request === undefined ? undefined : listAt(request.url))
})

/**
 * An opaque keyset cursor: the list that it is of, and the sort key of the last row of a page, as base64url JSON. It has no
 * secret and grants nothing, so that only its form and its list are checked.
 */
export const cursor = <A, I>(key: Schema.Codec<A, I>) => {
  const fromJson = Schema.fromJsonString(Schema.Tuple([Schema.String, key]))
  const decodeJson = Schema.decodeEffect(fromJson)
  const encodeJson = Schema.encodeEffect(fromJson)
  const malformed = "a cursor of this list, from nextCursor or the Link header"
  const ofAnother =
    "a cursor of this list with these filters; that one is of another list, or was answered with other filters"
  return Schema.String.annotate({
    description: "Opaque; taken from nextCursor or the Link header of the page before",
    examples: ["NDI"]
  }).pipe(
    Schema.decodeTo(
      Schema.toType(key),
      SchemaTransformation.transformEffect({
        // Details of the fault would reveal a form that clients must not rely on.
        decode: (text, options) => {
          const refused = (expected: string) => new SchemaIssue.InvalidValue({ expected }, text, options)
          return Effect.fromResult(Base64Url.decodeString(text)).pipe(
            Effect.flatMap((json) => decodeJson(json)),
            Effect.mapError(() => refused(malformed)),
            Effect.flatMap(([of, position]) =>
              Effect.flatMap(currentList, (list) =>
                list === undefined || list === of ? Effect.succeed(position) : Effect.fail(refused(ofAnother))
              )
            )
          )
        },
        encode: (position) =>
          currentList.pipe(
            Effect.flatMap((list = "") => Effect.orDie(encodeJson([list, position]))),
            Effect.map((json) => Base64Url.encode(json))
          )
      })
    )
  )
}

/** `limit` of a bare array: 1 to 1000, default 1000. */
export const ArrayLimit = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 1000 })))
export const arrayLimitDefault = 1000

/** `limit` of a page with an envelope: 1 to 200, default 50. */
export const PageLimit = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 200 })))
export const pageLimitDefault = 50

/** The parameters of a list that is a bare array, whose rows are in the order of a key. */
export const arrayQuery = <A, I>(key: Schema.Codec<A, I>) => ({
  limit: Schema.optionalKey(integerParameter(ArrayLimit)),
  cursor: Schema.optionalKey(cursor(key))
})

/** The parameters of a list with an envelope. */
export const pageQuery = <Cursor extends Schema.Top>(position: Cursor) => ({
  limit: Schema.optionalKey(integerParameter(PageLimit)),
  cursor: Schema.optionalKey(position)
})

/** The envelope of every list that is not a bare array. */
export const page = <Item extends Schema.Top, Cursor extends Schema.Top>(item: Item, next: Cursor) =>
  Schema.Struct({
    items: Schema.Array(item),
    nextCursor: Schema.NullOr(next).annotate({
      component: "NextCursor",
      description: "Where the next page starts; null on the last"
    })
  })

/** One page of rows, and the key of the last one when there are more. */
export interface Slice<Row, Key> {
  readonly items: ReadonlyArray<Row>
  readonly nextCursor: Key | null
}

export const emptySlice = { items: [], nextCursor: null } as const

/** Makes a page of the result of a query for one row more than `limit`. */
export const slice = <Row, Key>(rows: ReadonlyArray<Row>, limit: number, keyOf: (row: Row) => Key): Slice<Row, Key> => {
  const last = rows[limit - 1]
  return rows.length <= limit || last === undefined
    ? { items: rows, nextCursor: null }
    : { items: rows.slice(0, limit), nextCursor: keyOf(last) }
}
