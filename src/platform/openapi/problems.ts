import { problemMeaning, problemType, statusPhrase } from "../../kernel/problems/problem.ts"
import { isJson, type Json } from "./schemas.ts"

const prefix = problemType("")

const componentOf = (reference: string, components: Json): Json | undefined => {
  const component = components[reference.split("/").at(-1) ?? ""]
  return isJson(component) ? component : undefined
}

/** The slug of a problem's schema; undefined for every other schema. */
const slugOf = (schema: Json | undefined): string | undefined => {
  const properties = schema?.properties as Record<string, Json> | undefined
  const type = properties?.type?.const
  return typeof type === "string" && type.startsWith(prefix) ? type.slice(prefix.length) : undefined
}

/** What all problems have: every standard member except `instance`, and the trace id. */
export const anyProblem = {
  type: "object",
  description: "An error (RFC 9457)",
  properties: {
    type: { type: "string" },
    title: { type: "string" },
    status: { type: "integer", minimum: 400, maximum: 599 },
    detail: { type: "string", description: "What went wrong, for people", examples: ["What went wrong."] },
    traceId: { $ref: "#/components/schemas/TraceId" }
  },
  required: ["type", "title", "status", "detail", "traceId"]
}

/** A problem's schema as it is served. */
export const problemSchema = (schema: Json): Json => {
  const slug = slugOf(schema)
  if (slug === undefined) return schema
  const properties = schema.properties as Record<string, Json>
  const { detail: _, instance: __, status, title, traceId: ___, type, ...extensions } = properties
  const required = (schema.required as ReadonlyArray<string>).filter((name) => name in extensions)
  return {
    type: "object",
    description: problemMeaning(slug, Number(status?.const)),
    allOf: [{ $ref: "#/components/schemas/Problem" }],
    properties: { type, title, status, ...extensions },
    required: ["type", "title", "status", ...required],
    unevaluatedProperties: false
  }
}

/** Keeps the problems that the operation can answer with, and describes the response by its problem if it has only one. */
export const keepProblems = (
  responses: Record<string, Json>,
  components: Json,
  keep: (slug: string) => boolean
): void => {
  for (const [status, response] of Object.entries(responses)) {
    const media = (response.content as Record<string, { schema: Json }> | undefined)?.["application/problem+json"]
    if (media === undefined) continue
    const alternatives = ((media.schema.anyOf as Array<Json> | undefined) ?? [media.schema]).flatMap((one) => {
      const component = componentOf(String(one.$ref), components)
      const slug = slugOf(component)
      return slug !== undefined && keep(slug) ? [{ one, description: String(component?.description) }] : []
    })
    const [first] = alternatives
    if (first === undefined) delete responses[status]
    else {
      media.schema = alternatives.length === 1 ? first.one : { anyOf: alternatives.map(({ one }) => one) }
      response.description = alternatives.length === 1 ? first.description : statusPhrase(Number(status))
    }
  }
}
