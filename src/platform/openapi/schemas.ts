/** A JSON object of the document. */
export interface Json {
  [member: string]: unknown
}

export const isJson = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Applies `change` to every object of the document, innermost first. */
export const mapSchemas = <A>(value: A, change: (object: Json) => Json): A => {
  if (Array.isArray(value)) return value.map((item: unknown) => mapSchemas(item, change)) as A
  if (!isJson(value)) return value
  const object: Json = {}
  for (const [key, member] of Object.entries(value)) object[key] = mapSchemas(member, change)
  return change(object) as A
}

/** A schema in its shortest form: a constant for an enumeration of one, and one schema for checks that were added one by one. */
export const simplified = (schema: Json): Json => unspecified(constant(untitled(merged(schema))))

/** Merges the parts of an `allOf` that do not contradict each other into one schema. */
const merged = (schema: Json): Json => {
  if (!Array.isArray(schema.allOf)) return schema
  const { allOf, ...result } = schema
  const rest: Array<Json> = []
  for (const part of allOf as Array<Json>) {
    const free = Object.entries(part).every(([key, value]) => narrows(key, result[key], value))
    if (part.$ref === undefined && free) {
      for (const [key, value] of Object.entries(part)) result[key] = narrower(key, result[key], value)
    } else rest.push(part)
  }
  // OpenAPI 3.1 allows texts beside a reference.
  if (rest.length === 1 && Object.keys(result).every((key) => texts.has(key))) return { ...rest[0], ...result }
  return rest.length === 0 ? result : { ...result, allOf: rest }
}

/** The members of a schema that validate nothing. */
export const texts: ReadonlySet<string> = new Set(["default", "description", "examples", "readOnly", "title"])

const bounds: Readonly<Record<string, (a: number, b: number) => number>> = {
  minimum: Math.max,
  minLength: Math.max,
  minItems: Math.max,
  maximum: Math.min,
  maxLength: Math.min,
  maxItems: Math.min
}

const narrows = (key: string, before: unknown, value: unknown): boolean =>
  before === undefined || before === value || key in bounds || key === "examples" || key === "description"

const narrower = (key: string, before: unknown, value: unknown): unknown => {
  const bound = bounds[key]
  return before === undefined || bound === undefined ? value : bound(before as number, value as number)
}

const constant = (schema: Json): Json => {
  if (!Array.isArray(schema.enum) || schema.enum.length !== 1) return schema
  const {
    enum: [value],
    type,
    ...rest
  } = schema
  // Generators take a constant without a type for text.
  return typeof value === "string" ? { const: value, ...rest } : { type, const: value, ...rest }
}

/** Drops the `null` of a schema that leaves it open whether an object has other members. */
const unspecified = (schema: Json): Json => {
  if (schema.additionalProperties !== null) return schema
  const { additionalProperties: _, ...rest } = schema
  return rest
}

/** Drops the titles of generated variants such as `TrialUser.json`. */
const untitled = (schema: Json): Json => {
  if (typeof schema.title !== "string" || !/^\w+\.json\w*$/.test(schema.title)) return schema
  const { title: _, ...rest } = schema
  return rest
}
