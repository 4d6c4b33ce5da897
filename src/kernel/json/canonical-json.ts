import { type Schema } from "effect"

/** A number that a double cannot represent, as its exact decimal value. */
export class ExactNumber {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** JSON whose numbers are exact. */
export type ExactJson = Schema.Json | ExactNumber | ReadonlyArray<ExactJson> | ExactObject
export interface ExactObject {
  readonly [member: string]: ExactJson
}

/** A double preserves fifteen significant digits; longer numbers, and those with an exponent, are checked. */
const longNumber = /(?:^|[[,:\s])-?(?:\d(?:\.?\d){15}|\d+(?:\.\d+)?[eE])/

/** Parses JSON without losing a digit; throws a SyntaxError when it is malformed. */
export const parseExact = (text: string): ExactJson => {
  if (!longNumber.test(text)) return JSON.parse(text) as Schema.Json
  return JSON.parse(text, (_, value: unknown, context?: { readonly source?: string }) => {
    if (typeof value !== "number" || context?.source === undefined) return value
    const exact = decimal(context.source)
    return Number.isFinite(value) && exact === decimal(JSON.stringify(value)) ? value : new ExactNumber(exact)
  }) as ExactJson
}

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

/**
 * The canonical text of JSON (RFC 8785): members sorted by their UTF-16 code units, no blanks, numbers and strings as
 * ECMAScript writes them. A number that a double cannot represent keeps its exact decimal value, so that two values that
 * PostgreSQL distinguishes never have the same text.
 */
export const canonicalJson = (text: string): string => canonicalOf(parseExact(text))

/** Like {@link canonicalJson}, for a parsed value. */
export const canonicalOf = (value: ExactJson): string => {
  if (typeof value === "string") return canonicalText(value)
  if (typeof value !== "object" || value === null) return String(value)
  if (value instanceof ExactNumber) return value.text
  if (Array.isArray(value)) return `[${value.map(canonicalOf).join(",")}]`
  return canonicalObject(value as ExactObject)
}

/** Like {@link canonicalOf}, for an object without some of its members. */
export const canonicalObject = (members: ExactObject, without?: ReadonlySet<string>): string => {
  let text = "{"
  let comma = ""
  for (const name of Object.keys(members).toSorted()) {
    const member = members[name]
    if (member === undefined || without?.has(name) === true) continue
    text += `${comma}${canonicalText(name)}:${canonicalOf(member)}`
    comma = ","
  }
  return `${text}}`
}

const withoutEscapes = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/

/** A text as canonical JSON. */
export const canonicalText = (text: string): string => (withoutEscapes.test(text) ? `"${text}"` : JSON.stringify(text))

const strings = /"(?:[^"\\]|\\.)*"(\s*:)?/g

/** Whether an object within a JSON text repeats a member: parsers disagree about which one counts (RFC 8259 §4). */
export const hasRepeatedMember = (text: string, value: ExactJson): boolean => {
  let written = 0
  for (const [, colon] of text.matchAll(strings)) if (colon !== undefined) written += 1
  return written !== countMembers(value)
}

const countMembers = (value: ExactJson): number => {
  if (typeof value !== "object" || value === null || value instanceof ExactNumber) return 0
  const members = Object.values(value)
  return members.reduce((sum: number, member) => sum + countMembers(member), Array.isArray(value) ? 0 : members.length)
}
