import { type Schema } from "effect"

/**
 * The canonical text of JSON (RFC 8785): members sorted by their UTF-16 code units, no blanks, numbers and strings as
 * ECMAScript writes them. A number that no double holds keeps its exact decimal value, so that two values that PostgreSQL
 * tells apart never have the same text.
 */
export const canonicalJson = (text: string): string => written(longNumber.test(text) ? exactly(text) : JSON.parse(text))

/** Fifteen significant digits always survive as a double; what looks longer, or has an exponent, is looked at. */
const longNumber = /\d(?:\.?\d){15}|\d[eE]/

class ExactNumber {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

type Parsed = Schema.Json | ExactNumber | ReadonlyArray<Parsed> | { readonly [member: string]: Parsed }

const exactly = (text: string): Parsed =>
  JSON.parse(text, (_, value: unknown, context?: { readonly source?: string }) => {
    if (typeof value !== "number" || context?.source === undefined) return value
    const exact = decimal(context.source)
    return Number.isFinite(value) && exact === decimal(JSON.stringify(value)) ? value : new ExactNumber(exact)
  }) as Parsed

/** A decimal number as its digits without zeros at either end, and a power of ten. */
const decimal = (source: string): string => {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source) ?? []
  const digits = `${whole}${fraction}`.replace(/^0+/, "")
  const significant = digits.replace(/0+$/, "")
  if (significant === "") return "0"
  const power = BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - significant.length)
  return `${sign}${significant}e${power < 0n ? "" : "+"}${power}`
}

const written = (value: Parsed): string => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  if (value instanceof ExactNumber) return value.text
  if (Array.isArray(value)) return `[${value.map(written).join(",")}]`
  const members = value as { readonly [member: string]: Parsed }
  let text = "{"
  for (const name of Object.keys(members).toSorted()) {
    const member = members[name]
    if (member === undefined) continue
    text += `${text === "{" ? "" : ","}${JSON.stringify(name)}:${written(member)}`
  }
  return `${text}}`
}
