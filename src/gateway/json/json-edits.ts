import { isBlank, JsonScanner, tokens } from "../../kernel/json/json-scanner.ts"
import { isJson, type Json } from "../../kernel/json/parsed-json.ts"

/** The position of an object member or array element in the text. */
export interface Place {
  /** Undefined in an array. */
  readonly name: string | undefined
  readonly start: number
  /** Where its value begins. */
  readonly value: number
  readonly end: number
}

/** Replacement for the text from `start` to `end`. */
export interface Edit {
  readonly start: number
  readonly end: number
  readonly text: string
}

/**
 * The members or elements of the object or array that begins at or after `from`, in order. With `sought`, scanning stops
 * after the last of these members.
 */
export const placesIn = (json: Uint8Array, from = 0, sought?: ReadonlyArray<string>): ReadonlyArray<Place> => {
  const scanner = new JsonScanner(json, from)
  const { bytes } = scanner
  const places: Array<Place> = []
  const isObject = scanner.next() === tokens.openBrace
  let start = afterBlanks(bytes, scanner.end)
  let value = start
  let name: string | undefined
  let depth = 1
  let found = 0
  for (let token = scanner.next(); token !== undefined; token = scanner.next()) {
    const { end, start: at } = scanner
    switch (token) {
      case tokens.openBrace:
      case tokens.openBracket:
        depth++
        break
      case tokens.quote:
        if (depth === 1 && isObject && scanner.isName()) {
          name = scanner.said(at, end)
          value = afterBlanks(bytes, scanner.end)
        }
        break
      case tokens.comma:
      case tokens.closeBrace:
      case tokens.closeBracket: {
        if (token !== tokens.comma) depth--
        if (depth > (token === tokens.comma ? 1 : 0)) break
        const last = beforeBlanks(bytes, at)
        if (last > start) places.push({ name, start, value, end: last })
        if (sought?.includes(name ?? "") === true) found++
        if (depth === 0 || found === sought?.length) return places
        start = afterBlanks(bytes, end)
        value = start
        name = undefined
      }
    }
  }
  return places
}

const afterBlanks = (bytes: Buffer, from: number): number => {
  let at = from
  while (isBlank(bytes[at])) at++
  return at
}

const beforeBlanks = (bytes: Buffer, from: number): number => {
  let at = from
  while (isBlank(bytes[at - 1])) at--
  return at
}

/** Edits that remove the members or elements at these indices, each with one comma. */
export const cuts = (places: ReadonlyArray<Place>, without: (index: number) => boolean): ReadonlyArray<Edit> => {
  let hasKept = false
  return places.flatMap(({ end, start }, index) => {
    if (!without(index)) {
      hasKept = true
      return []
    }
    return hasKept
      ? [{ start: places[index - 1]?.end ?? start, end, text: "" }]
      : [{ start, end: places[index + 1]?.start ?? end, text: "" }]
  })
}

/** Applies edits that do not overlap; the rest of the text stays byte for byte. */
export const edited = (json: Uint8Array, edits: ReadonlyArray<Edit>): Uint8Array => {
  if (edits.length === 0) return json
  const parts: Array<Uint8Array> = []
  let from = 0
  for (const { end, start, text } of edits.toSorted((one, other) => one.start - other.start)) {
    parts.push(json.subarray(from, start), utf8.encode(text))
    from = end
  }
  parts.push(json.subarray(from))
  return Buffer.concat(parts)
}

const utf8 = new TextEncoder()

/** Another text for the value at a path; undefined removes the member or the element. */
export interface Change {
  readonly path: ReadonlyArray<string | number>
  readonly text: string | undefined
}

/** The edits that make these changes to the object or array that begins at or after `from`. */
export const editsAt = (json: Uint8Array, changes: ReadonlyArray<Change>, from = 0): ReadonlyArray<Edit> => {
  if (changes.length === 0) return []
  const byKey = Map.groupBy(changes, ({ path }) => path[0])
  const places = placesIn(json, from)
  const own = places.map(({ name }, index) => byKey.get(name ?? index) ?? [])
  const isCut = (index: number) =>
    own[index]?.some(({ path, text }) => path.length === 1 && text === undefined) === true
  return [
    ...cuts(places, isCut),
    ...places.flatMap(({ end, value }, index) => {
      const here = own[index] ?? []
      if (here.length === 0 || isCut(index)) return []
      const whole = here.find(({ path }) => path.length === 1)
      if (whole?.text !== undefined) return [{ start: value, end, text: whole.text }]
      return editsAt(
        json,
        here.map(({ path, text }) => ({ path: path.slice(1), text })),
        value
      )
    })
  ]
}

/**
 * The edits that a JSON merge patch (RFC 7396) makes to the text of an object. New members are inserted at the start, so
 * the end need not be found. `body` is the parsed text; added values contain no null.
 */
export const mergePatch = (json: Uint8Array, body: Json, patch: Json, from = 0): ReadonlyArray<Edit> => {
  const names = Object.keys(patch)
  const added = names.filter((name) => !Object.hasOwn(body, name) && patch[name] !== null)
  const leavesNone = Object.keys(body).every((name) => patch[name] === null)
  const edits: Array<Edit> = []
  if (added.length > 0) {
    const brace = json.indexOf(tokens.openBrace, from) + 1
    const members = JSON.stringify(Object.fromEntries(added.map((name) => [name, patch[name]])))
    edits.push({ start: brace, end: brace, text: `${members.slice(1, -1)}${leavesNone ? "" : ","}` })
  }
  const changed = names.filter((name) => Object.hasOwn(body, name))
  if (changed.length === 0) return edits
  // Removing a member requires the position of the next one.
  const isCut = changed.some((name) => patch[name] === null)
  const places = placesIn(json, from, isCut ? undefined : changed)
  edits.push(...cuts(places, (index) => patch[places[index]?.name ?? ""] === null))
  for (const { end, name = "", value } of places) {
    if (!Object.hasOwn(patch, name) || patch[name] === null) continue
    const [before, after] = [body[name], patch[name]]
    if (isJson(before) && isJson(after)) edits.push(...mergePatch(json, before, after, value))
    else edits.push({ start: value, end, text: JSON.stringify(after) })
  }
  return edits
}
