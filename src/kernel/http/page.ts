import { Effect, Schema, SchemaIssue, SchemaTransformation } from "effect"
import { Base64Url } from "effect/encoding"
import { integerParameter } from "./parameter.ts"

/**
 * An opaque keyset cursor: the sort key of the last row of a page, as base64url JSON. It has no secret and grants nothing,
 * so only its form is checked.
 */
export const cursor = <A, I>(key: Schema.Codec<A, I>) => {
  const fromJson = Schema.fromJsonString(key)
  const decodeJson = Schema.decodeEffect(fromJson)
  const encodeJson = Schema.encodeEffect(fromJson)
  const expected = "a cursor of this list, from nextCursor or the Link header"
  return Schema.String.annotate({
    description: "Opaque; taken from nextCursor or the Link header of the page before",
    examples: ["NDI"]
  }).pipe(
    Schema.decodeTo(
      Schema.toType(key),
      SchemaTransformation.transformEffect({
        // Details of the fault would reveal a form that clients must not rely on.
        decode: (text, options) =>
          Effect.fromResult(Base64Url.decodeString(text)).pipe(
            Effect.flatMap((json) => decodeJson(json)),
            Effect.mapError(() => new SchemaIssue.InvalidValue({ expected }, text, options))
          ),
        encode: (position) => Effect.map(Effect.orDie(encodeJson(position)), (json) => Base64Url.encode(json))
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
