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

/** Merges the parts of an `allOf` that do not contradict each other into one schema: checks that were added one by one. */
export const merged = (schema: Json): Json => {
  if (!Array.isArray(schema.allOf)) return untitled(schema)
  const { allOf, ...result } = schema
  const rest: Array<Json> = []
  for (const part of allOf as Array<Json>) {
    const free = Object.entries(part).every(([key, value]) => narrows(key, result[key], value))
    if (part.$ref === undefined && free) {
      for (const [key, value] of Object.entries(part)) result[key] = narrower(key, result[key], value)
    } else rest.push(part)
  }
  return untitled(rest.length === 0 ? result : { ...result, allOf: rest })
}

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

/** Drops the titles of generated variants such as `TrialUser.json`. */
const untitled = (schema: Json): Json => {
  if (typeof schema.title !== "string" || !/^\w+\.json\w*$/.test(schema.title)) return schema
  const { title: _, ...rest } = schema
  return rest
}
