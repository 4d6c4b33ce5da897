import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../../kernel/lookup-table.ts"

/** Members that Gemini's schemas write as text where JSON Schema has a number. */
const numbers: ReadonlySet<string> = new Set(
  ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"].concat(["minimum", "maximum"])
)

/** Members that are named in snake case, too, by what they are called in JSON Schema. */
const names = lookupTable<string>({
  any_of: "anyOf",
  min_items: "minItems",
  max_items: "maxItems",
  min_length: "minLength",
  max_length: "maxLength",
  min_properties: "minProperties",
  max_properties: "maxProperties"
})

/** Members of Google's own, and those that are written in another form. */
const leftOut: ReadonlySet<string> = new Set(
  ["type", "nullable", "example", "propertyOrdering", "property_ordering"].concat(["properties", "items", "anyOf"])
)

const numberIn = (value: unknown): unknown =>
  typeof value === "string" && /^-?\d+(?:\.\d+)?$/.test(value) ? Number(value) : value

const schemaIn = (value: unknown): unknown => (isJson(value) ? toJsonSchema(value) : value)

/**
 * Translates a schema of Gemini's, which is OpenAPI 3.0 with types in capitals, to JSON Schema. Names of the caller's own,
 * those of properties, are kept.
 */
export const toJsonSchema = (schema: Json): Json => {
  const given = Object.fromEntries(Object.entries(schema).map(([name, value]) => [names[name] ?? name, value]))
  const { anyOf, example, items, nullable, properties, type } = given
  const rest = Object.entries(given)
    .filter(([name]) => !leftOut.has(name))
    .map(([name, value]) => [name, numbers.has(name) ? numberIn(value) : value])
  const named = typeof type === "string" && type !== "TYPE_UNSPECIFIED" ? type.toLowerCase() : undefined
  const isNullable = nullable === true
  const options = Array.isArray(anyOf) ? anyOf.map(schemaIn) : undefined
  const values = isNullable && Array.isArray(given.enum) ? { enum: [...given.enum, null] } : {}
  return {
    ...(named === undefined ? {} : { type: isNullable && named !== "null" ? [named, "null"] : named }),
    ...Object.fromEntries(rest),
    ...values,
    ...(example === undefined ? {} : { examples: [example] }),
    ...(items === undefined ? {} : { items: schemaIn(items) }),
    ...(options === undefined
      ? {}
      : { anyOf: isNullable && named === undefined ? [...options, { type: "null" }] : options }),
    ...(isJson(properties)
      ? { properties: Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, schemaIn(one)])) }
      : {})
  }
}
