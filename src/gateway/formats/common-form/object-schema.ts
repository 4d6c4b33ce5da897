import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"

const unions = ["anyOf", "oneOf", "allOf"] as const

/** How many references are followed, one after the other. */
const deepest = 16

/** The schema that a reference points to. */
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
  /** The schemas of each property, by their text. */
  readonly properties: ReadonlyMap<string, ReadonlyMap<string, unknown>>
  readonly required: ReadonlySet<string>
  readonly isClosed: boolean
}

/** The properties of several shapes, each with all schemas that it has in any of them. */
const propertiesOf = (shapes: ReadonlyArray<ObjectShape>): ObjectShape["properties"] => {
  const all = new Map<string, Map<string, unknown>>()
  for (const shape of shapes) {
    for (const [name, schemas] of shape.properties) {
      const known = all.get(name) ?? new Map<string, unknown>()
      all.set(name, known)
      for (const [text, schema] of schemas) known.set(text, schema)
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

const nothing: ObjectShape = { properties: new Map(), required: new Set(), isClosed: false }

/** So many properties are merged of a tool; what is beyond them is left as it is. */
const maxMerged = 20_000

/** Reads the shapes of a schema, each once, however often and from wherever it is referred to. */
class Shapes {
  private readonly root: Json
  private readonly known = new Map<unknown, ObjectShape>()
  private merged = 0

  constructor(root: Json) {
    this.root = root
  }

  of(given: Json, depth = 0): ObjectShape {
    const key = Object.keys(given).length === 1 ? (given.$ref ?? given) : given
    const before = this.known.get(key)
    if (before !== undefined) return before
    // A schema within itself adds nothing to it.
    this.known.set(key, nothing)
    const shape = this.read(resolved(given, this.root), depth)
    this.known.set(key, shape)
    return shape
  }

  private read(schema: Json, depth: number): ObjectShape {
    const own: ObjectShape = {
      properties: new Map(
        Object.entries(isJson(schema.properties) ? schema.properties : {}).map(([name, one]) => [
          name,
          new Map([[JSON.stringify(one), one]])
        ])
      ),
      required: new Set(namesIn(schema.required)),
      isClosed: schema.additionalProperties === false
    }
    if (depth > deepest) return own
    const parts = unions.flatMap((name) => {
      const shapes = listIn(schema[name])
        .filter(isJson)
        .flatMap((one) => {
          const shape = this.of(one, depth + 1)
          this.merged += 1 + shape.properties.size
          return this.merged > maxMerged ? [] : [shape]
        })
      return shapes.length === 0 ? [] : [name === "allOf" ? allOf(shapes) : anyOf(shapes)]
    })
    return parts.length === 0 ? own : allOf([own, ...parts])
  }
}

/** Whether a schema has alternatives, or a reference, where providers demand an object. */
export const isUnion = (schema: Json): boolean =>
  typeof schema.$ref === "string" || unions.some((name) => listIn(schema[name]).length > 0)

/** What each alternative requires, for the model. */
const alternatives = (schema: Json, shapes: Shapes): string => {
  const sets = [...listIn(schema.anyOf), ...listIn(schema.oneOf)]
    .filter(isJson)
    .map((one) => [...shapes.of(one).required].join(" and "))
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
  const shapes = new Shapes(schema)
  const { isClosed, properties, required } = shapes.of(schema)
  const merged = Array.from(properties, ([name, all]) => {
    const [first, ...others] = all.values()
    return [name, others.length === 0 ? first : { anyOf: [first, ...others] }]
  })
  const described = [description, alternatives(schema, shapes)].filter(
    (text) => typeof text === "string" && text !== ""
  )
  return Object.assign({ type: "object" }, rest, {
    type: "object",
    ...(described.length === 0 ? {} : { description: described.join(" ") }),
    properties: Object.fromEntries(merged),
    required: [...required],
    ...(isClosed ? { additionalProperties: false } : isJson(additionalProperties) ? { additionalProperties } : {})
  })
}
