import { Config, ConfigProvider, Data, Effect, FileSystem, Predicate, Result } from "effect"
import { repeatedMember } from "../../kernel/json/json-scanner.ts"
import { type Kind } from "./setting-kinds.ts"

export type EnvironmentName = "Development" | "Production"

/** The text of a default, where `<Key>` is replaced by the value of another key; it may differ by environment. */
export type Default = string | ReadonlyArray<string> | { readonly [Name in EnvironmentName]: string }

/** A declared key: the kind of its value, its default, and what it means in one line. */
export interface Setting<out A> extends Kind<A> {
  readonly default: Default | undefined
  readonly description: string
}

/** A setting that always has a value. */
export const setting = <A>(kind: Kind<A>, fallback: Default | undefined, description: string): Setting<A> => ({
  ...kind,
  default: fallback,
  description
})

/** A setting that may be absent: its value is an `Option`. */
export const optional = <A>(kind: Kind<A>, description: string) =>
  setting({ ...kind, config: Config.option(kind.config) }, undefined, description)

/** Settings by their key (`Api:Swagger:Enabled`). */
export type SettingsTable = Readonly<Record<string, Setting<unknown>>>

type Value = string | ReadonlyArray<string>

/** What a source sets, its name with colons between the parts; no value for empty text, `null` and `{}`. */
interface Entry {
  readonly name: string
  readonly value: Value | undefined
  readonly source: string
}

/** What is wrong with a setting, or with a source as a whole when it has no `name`; never holds a secret. */
interface Fault {
  readonly name?: string
  readonly source: string
  readonly reason: string
}

type Layer = ReadonlyArray<Entry | Fault>

const isFault = (reading: Entry | Fault): reading is Fault => "reason" in reading

const isEntry = <E extends Entry>(reading: E | Fault): reading is E => !isFault(reading)

/** Everything that is wrong with the settings, each with its key and where it was set. */
export class SettingsError extends Data.TaggedError("SettingsError")<{ readonly faults: ReadonlyArray<Fault> }> {
  override get message() {
    const lines = this.faults.map(({ name, source, reason }) =>
      name === undefined ? `${source}: ${reason}` : `${name} (${source}): ${reason}`
    )
    return ["The settings cannot be used:", ...lines].join("\n  ")
  }
}

/** The command line arguments and the environment variables. */
export interface ProcessSources {
  readonly arguments: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Reads every key of `table` from defaults, `appsettings*.json`, environment and command line; fails with all faults. */
export const readSettings = Effect.fnUntraced(function* (
  table: SettingsTable,
  aliases: Readonly<Record<string, string>>,
  sources: ProcessSources
) {
  const named = environmentName(sources.environment)
  const environment = Result.getOrElse(named, () => "Development" as const)
  const { given, faults } = yield* mergeLayers(table, [
    Result.isFailure(named) ? [named.failure] : [],
    yield* fromFile("appsettings.json"),
    Result.isFailure(named) ? [] : yield* fromFile(`appsettings.${environment}.json`),
    fromEnvironment(sources.environment, table, aliases),
    fromArguments(sources.arguments, table)
  ])
  const defaultOf = (key: string) => {
    const fallback = table[key]?.default
    return Predicate.isObject(fallback) && "Development" in fallback ? fallback[environment] : fallback
  }
  const textOf = (_: string, key: string) => String(given.get(key)?.value ?? defaultOf(key))
  const [entries, wrong] = yield* Effect.partition(
    Object.entries(table),
    ([key, { config, description, expected, secret }]) => {
      const fallback = defaultOf(key)
      const filled = typeof fallback === "string" ? fallback.replace(/<(.+?)>/g, textOf) : fallback
      const { value, source } = given.get(key) ?? { value: filled, source: "default" }
      // A value may contain credentials even where none belong.
      const shown = secret ? "the value" : JSON.stringify(String(value).replace(/.*@/s, "***@").slice(0, 100))
      return Effect.mapBoth(config.parse(ConfigProvider.fromUnknown(value)), {
        onSuccess: (decoded) => ({ key, value: decoded, source, secret, description }),
        onFailure: (): Fault => ({ name: key, source, reason: `${shown} is not ${expected}` })
      })
    }
  )
  const all = [...faults, ...wrong]
  if (all.length === 0) return { environment, entries }
  // A default is at fault only when it is made of a key that is at fault itself.
  const own = all.filter(({ source }) => source !== "default")
  return yield* new SettingsError({ faults: own.length > 0 ? own : all })
})

const knownEnvironment = (name = "") =>
  (["Development", "Production"] as const).find((known) => known.toLowerCase() === name.toLowerCase())

/** `APP_ENVIRONMENT`, else `NODE_ENV` when it is one of ours, else Development; in any case. */
export const environmentName = (variables: ProcessSources["environment"]): Result.Result<EnvironmentName, Fault> => {
  const { APP_ENVIRONMENT: own, NODE_ENV } = variables
  return Result.fromNullishOr(own ? knownEnvironment(own) : (knownEnvironment(NODE_ENV) ?? "Development"), () => ({
    source: "environment APP_ENVIRONMENT",
    reason: `${JSON.stringify(own)} is neither Development nor Production`
  }))
}

/** Members under their sections: `A:B` becomes `{ A: { B } }`. */
export const nested = (members: ReadonlyArray<readonly [key: string, value: unknown]>): Record<string, unknown> =>
  Object.fromEntries(
    [...Map.groupBy(members, ([key]) => key.replace(/:.*/, ""))].map(([section, below]) => [
      section,
      below[0]?.[0] === section
        ? below[0][1]
        : nested(below.map(([key, value]) => [key.slice(section.length + 1), value]))
    ])
  )

const emptyIsUnset = (text: string | undefined) => (text === "" ? undefined : text)

const isUnder = (section: string) => (name: string) => `${name}:`.toLowerCase().startsWith(`${section}:`.toLowerCase())

/**
 * Environment variables whose name is the section of a key, `__` and its rest; all others are ignored. An alias
 * counts unless the variable of the full name is set.
 */
const fromEnvironment = (
  variables: ProcessSources["environment"],
  table: SettingsTable,
  aliases: Readonly<Record<string, string>>
): ReadonlyArray<Entry> => {
  const entry = (variable: string, name: string): Entry => ({
    name,
    value: emptyIsUnset(variables[variable]),
    source: `environment ${variable}`
  })
  const isOurs = (name: string) => /^[^:]+:/.test(name) && Object.keys(table).some(isUnder(name.replace(/:.*/, "")))
  const named = Object.keys(variables)
    .map((variable) => entry(variable, variable.replaceAll("__", ":")))
    .filter(({ name }) => isOurs(name))
  const set = named.filter(({ value }) => value !== undefined).map(({ name }) => name)
  const aliased = Object.entries(aliases)
    .map(([variable, key]) => entry(variable, key))
    .filter(({ name, value }) => value !== undefined && !set.some(isUnder(name)))
  return [...named, ...aliased]
}

/**
 * `--Name=value`, `--Name value`, or `--Name` alone for true. The argument after a name that needs a value is its
 * value whatever it looks like. Of a repeated name the last value counts.
 */
const fromArguments = (args: ReadonlyArray<string>, table: SettingsTable): Layer => {
  const source = "command line"
  const readings = new Map<string, Entry | Fault>()
  for (let index = 0; index < args.length; index++) {
    const [, name, inline] = /^--([^=]+)(?:=(.*))?$/s.exec(args[index] ?? "") ?? []
    if (name === undefined) {
      // Counted, not quoted: a stray argument may be a secret that a space separated from its key.
      readings.set(`argument ${index + 1}`, { source, reason: `argument ${index + 1} is not --Key=value` })
      continue
    }
    const declared = table[placeOf(table, name)?.name ?? ""]
    const needsValue = declared !== undefined && declared.form !== "flag"
    const next = args[index + 1]
    const takesNext = inline === undefined && next !== undefined && (needsValue || !next.startsWith("--"))
    if (takesNext) index++
    const text = inline ?? (takesNext ? next : needsValue ? undefined : "true")
    readings.set(
      name.toLowerCase(),
      text === undefined ? { name, source, reason: "needs a value" } : { name, value: emptyIsUnset(text), source }
    )
  }
  return [...readings.values()]
}

const fromFile = (fileName: string): Effect.Effect<Layer, never, FileSystem.FileSystem> =>
  FileSystem.FileSystem.pipe(
    Effect.flatMap((files) => files.readFileString(fileName)),
    Effect.match({
      onSuccess: (text) => fromJson(fileName, text),
      onFailure: ({ reason: { _tag } }) =>
        _tag === "NotFound" ? [] : [{ source: fileName, reason: `cannot be read (${_tag})` }]
    })
  )

/** The members of a JSON object, nested or with colons in their names. */
export const fromJson = (fileName: string, text: string): Layer => {
  const document = Result.try((): unknown => JSON.parse(text))
  if (Result.isFailure(document)) {
    const before = text.slice(0, jsonFaultOffset(text)).split("\n")
    const position = `line ${before.length}, column ${(before.at(-1) ?? "").length + 1}`
    return [{ source: `${fileName}, ${position}`, reason: "malformed JSON" }]
  }
  const repeated = repeatedMember(new TextEncoder().encode(text))
  if (repeated !== undefined) return [{ source: fileName, reason: `has the member ${repeated} twice` }]
  return Predicate.isObject(document.success)
    ? membersOf(fileName, "", document.success)
    : [{ source: fileName, reason: "is not a JSON object" }]
}

const membersOf = (source: string, prefix: string, members: object): Layer =>
  Object.entries(members).flatMap(([member, value]: [string, unknown]): Layer => {
    const name = prefix + member
    if (isScalar(value)) return [{ name, value: emptyIsUnset(String(value)), source }]
    if (Array.isArray(value)) {
      return value.every(isScalar)
        ? [{ name, value: value.map(String), source }]
        : [{ name, source, reason: "a list holds text, numbers, true and false" }]
    }
    return Predicate.isObject(value) && Object.keys(value).length > 0
      ? membersOf(source, `${name}:`, value)
      : [{ name, value: undefined, source }]
  })

const isScalar = (value: unknown) => ["string", "number", "boolean"].includes(typeof value)

/** The offset at which `text` stops being JSON, or its length. */
export const jsonFaultOffset = (text: string): number => {
  const faultIn = (length: number) =>
    Result.match(
      Result.try((): unknown => JSON.parse(text.slice(0, length))),
      { onSuccess: () => "", onFailure: String }
    )
  const position = / JSON at position (\d+) \(line \d+ column \d+\)$/.exec(faultIn(text.length))?.[1]
  if (position !== undefined) return Number(position)
  // V8 gives no position for an unexpected token: the shortest prefix that has one ends with it.
  let [offset, end] = [0, text.length]
  while (offset < end) {
    const middle = (offset + end) >>> 1
    if (faultIn(middle + 1).includes("Unexpected token")) end = middle
    else offset = middle + 1
  }
  return offset
}

/**
 * The values that the layers give, later ones over earlier ones key by key (a list as a whole), and every fault in them.
 */
export const mergeLayers = Effect.fnUntraced(function* (table: SettingsTable, layers: ReadonlyArray<Layer>) {
  const settled = layers.flatMap((layer) => settle(table, layer))
  const given = new Map(settled.filter(isEntry).map((one) => [one.name, one]))
  const [read, unreadable] = yield* Effect.partition(given.values(), readSecretFile)
  return { given: new Map(read.map((one) => [one.name, one])), faults: [...settled.filter(isFault), ...unreadable] }
})

/** An entry by its key: the `whole` of it, the `file` of a secret, or the item of a list at an index. */
interface Placed extends Entry {
  readonly part: "whole" | "file" | number
}

/** The declared key, whatever the case, that `name` sets, and which part of it. */
const placeOf = (table: SettingsTable, name: string): Pick<Placed, "name" | "part"> | undefined => {
  const find = (name = "") => Object.keys(table).find((key) => key.toLowerCase() === name.toLowerCase())
  const whole = find(name)
  if (whole !== undefined) return { name: whole, part: "whole" }
  const [, before, tail = ""] = /^(.*):(.*)$/s.exec(name) ?? []
  const key = find(before)
  if (key === undefined) return undefined
  if (table[key]?.secret && tail.toLowerCase() === "file") return { name: key, part: "file" }
  return table[key]?.form === "list" && /^(?:0|[1-9]\d{0,3})$/.test(tail)
    ? { name: key, part: Number(tail) }
    : undefined
}

/** One layer: at most one entry for each key. */
const settle = (table: SettingsTable, layer: Layer): ReadonlyArray<Placed | Fault> => {
  const placed = layer.filter(isEntry).flatMap((entry) => place(table, entry))
  const byKey = Map.groupBy(placed.filter(isEntry), ({ name }) => name)
  return [...layer.filter(isFault), ...placed.filter(isFault), ...[...byKey.values()].map(settleKey)]
}

const place = (table: SettingsTable, entry: Entry): ReadonlyArray<Placed | Fault> => {
  const { name, value, source } = entry
  const at = placeOf(table, name)
  if (at === undefined) {
    const isSection = value === undefined && Object.keys(table).some(isUnder(name))
    return isSection ? [] : [{ name, source, reason: `unknown key${suggestion(Object.keys(table), name)}` }]
  }
  if (value === undefined) return []
  if (table[at.name]?.form !== "list" || at.part !== "whole") {
    return [
      typeof value === "string" ? { ...entry, ...at } : { name: at.name, source, reason: "takes one value, not a list" }
    ]
  }
  const items = typeof value === "string" ? value.split(",").map((item) => item.trim()) : value
  return [{ ...at, value: typeof value === "string" ? items.filter((item) => item !== "") : value, source }]
}

const settleKey = (parts: ReadonlyArray<Placed>): Placed | Fault => {
  const name = parts[0]?.name ?? ""
  const source = [...new Set(parts.map(({ source }) => source))].join(" and ")
  const [first, ...others] = parts.toSorted((a, b) => Number(a.part) - Number(b.part))
  if (first === undefined || new Set(parts.map(({ part }) => (typeof part === "number" ? "item" : part))).size > 1) {
    return { name, source, reason: "is given in more than one form" }
  }
  if (typeof first.part !== "number")
    return others.length === 0 ? first : { name, source, reason: "is set more than once" }
  const items = [first, ...others]
  return items.every(({ part }, index) => part === index)
    ? { ...first, value: items.flatMap(({ value = [] }) => value) }
    : { name, source, reason: "its items are numbered 0, 1, 2 and so on, each once" }
}

const readSecretFile = (entry: Placed): Effect.Effect<Placed, Fault, FileSystem.FileSystem> => {
  if (entry.part !== "file") return Effect.succeed(entry)
  const path = String(entry.value)
  const fault = (reason: string): Fault => ({ name: entry.name, source: entry.source, reason })
  return FileSystem.FileSystem.pipe(
    Effect.flatMap((files) => files.readFileString(path)),
    Effect.mapError((error) => fault(`cannot read ${path} (${error.reason._tag})`)),
    Effect.map((content) => ({ ...entry, value: content.replace(/\r?\n$/, "") })),
    Effect.filterOrFail(
      ({ value }) => value !== "",
      () => fault(`${path} is empty`)
    )
  )
}

const suggestion = (keys: ReadonlyArray<string>, name: string): string => {
  const similar = keys
    .map((key) => ({ key, distance: editDistance(key.toLowerCase(), name.toLowerCase()) }))
    .filter(({ distance }) => distance <= name.length / 2)
    .toSorted((a, b) => a.distance - b.distance)
  const nearest = keys.find(isUnder(name)) ?? similar[0]?.key
  return nearest === undefined ? "" : `; did you mean ${nearest}?`
}

/** Levenshtein's: how many letters to insert, delete or replace. */
const editDistance = (from: string, to: string): number => {
  let above = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [row, letter] of [...from].entries()) {
    const line = [row + 1]
    for (const [column, other] of [...to].entries()) {
      const replaced = (above[column] ?? 0) + Number(letter !== other)
      line.push(Math.min(replaced, (above[column + 1] ?? 0) + 1, (line[column] ?? 0) + 1))
    }
    above = line
  }
  return above.at(-1) ?? 0
}
