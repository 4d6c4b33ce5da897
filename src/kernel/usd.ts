import { Effect, Schema, SchemaGetter, SchemaIssue, SchemaTransformation } from "effect"

const smallest = 0.000000001
const largest = 8_388_607.999999999
const nanoPerUsd = 1e9

/** The largest amount of a request, in nano-dollars: below 2^23 dollars a double preserves nine decimals. */
export const largestNanoUsd = 8_388_607_999_999_999n

/** The double nearest to an amount in dollars: the quotient of two exact doubles is rounded once. */
export const usdOf = (nanoUsd: bigint): number => {
  const exact = Number(nanoUsd)
  return Number.isSafeInteger(exact) ? exact / nanoPerUsd : Number(usdText(nanoUsd))
}

/** An amount as the exact decimal number of dollars. */
export const usdText = (nanoUsd: bigint): string => {
  const digits = String(nanoUsd < 0n ? -nanoUsd : nanoUsd).padStart(10, "0")
  const fraction = digits.slice(-9).replace(/0+$/, "")
  return `${nanoUsd < 0n ? "-" : ""}${digits.slice(0, -9)}${fraction === "" ? "" : `.${fraction}`}`
}

/** The nano-dollars of a number of dollars; none when it has more than nine decimals. */
export const nanoUsdOf = (usd: number): bigint | undefined => {
  // Below 2^23 dollars every whole number of nano-dollars has its own double.
  const rounded = Math.round(usd * nanoPerUsd)
  if (usd >= 0 && usd <= largest && rounded / nanoPerUsd === usd) return BigInt(rounded)
  const decimals = usd.toFixed(9)
  return Number(decimals) === usd ? BigInt(decimals.replace(".", "")) : undefined
}

/**
 * The nano-dollars of some numbers of dollars together, by their shortest decimals, rounded up once; none where one of them is
 * no amount.
 */
export const nanoUsdUp = (...usd: ReadonlyArray<unknown>): bigint | undefined => {
  let sum = 0n
  let unit = 0
  for (const one of usd) {
    if (typeof one !== "number" || !(one >= 0 && one <= largest)) return undefined
    const [decimal = "0", exponent = "0"] = String(one).split("e")
    const [whole = "0", fraction = ""] = decimal.split(".")
    const power = Number(exponent) - fraction.length
    const finer = Math.min(unit, power)
    sum = sum * 10n ** BigInt(unit - finer) + BigInt(whole + fraction) * 10n ** BigInt(power - finer)
    unit = finer
  }
  const nano = -9
  if (unit >= nano) return sum * 10n ** BigInt(unit - nano)
  const divisor = 10n ** BigInt(nano - unit)
  return (sum + divisor - 1n) / divisor
}

const dollars = (component: string, minimum: number) =>
  Schema.Finite.pipe(
    Schema.check(Schema.isBetween({ minimum, maximum: largest })),
    Schema.annotate({ component, description: "US dollars, with at most nine decimals", examples: [0.25] })
  ).pipe(
    Schema.decodeTo(
      Schema.BigInt,
      SchemaTransformation.makeTransformation<bigint, number>({
        decode: SchemaGetter.transformEffect((usd, options) => {
          const nanoUsd = nanoUsdOf(usd)
          return nanoUsd === undefined
            ? Effect.fail(
                new SchemaIssue.InvalidValue({ expected: "US dollars with at most nine decimals" }, usd, options)
              )
            : Effect.succeed(nanoUsd)
        }),
        // Exact up to the largest amount.
        encode: SchemaGetter.transform(usdOf)
      })
    )
  )

/** US dollars on the wire (a number above zero with at most nine decimals), nano-dollars (`bigint`) within. */
export const Usd = dollars("Usd", smallest)

/** The same, or zero: limits and actual costs. */
export const UsdOrZero = dollars("UsdOrZero", 0)
