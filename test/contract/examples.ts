import { dereferenced, type Json } from "./document.ts"

/** An example composed of the examples of the parts; undefined if a required part has none. */
export const exampleOf = (given: Json | undefined, depth = 0): unknown => {
  if (given === undefined || depth > 12) return undefined
  const schema = Array.isArray(given.examples) ? given : dereferenced(given)
  const within = (part: unknown) => exampleOf(part as Json | undefined, depth + 1)
  if (Array.isArray(schema.examples)) return schema.examples[0] as unknown
  if (Array.isArray(schema.allOf)) {
    const { allOf, ...own } = schema
    return Object.assign({}, ...[...allOf, own].map(within)) as unknown
  }
  if (schema.const !== undefined) return schema.const
  if (Array.isArray(schema.enum)) return schema.enum[0] as unknown
  const alternatives = (schema.anyOf ?? schema.oneOf) as ReadonlyArray<Json> | undefined
  if (alternatives !== undefined) {
    const examples = alternatives.map(within)
    return examples.find((example) => example !== undefined && example !== null) ?? examples[0]
  }
  switch (schema.type) {
    case "null":
      return null
    case "boolean":
      return true
    case "integer":
    case "number":
      return schema.minimum ?? 0
    case "string":
      return "text"
    case "array": {
      const item = within(schema.items)
      return item === undefined ? [] : [item]
    }
    case "object": {
      const members = Object.entries((schema.properties ?? {}) as Record<string, Json>)
        .filter(([, property]) => property.readOnly !== true)
        .map(([name, property]) => [name, within(property)])
      return Object.fromEntries(members.filter(([, value]) => value !== undefined))
    }
    default:
      return undefined
  }
}
