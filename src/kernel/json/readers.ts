import { isJson, type Json } from "./parsed-json.ts"

/** Reads a value of JSON that someone else writes; undefined if it has another type, which counts as absent. */
export type Reader<A> = (value: unknown) => A | undefined

export const text: Reader<string> = (value) => (typeof value === "string" ? value : undefined)

/** A whole number from 0 on; some write it as text. */
export const place: Reader<number> = (value) => {
  const number = typeof value === "string" && /^\d{1,9}$/.test(value) ? Number(value) : value
  return typeof number === "number" && Number.isSafeInteger(number) && number >= 0 ? number : undefined
}

export const object: Reader<Json> = (value) => (isJson(value) ? value : undefined)

export const anything: Reader<unknown> = (value) => value ?? undefined

/** A list without the elements that are of another type. */
export const list =
  <A>(read: Reader<A>): Reader<ReadonlyArray<A>> =>
  (value) =>
    Array.isArray(value) ? value.map(read).filter((one) => one !== undefined) : undefined

type Read<M> = { readonly [N in keyof M]?: (M[N] extends Reader<infer A> ? A : never) | undefined }

/** An object, each member read by itself, so that one of another type hides no other. */
export const members = <const M extends Readonly<Record<string, Reader<unknown>>>>(readers: M): Reader<Read<M>> => {
  const each = Object.entries(readers)
  return (value) => {
    if (!isJson(value)) return undefined
    const read: Record<string, unknown> = {}
    for (const [name, reader] of each) {
      const member = reader((value as Json)[name])
      if (member !== undefined) read[name] = member
    }
    return read as Read<M>
  }
}
