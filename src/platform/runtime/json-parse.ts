/**
 * Corrects `JSON.parse` where the engine misreads names of members. V8 from 13.6 to at least 14.6 (Node 24 to 26) compares the
 * name of the next member with that of an earlier object with the same members before it, and forgets that what it compares is
 * not decoded: after {"a":1,"\\":2} it reads {"a":1,"\u006e":3} as {"a":1,"\\":3}
 * (https://issues.chromium.org/issues/521080746, https://github.com/nodejs/node/issues/63785). So one caller would decide what
 * the service reads of another's, and not what its provider reads.
 *
 * Each program imports this module before all others, so that packages, too, find the corrected function.
 */

type Reviver = (this: unknown, name: string, value: unknown, context?: { readonly source?: string }) => unknown

const engineParse = JSON.parse as (text: string, reviver?: Reviver) => unknown

/** What stands in the place of a name begins with it, and ends with the place of the name in a list. */
const marker = "#"

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

const colon = /\s*:/y

/** The text with others in the place of all names of members, and these names. */
const renamed = (text: string): readonly [text: string, names: ReadonlyArray<string>] => {
  const places = new Map<string, number>()
  const parts: Array<string> = []
  let copied = 0
  let end = 0
  for (let start = text.indexOf('"'); start >= 0; start = text.indexOf('"', end)) {
    end = endOf(text, start)
    colon.lastIndex = end
    if (!colon.test(text)) continue
    const written = text.slice(start, end)
    const name = written.includes("\\") ? (engineParse(written) as string) : written.slice(1, -1)
    const place = places.get(name) ?? places.size
    places.set(name, place)
    parts.push(text.slice(copied, start), `"${marker}${place}"`)
    copied = end
  }
  return [parts.join("") + text.slice(copied), [...places.keys()]]
}

const withOwnNames = (value: Record<string, unknown>, names: ReadonlyArray<string>): Record<string, unknown> =>
  Array.isArray(value)
    ? value
    : Object.fromEntries(
        Object.entries(value).map(([name, member]) => [names[Number(name.slice(marker.length))]!, member])
      )

/** Gives each object within the value its own names. */
const restored = (value: unknown, names: ReadonlyArray<string>): unknown => {
  const root: Array<unknown> = [value]
  const rest: Array<Record<string, unknown>> = [root as unknown as Record<string, unknown>]
  for (let one = rest.pop(); one !== undefined; one = rest.pop()) {
    for (const name of Object.keys(one)) {
      const inner = one[name]
      if (!isObject(inner)) continue
      const own = withOwnNames(inner, names)
      if (own !== inner) one[name] = own
      rest.push(own)
    }
  }
  return root[0]
}

/** `JSON.parse` for an engine that may read a name written with an escape as one that contains a backslash. */
export const parse = (text: string, reviver?: Reviver): unknown => {
  if (!String(text).includes("\\")) return engineParse(text, reviver)
  const read = engineParse(text)
  const isRead = typeof reviver !== "function"
  if (!hasBackslashInName(read)) return isRead ? read : engineParse(text, reviver)
  const [other, names] = renamed(String(text))
  if (isRead) return restored(engineParse(other), names)
  return engineParse(other, function (name, value, context) {
    const own = isObject(value) ? withOwnNames(value, names) : value
    return reviver.call(this, name.startsWith(marker) ? names[Number(name.slice(marker.length))]! : name, own, context)
  })
}

/** Whether the engine reads a member by what it knows of an earlier object, and compares the escape as it is written. */
const confusesNames = (): boolean => {
  engineParse(String.raw`{"engine":0,"\\":0}`)
  return Object.keys(engineParse(String.raw`{"engine":0,"\n":0}`) as object)[1] !== "\n"
}

if (confusesNames()) JSON.parse = parse
