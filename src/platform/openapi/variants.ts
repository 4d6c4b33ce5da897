import { Array as Arr, Record } from "effect"
import { type Json, mapSchemas, texts } from "./schemas.ts"

const prefix = "#/components/schemas/"
const numbered = /#\/components\/schemas\/\w+_\d+"/

interface Document extends Json {
  readonly components: { readonly schemas: Record<string, Json> }
}

/**
 * Replaces the components that Effect numbers, `Uuid_1` beside `Uuid`, since a use has texts of its own or is another object:
 * by a reference to the most used one with those texts beside it, or by their content if more than texts differs.
 */
export const withoutVariants = (document: Json): Json => {
  const { components, ...rest } = document as Document
  const text = JSON.stringify(document)
  const uses = (name: string) => text.split(`"${prefix}${name}"`).length
  const schemas = { ...components.schemas }
  const replacements: Record<string, Json> = {}
  const groups = Arr.groupBy(Object.entries(components.schemas), ([name]) => name.replace(/_\d+$/, ""))
  for (const [base, variants] of Object.entries(groups)) {
    // Those inside others first: whether two are equal shows once they refer to the same.
    if (variants.length === 1 || numbered.test(JSON.stringify(variants.map(([, schema]) => schema)))) continue
    const [, usual] = variants.reduce((a, b) => (uses(b[0]) > uses(a[0]) ? b : a))
    for (const [name, schema] of variants) {
      delete schemas[name]
      const own = Record.filter(schema, (value, key) => JSON.stringify(value) !== JSON.stringify(usual[key]))
      const fits =
        Object.keys(own).every((key) => texts.has(key)) &&
        Object.keys(usual).every((key) => key in schema || key === "examples")
      replacements[prefix + name] = fits ? { $ref: prefix + base, ...own } : schema
    }
    schemas[base] = usual
  }
  if (Object.keys(replacements).length === 0) return document
  const replaced = (object: Json): Json => {
    const { $ref, ...beside } = object
    const replacement = typeof $ref === "string" ? replacements[$ref] : undefined
    return replacement === undefined ? object : { ...replacement, ...beside }
  }
  return withoutVariants(mapSchemas({ ...rest, components: { ...components, schemas } }, replaced))
}
