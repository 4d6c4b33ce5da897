import { isJson, type Json } from "./schemas.ts"

/** The component that a reference such as `#/components/schemas/TrialUser` names. */
export const resolved = (reference: string, components: Json): Json | undefined => {
  const component = components[nameOf(reference)]
  return isJson(component) ? component : undefined
}

const nameOf = (reference: string): string => reference.split("/").at(-1) ?? ""

/** An example composed of the examples of the parts; undefined if a required part has none. */
export const exampleOf = (schema: Json | undefined, components: Json, depth = 0): unknown => {
  if (schema === undefined || depth > 12) return undefined
  const within = (part: unknown) => exampleOf(part as Json | undefined, components, depth + 1)
  if (typeof schema.$ref === "string") return within(resolved(schema.$ref, components))
  if (Array.isArray(schema.examples)) return schema.examples[0] as unknown
  // A reference with a description of its own.
  if (Array.isArray(schema.allOf)) return within(schema.allOf[0])
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

/** Adds examples to each body of a request or response: a named one for each component, or a single one. */
export const addExamples = (holder: Json, components: Json): void => {
  for (const media of Object.values((holder.content as Record<string, Json> | undefined) ?? {})) {
    if (media.example !== undefined || media.examples !== undefined) continue
    const schema = media.schema as Json
    const alternatives = ((schema.anyOf as Array<Json> | undefined) ?? [schema]).map(({ $ref }) => $ref)
    if (alternatives.every((reference) => typeof reference === "string")) {
      media.examples = Object.fromEntries(
        alternatives.map((reference) => [nameOf(reference), { value: exampleOf({ $ref: reference }, components) }])
      )
    } else {
      const example = exampleOf(schema, components)
      if (example !== undefined) media.example = example
    }
  }
}
