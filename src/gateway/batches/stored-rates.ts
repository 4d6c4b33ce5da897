import { isJson } from "../../kernel/json/parsed-json.ts"
import { type RateTable } from "../catalog/rate-domain.ts"

/** Values that JSON has no form for, each under one name. */
const encoded = (_: string, value: unknown): unknown => {
  if (typeof value === "bigint") return { bigint: String(value) }
  if (value instanceof Map) return { map: [...value] }
  return value instanceof Set ? { set: [...value] } : value
}

const decoded = (_: string, value: unknown): unknown => {
  if (!isJson(value)) return value
  if (Object.hasOwn(value, "bigint")) return BigInt(String(value.bigint))
  if (Object.hasOwn(value, "map")) return new Map(value.map as ReadonlyArray<readonly [unknown, unknown]>)
  return Object.hasOwn(value, "set") ? new Set(value.set as ReadonlyArray<unknown>) : value
}

/** Prices as text, so that what was held by them hours ago is charged by them, whatever is configured now. */
export const writeRates = (table: RateTable): string => JSON.stringify(table, encoded)

/** Prices that were written by {@link writeRates}. */
export const readRates = (text: string): RateTable => JSON.parse(text, decoded) as RateTable

/** Whether prices are those that were written. */
export const areSameRates = (text: string | null, table: RateTable | null): boolean =>
  text === (table === null ? null : writeRates(table))
