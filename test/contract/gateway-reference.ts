import { Schema, SchemaAST } from "effect"
import { ModelFamily } from "../../src/gateway/catalog/catalogue-domain.ts"
import { GatewayDocument } from "../../src/gateway/configuration/configuration-domain.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- a JSON Schema of any shape
type Json = any

const referenceOf = (document: Schema.Top): string => {
  const { definitions, schema: root }: Json = Schema.toJsonSchemaDocument(document)

  /** A schema with what it refers to and what its parts add, in one object. */
  const flat = (schema: Json): Json => {
    const { $ref, allOf = [], ...own } = schema
    const base = $ref === undefined ? {} : flat(definitions[$ref.split("/").at(-1)])
    return Object.assign({}, base, ...allOf.map(flat), own)
  }

  const formOf = ({ enum: values, items, maximum, minimum, type }: Json): string => {
    if (values !== undefined) return values.map((value: string) => `\`${value}\``).join(", ")
    if (type === "array") return `list of ${flat(items).type === "object" ? "objects" : "texts"}`
    if (type === "integer") return maximum === 2_147_483_647 ? "whole number" : `${minimum} to ${maximum}`
    return { number: "US dollars", string: "text", boolean: "true or false", object: "object" }[type as string] ?? type
  }

  /** The members of what a schema describes: of an object its own, of a list those of its items. */
  const membersOf = (ast: SchemaAST.AST): ReadonlyArray<SchemaAST.PropertySignature> => {
    if (SchemaAST.isObjects(ast)) return ast.propertySignatures
    return SchemaAST.isArrays(ast) ? ast.rest.flatMap(membersOf) : []
  }

  /** What tells a variant of a union apart: the members that have one value. */
  const labelOf = ({ properties }: Json): string =>
    Object.values<Json>(properties)
      .flatMap((value) => (flat(value).enum?.length === 1 ? flat(value).enum : []))
      .join(" ")

  /** The variants of a union with what describes them; none of what is no union. */
  const variantsOf = (value: Json, ast: SchemaAST.AST) =>
    SchemaAST.isUnion(ast) && value.anyOf !== undefined
      ? ast.types.map((type, index) => ({ type, schema: flat(value.anyOf[index]) }))
      : []

  /** Where objects with several members are described, by what is said of these. */
  const described = new Map<string, string>()

  const rows = (schema: Json, ast: SchemaAST.AST, at: string): ReadonlyArray<string> => {
    const { properties = {}, required = [] } = flat(schema)
    return membersOf(ast).flatMap(({ name, type }) => {
      const value = flat(properties[name])
      const path = `${at}${String(name)}`
      if (at.endsWith(").") && value.enum?.length === 1) return []
      const meaning = type.context?.annotations?.description
      if (typeof meaning !== "string") throw new Error(`Nothing says what ${path} means`)
      const variants = variantsOf(value, type)
      if (variants.length > 0) {
        const labels = variants.map(({ schema }) => `\`${labelOf(schema)}\``).join(", ")
        const needed = required.includes(name) ? "yes" : ""
        return [`| \`${path}\` | object by its \`type\`: ${labels} | ${needed} | ${meaning} |`].concat(
          variants.flatMap(({ schema, type }) => rows(schema, type, `${path}(${labelOf(schema)}).`))
        )
      }
      const [inner, within] = value.type === "array" ? [value.items, `${path}[].`] : [value, `${path}.`]
      const key = JSON.stringify(Object.entries(flat(inner).properties ?? {}))
      const before = described.get(key)
      const isLong = membersOf(type).length > 3
      if (isLong && before === undefined) described.set(key, path)
      const said = isLong && before !== undefined ? `${meaning}. Its members are those of \`${before}\`` : meaning
      const row = `| \`${path}\` | ${formOf(value)} | ${required.includes(name) ? "yes" : ""} | ${said} |`
      return [row].concat(isLong && before !== undefined ? [] : rows(inner, type, within))
    })
  }

  return [
    "| Member | Value | Needed | Meaning |",
    "| --- | --- | --- | --- |",
    ...rows(root, Schema.toType(document).ast, "")
  ].join("\n")
}

/** Every member of the gateway's configuration, in a Markdown table: what it may be, whether it is needed, what it means. */
export const gatewayReference: string = referenceOf(GatewayDocument)

/** The same of a family of the catalogue. */
export const familyReference: string = referenceOf(ModelFamily)
