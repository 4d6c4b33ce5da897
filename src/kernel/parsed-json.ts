import { Predicate } from "effect"
import { type Json } from "./foreign-format.ts"

/** What a text says as JSON; undefined where it is none. */
export const parsedJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Whether a value is an object of JSON. */
export const isJson = (value: unknown): value is Json => Predicate.isReadonlyObject(value)

/** A list's elements; none of what is no list. */
export const listIn = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])
