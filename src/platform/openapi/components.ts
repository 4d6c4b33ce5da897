import { Array as Arr, Equal } from "effect"
import { STATUS_CODES } from "node:http"
import { isJson, type Json } from "./schemas.ts"

// In this order: responses have headers and examples of their own.
const kinds = ["parameters", "responses", "headers", "examples"] as const

/** What is below these members is content: a schema may have a property `headers`. */
const contents: ReadonlySet<string> = new Set(["schema", "example", "value"])

interface Document extends Json {
  readonly components: Record<string, Json>
  readonly paths: Readonly<Record<string, Json>>
}

interface Operation {
  parameters?: ReadonlyArray<Json>
}

/** A member of `holder`, in the operation of that id. */
interface Place {
  readonly holder: Json
  readonly key: string
  readonly operationId: unknown
}

/**
 * Turns every value that the document repeats into a component, and its places into references. Generated clients then have
 * one type for it, and the document is less than a third as large.
 */
export const withSharedComponents = (document: Json): Json => {
  // In a copy no two places share an object, so replacing one leaves the others.
  const copy = JSON.parse(JSON.stringify(document)) as Document
  const { components, paths } = copy
  for (const path of Object.values(paths)) hoistParameters(path)
  for (const kind of kinds) {
    const places = placesOf(kind, { paths, responses: components.responses })
    const shared: Json = {}
    const groups = Object.values(Arr.groupBy(places, ({ holder, key }) => JSON.stringify(holder[key])))
    for (const same of groups) {
      const [{ holder, key, operationId }] = same
      if (same.length === 1) continue
      const value = holder[key] as Json
      const name =
        kind === "parameters"
          ? parameterName(value, operationId, shared)
          : freeName(kind === "responses" ? responseName(value, key, same) : key, shared)
      shared[name] = value
      for (const place of same) place.holder[place.key] = { $ref: `#/components/${kind}/${name}` }
    }
    components[kind] = sorted(shared)
  }
  return copy
}

/** Moves the parameters with which all operations of a path begin, if it has several, to the path. */
const hoistParameters = (path: Record<string, unknown>): void => {
  const operations = Object.values(path) as ReadonlyArray<Operation>
  const [first = {}, ...others] = operations
  const common = Arr.takeWhile(
    others.length === 0 ? [] : (first.parameters ?? []),
    (parameter, index) =>
      (parameter.in === "path" || parameter.in === "header") &&
      others.every((other) => Equal.equals(other.parameters?.[index], parameter))
  )
  for (const operation of operations) {
    const own = (operation.parameters ?? []).slice(common.length)
    if (own.length === 0) delete operation.parameters
    else operation.parameters = own
  }
  if (common.length > 0) path.parameters = common
}

/** The members of every `kind` in the document that are no references. */
const placesOf = (kind: string, value: Json, operationId: unknown = value.operationId): ReadonlyArray<Place> =>
  Object.entries(value).flatMap(([member, holder]) => {
    if (typeof holder !== "object" || holder === null || contents.has(member)) return []
    const below = placesOf(kind, holder as Json, value.operationId ?? operationId)
    const own = Object.keys(member === kind ? holder : {})
      .map((key): Place => ({ holder: holder as Json, key, operationId: value.operationId ?? operationId }))
      .filter(({ holder, key }) => isJson(holder[key]) && holder[key].$ref === undefined)
    return own.concat(below)
  })

const maxNames = 3
const leastUses = 50

/** The status of a response that many operations have, in words, since names of types start with a letter; else the names of its schemas, or its operation's if one is anonymous. */
const responseName = ({ content }: Json, status: string, places: ReadonlyArray<Place>): string => {
  const inWords = (STATUS_CODES[status] ?? status).replaceAll(/[^A-Za-z]/g, "")
  if (places.length >= leastUses) return inWords
  const schemas = Object.values((content ?? {}) as Record<string, { readonly schema: Json }>).flatMap(
    ({ schema }) => (schema.anyOf as ReadonlyArray<Json> | undefined) ?? [schema]
  )
  if (schemas.length === 0) return inWords
  const names = schemas.map(({ $ref }) => (typeof $ref === "string" ? $ref.split("/").at(-1) : undefined))
  if (names.includes(undefined)) return `${String(places[0]?.operationId)}.${status}`
  return names.length > maxNames ? `${names[0]}Or${names.length - 1}Others` : names.join("Or")
}

/** Of several with one name, the second is named after its schema too, and all others after an operation. */
const parameterName = (value: Json, operationId: unknown, taken: Json): string => {
  const name = String(value.name)
  const { $ref, type } = value.schema as Json
  const schema = typeof $ref === "string" ? $ref.split("/").at(-1) : String(type)
  const free = [name, `${name}.${schema}`].find((named) => !(named in taken))
  return free ?? freeName(`${name}.${String(operationId)}`, taken)
}

const freeName = (name: string, taken: Json): string => {
  let free = name
  for (let count = 2; free in taken; count++) free = `${name}${count}`
  return free
}

/** Components in the order of their names. */
export const sorted = (components: Json): Json =>
  Object.fromEntries(Object.entries(components).toSorted(([a], [b]) => (a < b ? -1 : 1)))
