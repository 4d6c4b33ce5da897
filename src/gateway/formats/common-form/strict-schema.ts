import { Predicate } from "effect"

/**
 * Whether OpenAI takes a schema as strict: each object requires all its properties and allows no others (OpenAI,
 * "Structured Outputs", supported schemas). It refuses a request that calls another schema strict.
 */
export const isStrict = (schema: unknown): boolean => {
  if (Array.isArray(schema)) return schema.every(isStrict)
  if (!Predicate.isObject(schema)) return true
  const { type, properties, required } = schema as Readonly<Record<string, unknown>>
  if ([type].flat().includes("object") || Predicate.isObject(properties)) {
    const needed: ReadonlyArray<unknown> = Array.isArray(required) ? required : []
    if (!("additionalProperties" in schema) || schema.additionalProperties !== false) return false
    if (!Object.keys(properties ?? {}).every((name) => needed.includes(name))) return false
  }
  return Object.values(schema).every(isStrict)
}
