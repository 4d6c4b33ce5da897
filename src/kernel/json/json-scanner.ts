import { parsedJson } from "./parsed-json.ts"

const quote = 0x22
const backslash = 0x5c
const [colon, comma] = [0x3a, 0x2c]
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d]

/** The bytes that structure JSON. */
export const tokens = { quote, comma, openBrace, closeBrace, openBracket, closeBracket } as const

/** The position of the closing quote of the JSON string that begins at `start`. */
const endOf = (bytes: Buffer, start: number): number => {
  let end = start
  for (;;) {
    end = bytes.indexOf(quote, end + 1)
    let escapes = 0
    while (bytes[end - 1 - escapes] === backslash) escapes++
    if (end < 0 || escapes % 2 === 0) return end
  }
}

export const isBlank = (byte: number | undefined): boolean =>
  byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** Scans the structure of well-formed JSON: brackets, commas and strings; everything else is skipped. */
export class JsonScanner {
  readonly bytes: Buffer
  /** Start of the last token found. */
  start: number
  /** End of the last token found, where the next search begins. */
  end: number

  constructor(json: Uint8Array, from = 0) {
    this.bytes = Buffer.from(json.buffer, json.byteOffset, json.byteLength)
    this.start = from
    this.end = from
  }

  /** The first byte of the next token; none at the end. */
  next(): number | undefined {
    const { bytes } = this
    for (let at = this.end; at < bytes.length; at++) {
      const byte = bytes[at]
      switch (byte) {
        case quote: {
          const last = endOf(bytes, at)
          if (last < 0) return undefined
          this.start = at
          this.end = last + 1
          return byte
        }
        case comma:
        case openBrace:
        case closeBrace:
        case openBracket:
        case closeBracket:
          this.start = at
          this.end = at + 1
          return byte
      }
    }
    return undefined
  }

  /** Whether the last string found is a member name; if so, scanning continues after its colon. */
  isName(): boolean {
    let after = this.end
    while (isBlank(this.bytes[after])) after++
    if (this.bytes[after] !== colon) return false
    this.end = after + 1
    return true
  }

  /** The value of the string from `start` to `end`, both quotes included. */
  said(start: number, end: number): string {
    const written = this.bytes.toString("utf8", start, end)
    return written.includes("\\") ? String(parsedJson(written) ?? written) : written.slice(1, -1)
  }
}

/** The most arrays and objects that JSON may have within each other, members that one object may have, and values in all. */
export const maxDepth = 1000
export const maxMembers = 10_000
export const maxValues = 1_000_000
/** The most beginnings of objects, by their members' names in order, that JSON may have: a parser takes microseconds for a new one. */
export const maxShapes = 20_000

interface Shape extends Map<string, Shape> {}

const hasManyShapes = (json: Uint8Array): boolean => {
  const scanner = new JsonScanner(json)
  const empty: Shape = new Map()
  const open: Array<Shape> = []
  let shapes = 0
  for (let token = scanner.next(); token !== undefined; token = scanner.next()) {
    if (token === openBrace || token === openBracket) open.push(empty)
    else if (token === closeBrace || token === closeBracket) open.pop()
    else if (token === quote) {
      const { end, start } = scanner
      if (!scanner.isName()) continue
      const name = scanner.said(start, end)
      const before = open.pop() ?? empty
      let shape = before.get(name)
      if (shape === undefined) {
        if (++shapes > maxShapes) return true
        before.set(name, (shape = new Map()))
      }
      open.push(shape)
    }
  }
  return false
}

/** What this JSON has too much of: a few megabytes of brackets, of members or of numbers would keep the thread for seconds. */
export const excessIn = (json: Uint8Array, mostValues = maxValues): string | undefined => {
  if (json.length <= maxDepth) return undefined
  const scanner = new JsonScanner(json)
  // Of each array or object that is open; members are counted by the commas between them.
  const members: Array<number> = []
  let values = 0
  for (let token = scanner.next(); token !== undefined; token = scanner.next()) {
    switch (token) {
      case openBrace:
      case openBracket:
        if (members.push(token === openBrace ? 1 : Number.NEGATIVE_INFINITY) > maxDepth) {
          return `more than ${maxDepth} arrays and objects within each other`
        }
        values += 1
        break
      case closeBrace:
      case closeBracket:
        members.pop()
        break
      case comma: {
        const last = members.length - 1
        if (last >= 0 && (members[last] = (members[last] ?? 0) + 1) > maxMembers) {
          return `an object with more than ${maxMembers} members`
        }
        values += 1
        break
      }
    }
    if (values > mostValues) return `more than ${mostValues} values`
  }
  return values > maxShapes && hasManyShapes(json)
    ? `more than ${maxShapes} different names of members, or orders of them`
    : undefined
}

/** Up to this many names, a linear search is faster than a set. */
const few = 16

/**
 * A member's name after full Unicode case folding: some servers compare names so, and read `max_tokenſ` as `max_tokens`.
 * Lower case before upper case folds `ẞ` as `ß` and `SS`.
 */
export const foldedName = (name: string): string => name.toLowerCase().toUpperCase().toLowerCase()

/** Members of a JSON Schema whose names are data: those of a tool's arguments may differ in case alone. */
const schemaMaps: ReadonlySet<string | undefined> = new Set(["properties", "patternProperties", "$defs", "definitions"])

/** The names of an object's members so far. */
class Names {
  /** Whether these are names of a schema's map, which are compared as they are. */
  readonly areData: boolean
  /** The name that was added last. */
  last: string | undefined
  private readonly few: Array<string> = []
  private many: Set<string> | undefined

  constructor(outer: Names | undefined, isExact: boolean) {
    // In such a map `properties` is the name of an argument, and its value a schema.
    this.areData = isExact || (outer !== undefined && !outer.areData && schemaMaps.has(outer.last))
  }

  /** Whether the name was present before. */
  add(written: string): boolean {
    this.last = written
    const name = this.areData ? written : foldedName(written)
    if (this.many !== undefined) return this.many.size === this.many.add(name).size
    if (this.few.includes(name)) return true
    this.few.push(name)
    if (this.few.length > few) this.many = new Set(this.few)
    return false
  }
}

/**
 * The name of a duplicate member in this JSON, of those that case folding makes equal as well, unless `isExact`. Parsers differ
 * in which of the two they use, so that another value could be checked or metered than is used. Malformed JSON gives any result.
 */
export const repeatedMember = (
  json: Uint8Array,
  { isExact = false }: { readonly isExact?: boolean } = {}
): string | undefined => {
  const scanner = new JsonScanner(json)
  const open: Array<Names | undefined> = []
  for (let token = scanner.next(); token !== undefined; token = scanner.next()) {
    switch (token) {
      case tokens.openBrace:
        open.push(new Names(open.at(-1), isExact))
        break
      case tokens.openBracket:
        open.push(undefined)
        break
      case tokens.closeBrace:
      case tokens.closeBracket:
        open.pop()
        break
      case tokens.quote: {
        const names = open.at(-1)
        const { end, start } = scanner
        if (names === undefined || !scanner.isName()) break
        const name = scanner.said(start, end)
        if (names.add(name)) return name
        break
      }
    }
  }
  return undefined
}
