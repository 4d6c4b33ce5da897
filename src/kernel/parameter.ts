import { Schema, SchemaTransformation } from "effect"

/** An integer as it stands in a path or query: plain decimal digits, so `1e3`, `+1`, `01` and `1.0` are no ids. */
export const integerParameter = <S extends Schema.Codec<number, number>>(schema: S) =>
  Schema.String.pipe(
    Schema.check(Schema.isPattern(/^(?:0|-?[1-9]\d{0,15})$/u, { expected: "an integer in decimal digits" })),
    Schema.decodeTo(schema, SchemaTransformation.transform({ decode: Number, encode: String }))
  )
