import { Predicate } from "effect"

/** An object of JSON, unread. */
export type Json = Readonly<Record<string, unknown>>

/** The JSON of a text; undefined when it is malformed. */
export const parsedJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Whether a value is a JSON object. */
export const isJson = (value: unknown): value is Json => Predicate.isReadonlyObject(value)

/** Whether a value has an integer so large that a double may not keep its digits (RFC 7493 §2.2). */
export const hasInexactInteger = (value: unknown): boolean => {
  // Without recursion, since the value may be nested to any depth.
  const rest = [value]
  while (rest.length > 0) {
    const one = rest.pop()
    if (typeof one === "object" && one !== null) for (const inner of Object.values(one)) rest.push(inner)
    else if (Number.isInteger(one) && !Number.isSafeInteger(one)) return true
  }
  return false
}

/** What to do about such a number. */
export const expectedExactIntegers = "integers of at most 2^53 - 1, since others lose digits; write those as text"

/** The elements of an array; none for any other value. */
export const listIn = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/** A text, or a number as one; empty for any other value, since `String` fails for an object with a member `toString`. */
export const textIn = (value: unknown): string =>
  typeof value === "string" ? value : typeof value === "number" ? String(value) : ""
