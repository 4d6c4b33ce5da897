import { Predicate, Schema, SchemaTransformation } from "effect"

/** Text in a path, query or header, which the OpenAPI document describes by what it means. */
const spelled = (meant: Schema.Top, pattern: RegExp, expected: string) =>
  Schema.declare(Predicate.isString, { expected: "string", toCodecStringTree: () => undefined }).pipe(
    Schema.check(
      Schema.isPattern(pattern, {
        expected,
        toJsonSchema: () => Schema.toJsonSchemaDocument(Schema.toType(meant)).schema
      })
    )
  )

/** An integer: plain decimal digits, so `1e3`, `+1`, `01` and `1.0` are no ids. */
export const integerParameter = <S extends Schema.Codec<number, number>>(schema: S) =>
  spelled(schema, /^(?:0|-?[1-9]\d{0,15})$/u, "an integer in decimal digits").pipe(
    Schema.decodeTo(schema, SchemaTransformation.transform({ decode: Number, encode: String }))
  )

/** A number in decimal digits, with a point where it has decimals. */
export const numberParameter = <S extends Schema.Codec<unknown, number>>(schema: S) =>
  spelled(Schema.toEncoded(schema), /^(?:0|[1-9]\d{0,15})(?:\.\d{1,9})?$/u, "a number in decimal digits").pipe(
    Schema.decodeTo(schema, SchemaTransformation.transform({ decode: Number, encode: String }))
  )

/** Several values in one parameter, from one up to a number, with commas between them. */
export const listParameter = <Item extends Schema.Codec<unknown, string>>(
  item: Item,
  max: number,
  documentation: { readonly description: string; readonly examples: readonly [string] }
) =>
  Schema.NonEmptyString.annotate(documentation).pipe(
    Schema.decodeTo(
      Schema.Array(item).pipe(Schema.check(Schema.isMaxLength(max))),
      SchemaTransformation.transform({
        // One too many is a fault, and those behind it need none of their own.
        decode: (text): ReadonlyArray<string> => text.split(",", max + 1),
        encode: (texts) => texts.join(",")
      })
    )
  )

export const booleanParameter = spelled(Schema.Boolean, /^(?:true|false)$/u, '"true" | "false"').pipe(
  Schema.decodeTo(Schema.Boolean, SchemaTransformation.transform({ decode: (text) => text === "true", encode: String }))
)
