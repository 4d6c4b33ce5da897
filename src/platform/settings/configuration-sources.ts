import { Predicate, Result } from "effect"

/** A name that a source sets. */
export interface Entry {
  /** With colons between the parts, in the case it was written in. */
  readonly name: string
  /** The text, the items of a list, or `undefined` where the source names it and sets nothing (empty text, `null`, `{}`). */
  readonly value: string | ReadonlyArray<string> | undefined
  /** Where it was set: `appsettings.json`, `environment Api__Port`, `command line`. */
  readonly source: string
}

/** What is wrong with a setting, or with a source as a whole when it has no `name`; never holds a secret. */
export interface Fault {
  readonly name?: string
  readonly source: string
  readonly reason: string
}

/** What a source says, in its order: entries, and the faults between them. */
export type Readings = ReadonlyArray<Result.Result<Entry, Fault>>

const emptyIsUnset = (text: string) => (text === "" ? undefined : text)

/**
 * Environment variables whose name is a known section (lower case in `sections`), `__` and the rest of a key; all others
 * belong to somebody else. An alias (`DATABASE_URL` → `Database:Url`) counts unless the variable of the full name is set.
 */
export const fromEnvironment = (
  variables: Readonly<Record<string, string | undefined>>,
  sections: ReadonlySet<string>,
  aliases: Readonly<Record<string, string>>
): Readings => {
  const entries = Object.entries(variables).flatMap(([variable, text]): ReadonlyArray<Entry> => {
    const [section = "", ...rest] = variable.split("__")
    if (text === undefined || rest.length === 0 || !sections.has(section.toLowerCase())) return []
    return [{ name: [section, ...rest].join(":"), value: emptyIsUnset(text), source: `environment ${variable}` }]
  })
  const isGiven = (key: string) =>
    entries.some(
      ({ name, value }) => value !== undefined && `${name}:`.toLowerCase().startsWith(`${key}:`.toLowerCase())
    )
  const aliased = Object.entries(aliases).flatMap(([variable, name]): ReadonlyArray<Entry> => {
    const value = emptyIsUnset(variables[variable] ?? "")
    return value === undefined || isGiven(name) ? [] : [{ name, value, source: `environment ${variable}` }]
  })
  return [...entries, ...aliased].map(Result.succeed)
}

/**
 * `--Name=value`, `--Name value`, or `--Name` alone for true. The word after a name that `needsValue` is its value
 * whatever it looks like. A name given twice has the later value.
 */
export const fromArguments = (words: ReadonlyArray<string>, needsValue: (name: string) => boolean): Readings => {
  const source = "command line"
  const readings = new Map<string, Result.Result<Entry, Fault>>()
  for (let index = 0; index < words.length; index++) {
    const [, name, inline] = /^--([^=]+)(?:=(.*))?$/s.exec(words[index] ?? "") ?? []
    if (name === undefined) {
      // Counted, not quoted: a stray word may be a secret that a space parted from its key.
      readings.set(`argument ${index + 1}`, Result.fail({ source, reason: `argument ${index + 1} is not --Key=value` }))
      continue
    }
    const next = words[index + 1]
    const takesNext = inline === undefined && next !== undefined && (needsValue(name) || !next.startsWith("--"))
    if (takesNext) index++
    const text = inline ?? (takesNext ? next : needsValue(name) ? undefined : "true")
    readings.set(
      name.toLowerCase(),
      text === undefined
        ? Result.fail({ name, source, reason: "needs a value" })
        : Result.succeed({ name, value: emptyIsUnset(text), source })
    )
  }
  return [...readings.values()]
}

/** The members of a JSON object, nested or with colons in their names. */
export const fromJson = (fileName: string, text: string): Readings => {
  const document = Result.try((): unknown => JSON.parse(text))
  if (Result.isFailure(document)) {
    const before = text.slice(0, jsonFaultOffset(text)).split("\n")
    const position = `line ${before.length}, column ${(before.at(-1) ?? "").length + 1}`
    return [Result.fail({ source: `${fileName}, ${position}`, reason: "malformed JSON" })]
  }
  return Predicate.isObject(document.success)
    ? membersOf(fileName, "", document.success)
    : [Result.fail({ source: fileName, reason: "is not a JSON object" })]
}

const membersOf = (source: string, prefix: string, members: object): Readings =>
  Object.entries(members).flatMap(([member, value]: [string, unknown]): Readings => {
    const name = prefix + member
    if (Array.isArray(value)) {
      return value.every(isScalar)
        ? [Result.succeed({ name, value: value.map(String), source })]
        : [Result.fail({ name, source, reason: "a list holds text, numbers, true and false" })]
    }
    if (isScalar(value)) return [Result.succeed({ name, value: emptyIsUnset(String(value)), source })]
    return Predicate.isObject(value) && Object.keys(value).length > 0
      ? membersOf(source, `${name}:`, value)
      : [Result.succeed({ name, value: undefined, source })]
  })

const isScalar = (value: unknown): value is string | number | boolean =>
  Predicate.isString(value) || Predicate.isNumber(value) || Predicate.isBoolean(value)

const jsonToken =
  /[ \t\n\r]*(?:("(?:[^"\\\p{Cc}]|[\x7f-\x9f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)|([{}[\],:]))/uy

/** The offset where `text` stops being JSON, or its length; `JSON.parse` tells it for some faults only. */
export const jsonFaultOffset = (text: string): number => {
  const open: Array<string> = []
  let expected: ReadonlyArray<"value" | "name" | "end" | ":" | ","> = ["value"]
  let offset = 0
  for (;;) {
    jsonToken.lastIndex = offset
    const [all = "", string, scalar, mark] = jsonToken.exec(text) ?? []
    const inObject = open.at(-1) === "{"
    if (string !== undefined && expected.includes("name")) expected = [":"]
    else if ((string ?? scalar) !== undefined && expected.includes("value")) expected = [",", "end"]
    else if ((mark === "{" || mark === "[") && expected.includes("value")) {
      open.push(mark)
      expected = [mark === "{" ? "name" : "value", "end"]
    } else if (mark === (inObject ? "}" : "]") && open.length > 0 && expected.includes("end")) {
      open.pop()
      expected = [",", "end"]
    } else if (mark === "," && open.length > 0 && expected.includes(",")) expected = [inObject ? "name" : "value"]
    else if (mark === ":" && expected.includes(":")) expected = ["value"]
    else return offset + (/^[ \t\n\r]*/.exec(text.slice(offset))?.[0].length ?? 0)
    offset += all.length
  }
}
