import { Effect, Schema, SchemaIssue, SchemaTransformation } from "effect"

const least = 0.000000001
const largest = 8_388_607.999999999

/** The largest amount of a request, in nano-dollars: below 2^23 dollars a double carries nine decimals. */
export const largestNanoUsd = 8_388_607_999_999_999n

/** Nano-dollars as the decimal number of dollars that they are. */
export const usdText = (nanoUsd: bigint): string => {
  const digits = String(nanoUsd < 0n ? -nanoUsd : nanoUsd).padStart(10, "0")
  const fraction = digits.slice(-9).replace(/0+$/, "")
  return `${nanoUsd < 0n ? "-" : ""}${digits.slice(0, -9)}${fraction === "" ? "" : `.${fraction}`}`
}

/** The nano-dollars of a number of dollars; none when it has more than nine decimals. */
export const nanoUsdOf = (usd: number): bigint | undefined => {
  const decimals = usd.toFixed(9)
  return Number(decimals) === usd ? BigInt(decimals.replace(".", "")) : undefined
}

const dollars = (minimum: number) =>
  Schema.Finite.pipe(
    Schema.check(Schema.isBetween({ minimum, maximum: largest })),
    Schema.annotate({ examples: [0.25] })
  ).pipe(
    Schema.decodeTo(
      Schema.BigInt,
      SchemaTransformation.transformEffect<bigint, number, never, never>({
        decode: (usd, options) => {
          const nanoUsd = nanoUsdOf(usd)
          return nanoUsd === undefined
            ? Effect.fail(
                new SchemaIssue.InvalidValue({ expected: "US dollars with at most nine decimals" }, usd, options)
              )
            : Effect.succeed(nanoUsd)
        },
        // Exact up to the largest amount.
        encode: (nanoUsd) => Effect.succeed(Number(usdText(nanoUsd)))
      })
    )
  )

/** US dollars on the wire (a number above zero with at most nine decimals), nano-dollars (`bigint`) within. */
export const Usd = dollars(least)

/** The same, and zero: limits and what something did cost. */
export const UsdOrZero = dollars(0)
