import { BigDecimal, Schema } from "effect"
import { exactNumber } from "../../kernel/json/exact-number.ts"
import { nanoUsdOf, usdText } from "../../kernel/usd.ts"

/** What a cap counts; amounts in it are nano-dollars, tokens or requests, always as bigint. */
export const Unit = Schema.Literals(["usd", "tokens", "requests"]).annotate({
  component: "CapUnit",
  examples: ["usd"]
})
export type Unit = typeof Unit.Type

const largestUsd = 8_388_607.999999999
const largestCount = 9_007_199_254_740_991

/** An amount of some unit as requests name it; the unit beside it says what fits. */
export const Quantity = Schema.Finite.pipe(
  Schema.check(Schema.isBetween({ minimum: 0, maximum: largestCount }))
).annotate({
  component: "Quantity",
  description:
    "US dollars, at most 8388607.999999999 and with at most nine decimals, or a whole number of tokens or requests",
  examples: [250]
})

/** What is wrong with an amount for its unit; nothing when it fits. */
export const quantityFault = (unit: Unit, quantity: number): string | undefined => {
  if (unit !== "usd") return Number.isInteger(quantity) ? undefined : `Expected a whole number of ${unit}`
  if (quantity > largestUsd) return `Expected at most ${largestUsd} US dollars`
  return nanoUsdOf(quantity) === undefined ? "Expected US dollars with at most nine decimals" : undefined
}

/** An amount within, of a quantity that fits its unit. */
export const amountOf = (unit: Unit, quantity: number): bigint =>
  unit === "usd" ? (nanoUsdOf(quantity) ?? 0n) : BigInt(quantity)

/** An amount that a request has named, as the wire has it. */
export const quantityOf = (unit: Unit, amount: bigint): number =>
  Number(unit === "usd" ? usdText(amount) : String(amount))

/** Dollars with two decimals, and all that there are beyond. */
const dollarsText = (nanoUsd: bigint): string => {
  const [whole, fraction = ""] = usdText(nanoUsd).split(".")
  return `$${whole}.${fraction.padEnd(2, "0")}`
}

/** An amount as texts name it: `$1.25`, `1,200 tokens`. */
export const amountText = (unit: Unit | "seconds", amount: bigint): string =>
  unit === "usd" ? dollarsText(amount) : `${amount.toLocaleString("en-US")} ${amount === 1n ? unit.slice(0, -1) : unit}`

/** A sum of some unit, as large as it may become, and exact. */
export const Total = exactNumber({ component: "Total", examples: [12.5] })
export const totalOf = (unit: Unit, amount: bigint): BigDecimal.BigDecimal =>
  BigDecimal.make(amount, unit === "usd" ? usdDecimals : 0)
const usdDecimals = 9

/** What a period will have spent at its end, at the rate since `start`; undefined in the first tenth. In milliseconds. */
export const forecastOf = (spent: bigint, start: number, end: number, now: number): bigint | undefined => {
  if (now >= end) return spent
  // The rate of the first moments predicts nothing about a month.
  return (now - start) * 10 < end - start ? undefined : spent + (spent * BigInt(end - now)) / BigInt(now - start)
}

/** When the rate since `start` exhausts a limit, in epoch milliseconds; undefined where nothing is spent. */
export const exhaustionOf = (spent: bigint, limit: bigint, start: number, now: number): bigint | undefined => {
  if (spent <= 0n) return undefined
  const left = limit > spent ? limit - spent : 0n
  const elapsed = BigInt(Math.max(now - start, 1))
  return BigInt(now) + (left * elapsed) / spent
}
