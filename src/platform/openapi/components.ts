import { Array as Arr } from "effect"
import { isJson, type Json } from "./schemas.ts"

// In this order: responses have headers and examples of their own.
const kinds = ["parameters", "responses", "headers", "examples"] as const

/** What is below these members is content: a schema may have a property `headers`. */
const contents: ReadonlySet<string> = new Set(["schema", "example", "value"])

interface Document extends Json {
  readonly components: Record<string, Json>
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
          ? parameterName(String(value.name), operationId, shared)
          : freeName(kind === "responses" ? responseName(value, key, same) : key, shared)
      shared[name] = value
      for (const place of same) place.holder[place.key] = { $ref: `#/components/${kind}/${name}` }
    }
    components[kind] = sorted(shared)
  }
  return copy
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

/** The status of a response that many operations have; else the names of its schemas, or its operation's if one is anonymous. */
const responseName = ({ content }: Json, status: string, places: ReadonlyArray<Place>): string => {
  if (places.length >= leastUses) return status
  const schemas = Object.values((content ?? {}) as Record<string, { readonly schema: Json }>).flatMap(
    ({ schema }) => (schema.anyOf as ReadonlyArray<Json> | undefined) ?? [schema]
  )
  if (schemas.length === 0) return "NoContent"
  const names = schemas.map(({ $ref }) => (typeof $ref === "string" ? $ref.split("/").at(-1) : undefined))
  if (names.includes(undefined)) return `${String(places[0]?.operationId)}.${status}`
  return names.length > maxNames ? `${names[0]}Or${names.length - 1}Others` : names.join("Or")
}

/** Of several with one name, all but the first are named after an operation, so that no other feature renames them. */
const parameterName = (name: string, operationId: unknown, taken: Json): string =>
  freeName(name in taken ? `${name}.${String(operationId)}` : name, taken)

const freeName = (name: string, taken: Json): string => {
  let free = name
  for (let count = 2; free in taken; count++) free = `${name}${count}`
  return free
}

/** Components in the order of their names. */
export const sorted = (components: Json): Json =>
  Object.fromEntries(Object.entries(components).toSorted(([a], [b]) => (a < b ? -1 : 1)))
