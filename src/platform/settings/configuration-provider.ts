import { Array, ConfigProvider, Effect, FileSystem, Result } from "effect"
import { type Entry, type Fault, type Readings } from "./configuration-sources.ts"

/** What the provider has to know of a declared key. */
export interface Declaration {
  /** A `flag` may stand alone on the command line; a `list` is also written `a,b` or as `Key:0`, `Key:1`. */
  readonly form: "flag" | "value" | "list"
  /** A secret may also come from the file that `Key:File` names. */
  readonly secret: boolean
}

/** Declarations by key (`Api:Swagger:Enabled`). */
export type Declarations = Readonly<Record<string, Declaration>>

/** The text of a key (the items of a list) and where it was set. */
export interface Given {
  readonly value: string | ReadonlyArray<string>
  readonly source: string
}

/** An entry that belongs to `key`: as a `whole`, as the `file` of a secret or as the item of a list at an index. */
interface Placed {
  readonly key: string
  readonly part: "whole" | "file" | number
  readonly value: string | ReadonlyArray<string>
  readonly source: string
}

/** Finds the declared key, whatever the case, that `name` sets, and which part of it. */
export const placeOf = (declarations: Declarations) => {
  const keys = new Map(Object.keys(declarations).map((key) => [key.toLowerCase(), key]))
  return (name: string): Pick<Placed, "key" | "part"> | undefined => {
    const lower = name.toLowerCase()
    const whole = keys.get(lower)
    if (whole !== undefined) return { key: whole, part: "whole" }
    const colon = lower.lastIndexOf(":")
    const key = keys.get(lower.slice(0, Math.max(colon, 0)))
    const tail = lower.slice(colon + 1)
    if (key !== undefined && declarations[key]?.secret === true && tail === "file") return { key, part: "file" }
    if (key !== undefined && declarations[key]?.form === "list" && /^(?:0|[1-9]\d{0,3})$/.test(tail)) {
      return { key, part: Number(tail) }
    }
    return undefined
  }
}

/**
 * What the layers give, later ones over earlier ones key by key (a list as a whole), with the files of secrets read.
 * Answers every fault that it meets instead of failing at the first.
 */
export const mergeLayers = Effect.fnUntraced(function* (declarations: Declarations, layers: ReadonlyArray<Readings>) {
  const settled = layers.flatMap((readings) => settle(declarations, readings))
  const merged = new Map(Array.getSuccesses(settled).map((given) => [given.key, given]))
  const read = yield* Effect.forEach(merged.values(), (given) => Effect.result(readSecretFile(given)))
  return {
    given: new Map<string, Given>(Array.getSuccesses(read).map(({ key, value, source }) => [key, { value, source }])),
    faults: [...Array.getFailures(settled), ...Array.getFailures(read)]
  }
})

/** One layer: at most one value for each key. */
const settle = (declarations: Declarations, readings: Readings): ReadonlyArray<Result.Result<Placed, Fault>> => {
  const place = placeOf(declarations)
  const placed = Array.getSuccesses(readings).flatMap((entry): ReadonlyArray<Result.Result<Placed, Fault>> => {
    const { name, value, source } = entry
    const at = place(name)
    if (at === undefined) {
      const isSection = value === undefined && keysUnder(declarations, name).length > 0
      return isSection ? [] : [Result.fail(unknownKey(declarations, entry))]
    }
    if (value === undefined) return []
    const isList = declarations[at.key]?.form === "list" && at.part === "whole"
    if (typeof value !== "string" && !isList) {
      return [Result.fail({ name: at.key, source, reason: "takes one value, not a list" })]
    }
    return [Result.succeed({ ...at, value: isList && typeof value === "string" ? itemsOf(value) : value, source })]
  })
  const byKey = Map.groupBy(Array.getSuccesses(placed), ({ key }) => key)
  return [
    ...[...Array.getFailures(readings), ...Array.getFailures(placed)].map((fault) => Result.fail(fault)),
    ...[...byKey].map(([key, parts]) => settleKey(key, parts))
  ]
}

const itemsOf = (text: string) =>
  text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "")

const settleKey = (key: string, parts: ReadonlyArray<Placed>): Result.Result<Placed, Fault> => {
  const fault = (reason: string) => {
    const sources = new Set(parts.map(({ source }) => source))
    return Result.fail({ name: key, source: [...sources].join(" and "), reason })
  }
  const forms = new Set(parts.map(({ part }) => (typeof part === "number" ? "item" : part)))
  const [first, ...others] = parts.toSorted((a, b) => Number(a.part) - Number(b.part))
  if (first === undefined || forms.size > 1) return fault("is given in more than one form")
  if (typeof first.part !== "number") {
    return others.length === 0 ? Result.succeed(first) : fault("is set more than once")
  }
  const items = [first, ...others]
  return items.every(({ part }, index) => part === index)
    ? Result.succeed({ ...first, part: "whole", value: items.flatMap(({ value }) => value) })
    : fault("its items are numbered 0, 1, 2 and so on, each once")
}

const readSecretFile = (given: Placed): Effect.Effect<Placed, Fault, FileSystem.FileSystem> => {
  if (given.part !== "file" || typeof given.value !== "string") return Effect.succeed(given)
  const path = given.value
  const fault = (reason: string): Fault => ({ name: given.key, source: given.source, reason })
  return FileSystem.FileSystem.pipe(
    Effect.flatMap((files) => files.readFileString(path)),
    Effect.mapError((error) => fault(`cannot read ${path} (${error.reason._tag})`)),
    Effect.map((content) => content.replace(/\r?\n$/, "")),
    Effect.filterOrFail(
      (content) => content !== "",
      () => fault(`${path} is empty`)
    ),
    Effect.map((value) => ({ ...given, value }))
  )
}

const keysUnder = (declarations: Declarations, section: string) =>
  Object.keys(declarations).filter((key) => key.toLowerCase().startsWith(`${section}:`.toLowerCase()))

const unknownKey = (declarations: Declarations, { name, source }: Entry): Fault => {
  const [nearest] = [
    ...keysUnder(declarations, name),
    ...Object.keys(declarations)
      .map((key) => ({ key, distance: editDistance(key.toLowerCase(), name.toLowerCase()) }))
      .filter(({ distance }) => distance <= name.length / 2)
      .toSorted((a, b) => a.distance - b.distance)
      .map(({ key }) => key)
  ]
  return { name, source, reason: `unknown key${nearest === undefined ? "" : `; did you mean ${nearest}?`}` }
}

/** Levenshtein's: how many letters to insert, delete or replace. */
const editDistance = (from: string, to: string): number => {
  const last = [...from].reduce<ReadonlyArray<number>>(
    (above, letter, row) => {
      const line = [row + 1]
      for (const [column, other] of [...to].entries()) {
        const replaced = (above[column] ?? 0) + (letter === other ? 0 : 1)
        line.push(Math.min(replaced, (above[column + 1] ?? 0) + 1, (line[column] ?? 0) + 1))
      }
      return line
    },
    Array.range(0, to.length)
  )
  return last.at(-1) ?? 0
}

const nodeOf = (value: string | ReadonlyArray<string>) =>
  typeof value === "string" ? ConfigProvider.makeValue(value) : ConfigProvider.makeArray(value.length)

/** A provider of merged values: paths are the parts of a key in any case, items of a list are under their index. */
export const providerOf = (given: ReadonlyMap<string, Given>): ConfigProvider.ConfigProvider => {
  const values = new Map([...given].map(([key, { value }]) => [key.toLowerCase(), value]))
  return ConfigProvider.make((path) => {
    const name = path.join(":").toLowerCase()
    const value = values.get(name)
    if (value !== undefined) return Effect.succeed(nodeOf(value))
    const list = values.get(path.slice(0, -1).join(":").toLowerCase())
    const item = Array.isArray(list) ? list[Number(path.at(-1))] : undefined
    if (item !== undefined) return Effect.succeed(nodeOf(item))
    const depth = path.length
    const members = [...given.keys()].filter((key) => depth === 0 || key.toLowerCase().startsWith(`${name}:`))
    return Effect.succeed(
      members.length === 0
        ? undefined
        : ConfigProvider.makeRecord(new Set(members.map((key) => key.split(":")[depth] ?? key)))
    )
  })
}
