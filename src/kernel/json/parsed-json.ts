import { Predicate } from "effect"
import "./json-parse.ts"

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

/** The elements of an array; none for any other value. */
export const listIn = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])
