type Reviver = (this: unknown, name: string, value: unknown, context?: { readonly source?: string }) => unknown

const engineParse = JSON.parse as (text: string, reviver?: Reviver) => unknown

/** What a name begins with that stands for another one. */
const marker = "\u{f8ff}"

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null

/** Whether an object in this value has a member whose name contains a backslash. */
const hasBackslashInName = (value: unknown): boolean => {
  const rest: Array<unknown> = [value]
  while (rest.length > 0) {
    const one = rest.pop()
    if (Array.isArray(one)) {
      for (const element of one) if (isObject(element)) rest.push(element)
    } else if (isObject(one)) {
      for (const name of Object.keys(one)) {
        if (name.includes("\\")) return true
        const inner = one[name]
        if (isObject(inner)) rest.push(inner)
      }
    }
  }
  return false
}

/** The place behind the string that begins at `start`. */
const endOf = (text: string, start: number): number => {
  for (let end = start; ;) {
    end = text.indexOf('"', end + 1)
    let escapes = 0
    while (text[end - 1 - escapes] === "\\") escapes++
    if (escapes % 2 === 0) return end + 1
  }
}

/** A name in the place of one, whose characters need no escapes. */
const otherName = (name: string): string =>
  marker + Array.from({ length: name.length }, (_, at) => name.charCodeAt(at).toString(16).padStart(4, "0")).join("")

const colon = /\s*:/y

/** The text with other names in the place of those that are written with escapes. */
const withoutEscapesInNames = (text: string): string => {
  const parts: Array<string> = []
  let copied = 0
  let end = 0
  for (let start = text.indexOf('"'); start >= 0; start = text.indexOf('"', end)) {
    end = endOf(text, start)
    const written = text.slice(start, end)
    colon.lastIndex = end
    if ((written.includes("\\") || written.startsWith(`"${marker}`)) && colon.test(text)) {
      parts.push(text.slice(copied, start), `"${otherName(engineParse(written) as string)}"`)
      copied = end
    }
  }
  return parts.join("") + text.slice(copied)
}

const nameOf = (name: string): string =>
  name.startsWith(marker)
    ? name.slice(marker.length).replace(/.{4}/g, (unit) => String.fromCharCode(Number.parseInt(unit, 16)))
    : name

/** The object with its own names; itself where it has them. */
const withOwnNames = (value: Record<string, unknown>): Record<string, unknown> =>
  !Array.isArray(value) && Object.keys(value).some((name) => name.startsWith(marker))
    ? Object.fromEntries(Object.entries(value).map(([name, member]) => [nameOf(name), member]))
    : value

/** Gives each object within the value its own names. */
const restoreNames = (value: unknown): unknown => {
  const root: Record<string, unknown> = { value }
  const rest = [root]
  for (let one = rest.pop(); one !== undefined; one = rest.pop()) {
    for (const name of Object.keys(one)) {
      const inner = one[name]
      if (!isObject(inner)) continue
      const own = withOwnNames(inner)
      if (own !== inner) one[name] = own
      rest.push(own)
    }
  }
  return root.value
}

/** `JSON.parse` for an engine that may read a name written with an escape as one that contains a backslash. */
export const parse = (text: string, reviver?: Reviver): unknown => {
  if (!String(text).includes("\\")) return engineParse(text, reviver)
  const read = engineParse(text)
  if (!hasBackslashInName(read)) return reviver === undefined ? read : engineParse(text, reviver)
  const renamed = withoutEscapesInNames(String(text))
  if (reviver === undefined) return restoreNames(engineParse(renamed))
  return engineParse(renamed, function (name, value, context) {
    return reviver.call(this, nameOf(name), isObject(value) ? withOwnNames(value) : value, context)
  })
}

/** Whether the engine reads a member by what it knows of an earlier object, and compares the escape as it is written. */
const confusesNames = (): boolean => {
  engineParse(String.raw`{"engine":0,"\\":0}`)
  return Object.keys(engineParse(String.raw`{"engine":0,"\n":0}`) as object)[1] !== "\n"
}

/*
 * V8 from 13.6 to at least 14.6 (Node 24 to 26) compares the name of the next member with that of an earlier object with the
 * same members before it, and forgets that what it compares is not decoded: after {"a":1,"\\":2} it reads {"a":1,"\u006e":3}
 * as {"a":1,"\\":3}. So one caller decides what the service reads of another's, and not what its provider reads. Whatever
 * reads JSON, packages too, uses this function.
 */
if (confusesNames()) JSON.parse = parse
