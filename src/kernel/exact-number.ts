import { BigDecimal, Schema, SchemaTransformation } from "effect"

// In the language since ES2026, and in its library's types some day.
declare global {
  interface JSON {
    rawJSON(text: string): object
    isRawJSON(value: unknown): value is object
  }
}

const isNumber = Schema.makeFilter((value: unknown) => typeof value === "number" || JSON.isRawJSON(value), {
  expected: "a number",
  toJsonSchema: () => ({ type: "number", minimum: 0, maximum: 2 ** 63 })
})

/** Digits that a double holds are a number; more are written as they are. */
const written = (text: string): unknown => (String(Number(text)) === text ? Number(text) : JSON.rawJSON(text))

/** Fewer digits always survive as a double. */
const sixteenDigits = /\d(?:\.?\d){15}/

/** JSON as `JSON.stringify` has written it, to be written once more: no number loses a digit. */
export const readExact = (text: string): unknown =>
  sixteenDigits.test(text)
    ? JSON.parse(text, (_, value: unknown, context?: { readonly source?: string }) =>
        typeof value === "number" && context?.source !== undefined ? written(context.source) : value
      )
    : JSON.parse(text)

/**
 * A number on the wire with all its digits, however many, which no double may hold; a `BigDecimal` within. `Schema.Any`
 * is what lets the digits through to `JSON.stringify`.
 */
export const exactNumber = (annotations: {
  readonly description?: string
  readonly examples: readonly [number, ...ReadonlyArray<number>]
}) =>
  Schema.Any.annotate(annotations).pipe(
    Schema.check(isNumber),
    Schema.decodeTo(
      Schema.BigDecimal,
      SchemaTransformation.transform({
        decode: (value) => BigDecimal.fromStringUnsafe(String(value)),
        encode: (decimal) => written(BigDecimal.format(decimal))
      })
    )
  )
