import { Array as Arr } from "effect"
import { isJson, type Json } from "./schemas.ts"

type Kind = "responses" | "parameters" | "headers" | "examples"

interface Document extends Json {
  readonly components: Record<string, Json>
  readonly paths: Readonly<Record<string, Json>>
}

/** A place in the document: a member of `holder`, and a name for a component with its value. */
interface Place {
  readonly holder: Json
  readonly key: string
  readonly name: string
}

/**
 * Turns every value that the document repeats into a component, and its places into references. Generated clients then have
 * one type for it, and the document is less than half as large.
 */
export const withSharedComponents = (document: Json): Json => {
  // In a copy no two places share an object, so replacing one leaves the others.
  const copy = JSON.parse(JSON.stringify(document)) as Document
  const { components, paths } = copy
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods) as Array<Json>)
  const share = (kind: Kind, places: ReadonlyArray<Place>): void => {
    const shared: Json = { ...components[kind] }
    const whole = places.filter(({ holder, key }) => (holder[key] as Json).$ref === undefined)
    for (const same of Object.values(Arr.groupBy(whole, ({ holder, key }) => JSON.stringify(holder[key])))) {
      const [{ holder, key, name }] = same
      if (same.length === 1) continue
      const free = freeName(name, shared)
      shared[free] = holder[key]
      for (const place of same) place.holder[place.key] = { $ref: `#/components/${kind}/${free}` }
    }
    components[kind] = sorted(shared)
  }

  share(
    "parameters",
    operations.flatMap(({ parameters }) =>
      membersOf(parameters).map(([key, parameter, holder]) => ({ holder, key, name: String(parameter.name) }))
    )
  )
  share(
    "responses",
    operations.flatMap((operation) =>
      membersOf(operation.responses).map(([status, response, holder]) => ({
        holder,
        key: status,
        name: responseName(response) ?? `${operation.operationId}.${status}`
      }))
    )
  )
  const responses = [
    ...operations.flatMap((operation) => membersOf(operation.responses)),
    ...membersOf(components.responses)
  ].map(([, response]) => response)
  share(
    "headers",
    responses.flatMap(({ headers }) => membersOf(headers).map(([key, , holder]) => ({ holder, key, name: key })))
  )
  share(
    "examples",
    [...responses, ...operations.flatMap(({ requestBody }) => (isJson(requestBody) ? [requestBody] : []))]
      .flatMap(({ content }) => membersOf(content))
      .flatMap(([, { examples }]) => membersOf(examples).map(([key, , holder]) => ({ holder, key, name: key })))
  )
  return copy
}

/** The members of an object or list that are objects themselves. */
const membersOf = (holder: unknown): ReadonlyArray<readonly [key: string, member: Json, holder: Json]> =>
  Object.entries(holder ?? {}).flatMap(([key, member]) =>
    isJson(member) ? [[key, member, holder as Json] as const] : []
  )

const maxNames = 3

/** The names of a response's schemas; undefined if one is anonymous. */
const responseName = ({ content }: Json): string | undefined => {
  const schemas = membersOf(content).map(([, { schema }]) => schema as Json)
  if (schemas.length === 0) return "NoContent"
  const names = schemas
    .flatMap((schema) => (schema.anyOf as ReadonlyArray<Json> | undefined) ?? [schema])
    .map(({ $ref }) => (typeof $ref === "string" ? $ref.split("/").at(-1) : undefined))
  if (names.includes(undefined)) return undefined
  const others = names.length - 1
  return names.length > maxNames ? `${names[0]}Or${others}Others` : names.join("Or")
}

const freeName = (name: string, taken: Json): string => {
  let free = name
  for (let count = 2; free in taken; count++) free = `${name}${count}`
  return free
}

/** Components in the order of their names. */
export const sorted = (components: Json): Json =>
  Object.fromEntries(Object.entries(components).toSorted(([a], [b]) => (a < b ? -1 : 1)))
