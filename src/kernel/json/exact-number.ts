import { BigDecimal, Schema, SchemaTransformation } from "effect"

// Part of ES2026; TypeScript's library does not declare it yet.
declare global {
  interface JSON {
    rawJSON(text: string): object
    isRawJSON(value: unknown): value is object
  }
}

const isNumber = (minimum: number) =>
  Schema.makeFilter((value: unknown) => typeof value === "number" || JSON.isRawJSON(value), {
    expected: "a number",
    toJsonSchema: () => ({ type: "number", minimum, maximum: 2 ** 63 })
  })

/** A number where a double preserves all digits; otherwise raw JSON. */
const written = (text: string): unknown => (String(Number(text)) === text ? Number(text) : JSON.rawJSON(text))

const maxExact = 10n ** 15n
const leastPlain = 1e-6

/**
 * The same for a decimal. Division of 15 digits by a power of ten that a double represents is exact in as many, and from a
 * millionth on its text has no exponent.
 */
const writtenDecimal = (decimal: BigDecimal.BigDecimal): unknown => {
  const { scale, value } = decimal
  if (scale >= 0 && scale <= 22 && value < maxExact && value > -maxExact) {
    const number = Number(value) / 10 ** scale
    if (number === 0 || number >= leastPlain || number <= -leastPlain) return number
  }
  return written(BigDecimal.format(decimal))
}

/** A double preserves fewer digits than these. */
const sixteenDigits = /\d(?:\.?\d){15}/

/** Parses JSON so that `JSON.stringify` writes every number with all its digits. */
export const readExact = (text: string): unknown =>
  sixteenDigits.test(text)
    ? JSON.parse(text, (_, value: unknown, context?: { readonly source?: string }) =>
        typeof value === "number" && context?.source !== undefined ? written(context.source) : value
      )
    : JSON.parse(text)

/**
 * A number on the wire with all its digits, more than a double may preserve; a `BigDecimal` within. `Schema.Any` passes
 * the raw digits to `JSON.stringify`.
 */
export const exactNumber = ({
  minimum = 0,
  ...annotations
}: {
  readonly component?: string
  readonly description?: string
  readonly examples: readonly [number, ...ReadonlyArray<number>]
  /** The least value, 0 if absent. */
  readonly minimum?: number
}) =>
  Schema.Any.pipe(
    Schema.check(isNumber(minimum)),
    Schema.annotate(annotations),
    Schema.decodeTo(
      Schema.BigDecimal,
      SchemaTransformation.transform({
        decode: (value) => BigDecimal.fromStringUnsafe(String(value)),
        encode: writtenDecimal
      })
    )
  )
