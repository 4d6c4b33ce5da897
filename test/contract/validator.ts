import { default as formats } from "ajv-formats"
import { Ajv2020 } from "ajv/dist/2020.js"
import { document, type Json } from "./document.ts"

const componentUri = (name: string): string => `component:${name}`

const withUris = (schema: Json): Json =>
  JSON.parse(JSON.stringify(schema).replaceAll('"#/components/schemas/', '"component:')) as Json

const ajv = new Ajv2020({ allErrors: true, strict: true })
formats.default(ajv)
for (const [name, schema] of Object.entries(document.components.schemas)) {
  ajv.addSchema({ $id: componentUri(name), ...withUris(schema) })
}

type Validate = ReturnType<typeof ajv.compile>
const compiled = new Map<Json, Validate>()

const validateOf = (schema: Json): Validate => {
  const known = compiled.get(schema)
  if (known !== undefined) return known
  const validate = ajv.compile(withUris(schema))
  compiled.set(schema, validate)
  return validate
}

/** What is wrong with a value by a schema of the document, one line for each fault; empty when it conforms. */
export const faultsOf = (schema: Json, value: unknown): ReadonlyArray<string> => {
  const validate = validateOf(schema)
  return validate(value)
    ? []
    : (validate.errors ?? []).map(
        ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`
      )
}
