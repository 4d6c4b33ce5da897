import { withForeign } from "../../kernel/http/foreign-format.ts"
import { type Json } from "../../kernel/json/parsed-json.ts"

const tag = { name: "Pages", description: "Pages for people, and metrics for Prometheus. No credential is needed." }

const problem = {
  type: "object",
  description: "The meaning of an error of the service",
  required: ["slug", "type", "status", "statuses", "title", "meaning"],
  properties: {
    slug: { type: "string", examples: ["validation-failed"] },
    type: { type: "string", examples: ["urn:application-manager:problem:validation-failed"] },
    status: { type: "integer", minimum: 400, maximum: 599, examples: [400] },
    statuses: {
      type: "array",
      description: "Every status that it has",
      items: { type: "integer", minimum: 400, maximum: 599 },
      examples: [[400]]
    },
    title: { type: "string", description: "The phrase of the status", examples: ["Bad Request"] },
    meaning: {
      type: "string",
      examples: ["Some values of the request are invalid; `errors` lists each of them."]
    }
  }
}
const aProblem = { $ref: "#/components/schemas/ProblemDefinition" }

/** What a client gets that prefers HTML. */
export const html = { schema: { type: "string", description: "A page, if the client prefers HTML" } }

const refusal = (description: string, schema: Json): Json => ({
  description,
  content: { "application/problem+json": { schema } }
})
const nothing = {
  description: "Not found",
  content: {
    "application/problem+json": { schema: { type: "object", description: "The problem `route-not-found`" } },
    "text/html": html
  }
}

const page = (
  operationId: string,
  summary: string,
  description: string,
  content: Json,
  { responses, ...rest }: Json & { readonly responses?: Json } = {}
): Json => ({
  get: {
    operationId: `pages.${operationId}`,
    summary,
    description,
    tags: [tag.name],
    security: [],
    "x-foreign-format": true,
    ...rest,
    responses: {
      200: { description: "OK", content },
      400: refusal("The request cannot be read", { $ref: "#/components/schemas/BadRequest" }),
      ...responses
    }
  }
})

/** The pages that are served beside the API. */
export const withPages = withForeign({
  tag,
  schemas: { ProblemDefinition: problem },
  paths: {
    "/problems": page("problems", "List the errors", "Every problem of the service.", {
      "application/json": { schema: { type: "array", items: aProblem } },
      "text/html": html
    }),
    "/problems/{slug}": page(
      "problem",
      "Get an error",
      "The end of a problem's `type` is its slug.",
      { "application/json": { schema: aProblem }, "text/html": html },
      {
        responses: { 404: nothing },
        parameters: [
          {
            name: "slug",
            in: "path",
            required: true,
            description: "Which problem",
            schema: { type: "string" },
            example: "validation-failed"
          }
        ]
      }
    ),
    "/metrics": page(
      "metrics",
      "Get the metrics",
      "For Prometheus, where `Telemetry:Prometheus:Enabled`.",
      { "text/plain": { schema: { type: "string", description: "Prometheus' text format" } } },
      { responses: { 404: nothing } }
    )
  }
})
