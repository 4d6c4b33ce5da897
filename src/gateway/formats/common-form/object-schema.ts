import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"

const unions = ["anyOf", "oneOf", "allOf"] as const

/** No schema of a tool refers further. */
const deepest = 16

/** The schema that a reference within another one is to. */
const resolved = (schema: Json, root: Json): Json => {
  const { $ref: reference, ...rest } = schema
  if (typeof reference !== "string" || !reference.startsWith("#/")) return schema
  let found: unknown = root
  for (const step of reference.slice(2).split("/")) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~")
    found = isJson(found) && Object.hasOwn(found, name) ? found[name] : undefined
  }
  return isJson(found) ? { ...found, ...rest } : rest
}

const namesIn = (value: unknown): ReadonlyArray<string> => listIn(value).filter((name) => typeof name === "string")

interface ObjectShape {
  readonly properties: ReadonlyMap<string, ReadonlyArray<unknown>>
  readonly required: ReadonlySet<string>
  readonly isClosed: boolean
}

const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)

/** The properties of several shapes, each with all schemas that it has in any of them. */
const propertiesOf = (shapes: ReadonlyArray<ObjectShape>): ObjectShape["properties"] => {
  const all = new Map<string, Array<unknown>>()
  for (const shape of shapes) {
    for (const [name, schemas] of shape.properties) {
      const known = all.get(name) ?? []
      all.set(name, known)
      for (const schema of schemas) if (!known.some((one) => isSame(one, schema))) known.push(schema)
    }
  }
  return all
}

const allOf = (shapes: ReadonlyArray<ObjectShape>): ObjectShape => ({
  properties: propertiesOf(shapes),
  required: new Set(shapes.flatMap(({ required }) => [...required])),
  isClosed: shapes.some(({ isClosed }) => isClosed)
})

const anyOf = (shapes: ReadonlyArray<ObjectShape>): ObjectShape => ({
  properties: propertiesOf(shapes),
  required: new Set(
    [...(shapes[0]?.required ?? [])].filter((name) => shapes.every(({ required }) => required.has(name)))
  ),
  isClosed: shapes.every(({ isClosed }) => isClosed)
})

const shapeOf = (given: Json, root: Json, depth: number): ObjectShape => {
  const schema = resolved(given, root)
  const own: ObjectShape = {
    properties: new Map(
      Object.entries(isJson(schema.properties) ? schema.properties : {}).map(([name, one]) => [name, [one]])
    ),
    required: new Set(namesIn(schema.required)),
    isClosed: schema.additionalProperties === false
  }
  if (depth > deepest) return own
  const parts = unions.flatMap((name) => {
    const shapes = listIn(schema[name])
      .filter(isJson)
      .map((one) => shapeOf(one, root, depth + 1))
    return shapes.length === 0 ? [] : [name === "allOf" ? allOf(shapes) : anyOf(shapes)]
  })
  return allOf([own, ...parts])
}

/** Whether a schema has alternatives, or a reference, where providers demand an object. */
export const isUnion = (schema: Json): boolean =>
  typeof schema.$ref === "string" || unions.some((name) => listIn(schema[name]).length > 0)

/** What each alternative requires, for the model. */
const alternatives = (schema: Json): string => {
  const sets = [...listIn(schema.anyOf), ...listIn(schema.oneOf)]
    .filter(isJson)
    .map((one) => [...shapeOf(one, schema, 0).required].join(" and "))
    .filter((names) => names !== "")
  return sets.length < 2 ? "" : `Requires ${sets.join(", or ")}.`
}

/**
 * The parameters of a tool as one object: Anthropic and Gemini refuse all tools of a request where one of them has
 * alternatives at the top. These are merged, and what all of them require stays required.
 */
export const objectSchema = (given: Json | null | undefined): Json => {
  const schema = given ?? { properties: {} }
  if (!isUnion(schema)) return Object.assign({ type: "object" }, schema, { type: "object" })
  const { $ref: _, additionalProperties, allOf: __, anyOf: ___, description, oneOf: ____, ...rest } = schema
  const { isClosed, properties, required } = shapeOf(schema, schema, 0)
  const merged = Array.from(properties, ([name, all]) => [name, all.length === 1 ? all[0] : { anyOf: all }])
  const described = [description, alternatives(schema)].filter((text) => typeof text === "string" && text !== "")
  return Object.assign({ type: "object" }, rest, {
    type: "object",
    ...(described.length === 0 ? {} : { description: described.join(" ") }),
    properties: Object.fromEntries(merged),
    required: [...required],
    ...(isClosed ? { additionalProperties: false } : isJson(additionalProperties) ? { additionalProperties } : {})
  })
}
