/** A value of a JSON text, with the characters that it takes. */
export interface Place {
  readonly from: number
  readonly to: number
  /** What `JSON.parse` makes of a text, number, boolean or null; undefined of an object or array. */
  readonly value?: string | number | boolean | null
  readonly members?: ReadonlyArray<MemberPlace>
  readonly items?: ReadonlyArray<Place>
}

export interface MemberPlace {
  readonly name: string
  readonly nameFrom: number
  readonly nameTo: number
  readonly place: Place
}

export type Path = ReadonlyArray<string | number>

/** What makes a text no JSON, and the character where that was noticed. */
export interface SyntaxFault {
  readonly message: string
  readonly at: number | undefined
}

class NoJson extends Error {
  readonly at: number
  constructor(message: string, at: number) {
    super(message)
    this.at = at
  }
}

/** Reads a JSON text, and says where everything is in it; fails at the first token that it may not have. */
const parsed = (text: string): Place => {
  const tokens = /[{}[\]:,]|"(?:[^"\\\n]|\\.)*"?|[^\s{}[\]:,"\ufeff]+/g
  let before = 0
  const next = (): readonly [token: string, from: number] => {
    before = tokens.lastIndex
    const found = tokens.exec(text)
    if (found === null) tokens.lastIndex = text.length
    return [found?.[0] ?? "", found?.index ?? text.length]
  }
  /** What is missing is missing after what comes before it. */
  const lacks = (expected: string, token: string, from: number) =>
    token === ""
      ? new NoJson(`The text ends, where ${expected} is expected`, text.length)
      : new NoJson(`Expected ${expected} and found ${token.slice(0, 40)}`, expected.includes("comma") ? before : from)
  const literal = (token: string, from: number): string | number | boolean | null => {
    try {
      return JSON.parse(token)
    } catch {
      if (token.startsWith('"')) {
        const isOpen = token.length < 2 || !/[^\\](?:\\\\)*"$/.test(token)
        throw new NoJson(
          isOpen
            ? "The text in quotes does not end on its line"
            : "The text in quotes has a character that must be escaped",
          from
        )
      }
      if (/^['\u2018-\u201f]/.test(token)) throw new NoJson('Texts are in double quotes: "…"', from)
      if (token.startsWith("/")) throw new NoJson("JSON has no comments", from)
      throw new NoJson(`${token.slice(0, 40)} is no value; texts are in double quotes`, from)
    }
  }
  const read = ([token, from]: readonly [string, number]): Place => {
    if (token === "{") {
      const members: Array<MemberPlace> = []
      for (let [name, at] = next(); name !== "}" || members.length > 0; [name, at] = next()) {
        if (name === "}") throw new NoJson("A comma is followed by another member", before - 1)
        if (!name.startsWith('"')) throw lacks("the name of a member in double quotes", name, at)
        const called = String(literal(name, at))
        const [colon, colonAt] = next()
        if (colon !== ":") throw lacks("a colon", colon, colonAt)
        members.push({ name: called, nameFrom: at, nameTo: at + name.length, place: read(next()) })
        const [mark, markAt] = next()
        if (mark === "}") break
        if (mark !== ",") throw lacks("a comma or }", mark, markAt)
      }
      return { from, to: tokens.lastIndex, members }
    }
    if (token === "[") {
      const items: Array<Place> = []
      for (let item = next(); item[0] !== "]" || items.length > 0; item = next()) {
        if (item[0] === "]") throw new NoJson("A comma is followed by another value", before - 1)
        items.push(read(item))
        const [mark, markAt] = next()
        if (mark === "]") break
        if (mark !== ",") throw lacks("a comma or ]", mark, markAt)
      }
      return { from, to: tokens.lastIndex, items }
    }
    if (token === "" || /^[}\]:,]$/.test(token)) throw lacks("a value", token, from)
    return { from, to: from + token.length, value: literal(token, from) }
  }
  const root = read(next())
  const [rest, at] = next()
  if (rest !== "") throw new NoJson("The document has ended before this", at)
  return root
}

/** The first fault of a text that is no JSON. */
export const syntaxFaultOf = (text: string): SyntaxFault | undefined => {
  try {
    JSON.parse(text.replace(/^\ufeff/, ""))
    return
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause)
    try {
      parsed(text)
    } catch (found) {
      if (found instanceof NoJson) return { message: found.message, at: found.at }
    }
    return { message, at: undefined }
  }
}

/** Where everything of a JSON text is; undefined where the text is none. */
export const placesIn = (text: string): Place | undefined => {
  try {
    JSON.parse(text.replace(/^\ufeff/, ""))
    return parsed(text)
  } catch {
    return
  }
}

/** The characters of what is at a path, or of the nearest thing around it: a name where the member itself is meant. */
export const placeAt = (root: Place, path: Path): readonly [from: number, to: number] => {
  let place = root
  let named: readonly [number, number] | undefined
  for (const key of path) {
    const member = place.members?.findLast(({ name }) => name === String(key))
    const inner = member?.place ?? place.items?.[Number(key)]
    if (inner === undefined) break
    named = member && [member.nameFrom, member.nameTo]
    place = inner
  }
  const isSmall = place.value !== undefined
  return isSmall ? [place.from, place.to] : (named ?? [place.from, place.from + 1])
}

/** What is written at a place of a text that need not be finished. */
export interface Context {
  readonly kind: "name" | "value"
  /** Of the object that the name is in, or of the value. */
  readonly path: Path
  /** The token at the place, or what is before it of one. */
  readonly from: number
  readonly to: number
  readonly token: string
  /** The names of the other members of the object. */
  readonly names: ReadonlySet<string>
  /** Whether a colon follows. */
  readonly hasColon: boolean
}

interface Frame {
  readonly isObject: boolean
  readonly names: Set<string>
  index: number
  name: string | undefined
  isValue: boolean
}

/** A token without its quotes. */
export const unquoted = (token: string): string => token.replace(/^"|"$/g, "")

/** What is written at a character of a text; undefined between what is finished. */
export const contextAt = (text: string, at: number): Context | undefined => {
  const tokens = /[{}[\]:,]|"(?:[^"\\\n]|\\.)*"?|[^\s{}[\]:,"]+/g
  const stack: Array<Frame> = []
  let found: Omit<Context, "names" | "hasColon"> | undefined
  let owner: Frame | undefined
  let hasColon = false
  const pathOf = (): Path => stack.map(({ index, isObject, name }) => (isObject ? (name ?? "") : index))
  const note = (from: number, to: number, token: string) => {
    const frame = stack.at(-1)
    const isName = frame?.isObject === true && !frame.isValue
    owner = frame
    found = { kind: isName ? "name" : "value", path: isName ? pathOf().slice(0, -1) : pathOf(), from, to, token }
  }
  for (let match = tokens.exec(text); match !== null; match = tokens.exec(text)) {
    const { index: from } = match
    let [token] = match
    // A text that has no end yet ends at the cursor.
    if (/^"(?:[^"\\]|\\.)*$/.test(token) && from < at && at <= from + token.length) {
      token = token.slice(0, at - from)
      tokens.lastIndex = at
    }
    const to = from + token.length
    const isMark = /^[{}[\]:,]$/.test(token)
    if (found === undefined) {
      if (!isMark && from <= at && at <= to) note(from, to, token)
      else if (from >= at) note(at, at, "")
    } else if (token === ":" && found.kind === "name" && stack.at(-1) === owner) {
      const between = text.slice(found.to, from)
      if (between.trim() === "") hasColon = true
    }
    const frame = stack.at(-1)
    if (token === "{" || token === "[") {
      stack.push({ isObject: token === "{", names: new Set(), index: 0, name: undefined, isValue: false })
    } else if (token === "}" || token === "]") {
      stack.pop()
      if (found !== undefined && frame === owner) break
    } else if (token === ",") {
      if (frame !== undefined) {
        frame.index += 1
        frame.isValue = false
        frame.name = undefined
      }
    } else if (token === ":") {
      if (frame !== undefined) frame.isValue = true
    } else if (frame?.isObject === true && !frame.isValue) {
      frame.name = unquoted(token)
      if (found === undefined || from !== found.from || frame !== owner) frame.names.add(frame.name)
    }
  }
  if (found === undefined) note(at, at, "")
  return found && { ...found, names: owner?.names ?? new Set(), hasColon }
}
