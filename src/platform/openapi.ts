import { Predicate, Schema } from "effect"
import { HttpApi, type HttpApiEndpoint, OpenApi } from "effect/http-api"
import { Api } from "../api.ts"
import { exampleOf } from "./openapi-examples.ts"
import { type Json, mapSchemas, merged } from "./openapi-schemas.ts"
import { serviceVersion } from "./version.ts"

/** Component names as a reader knows them: `TrialUser`, `NewTrialUser`, problems without `Encoded`. */
const componentName = (name: string): string =>
  name
    .replace(/Encoded$/, "")
    .replace(/^(.*)\.jsonCreate$/, "New$1")
    .replace(/\.json$/, "")

// The options object is the key of Effect's cache of documents, so it stays one.
const options: OpenApi.FromApiOptions = {
  referencePolicy: ({ ast, identifier }) => {
    const name = identifier ?? (ast.annotations?.title as string | undefined)
    return name !== undefined && /^[A-Z]\w*(?:\.json(?:Create)?)?$/.test(name) ? componentName(name) : undefined
  }
}

interface Operation extends Json {
  parameters: Array<Json & { name: string; in: string; schema: Json }>
  responses: Record<string, Json>
  requestBody?: Json
}

/** The OpenAPI 3.1 document of the service, as clients get it. `serverUrl` is `Api:PublicUrl`. */
export const openApiDocument = (serverUrl: string): Json => {
  const raw = mapSchemas(OpenApi.fromApi(Api, options) as unknown as Json, (object) => problemSchema(merged(object)))
  const document = raw as Json & { paths: Record<string, Record<string, Operation>>; components: { schemas: Json } }
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      const path = endpoint.path.replace(/:(\w+)/g, "{$1}")
      const operation = document.paths[path === "" ? "/" : path]?.[endpoint.method.toLowerCase()]
      if (operation !== undefined) finish(operation, endpoint, document.components.schemas)
    }
  })
  return {
    ...document,
    info: { ...(document.info as Json), version: serviceVersion, license: { name: "Proprietary", identifier: "LicenseRef-Proprietary" } },
    servers: [{ url: serverUrl, description: "This installation" }],
    components: { ...document.components, headers: responseHeaders }
  }
}

const finish = (operation: Operation, endpoint: HttpApiEndpoint.Top, schemas: Json): void => {
  typeParameters(operation, endpoint)
  const repeatable = endpoint.method === "POST" && "409" in operation.responses && operation.security !== undefined
  keepProblems(operation, (slug) => {
    if (slug.startsWith("idempotency-")) return endpoint.method === "POST"
    if (slug === "malformed-json" || slug === "payload-too-large" || slug === "unsupported-media-type") {
      return operation.requestBody !== undefined
    }
    return slug !== "validation-failed" || operation.requestBody !== undefined || operation.parameters.length > 0 || repeatable
  })
  if (operation.responses["422"] !== undefined) operation.parameters.push(idempotencyKey)
  for (const [status, response] of Object.entries(operation.responses)) {
    response.description =
      response.description === "<No Content>" ? "Done; no body" : String(response.description ?? "").replaceAll(" | ", " ")
    response.headers = { ...(response.headers as Json | undefined), ...headersOf(status, operation) }
    addExamples(response, schemas)
  }
  if (operation.requestBody !== undefined) addExamples(operation.requestBody, schemas)
  if (Array.isArray(operation.security) && operation.security.length === 0) operation.security = []
}

/** Parameters travel as text, but are documented by what they mean: integers with bounds, booleans. */
const typeParameters = (operation: Operation, endpoint: HttpApiEndpoint.Top): void => {
  for (const [slot, schema] of [
    ["path", endpoint.params],
    ["query", endpoint.query]
  ] as const) {
    if (schema === undefined) continue
    const type = Schema.toJsonSchemaDocument(Schema.toType(schema)).schema as { properties?: Record<string, Json> }
    for (const parameter of operation.parameters) {
      if (parameter.in !== slot) continue
      const meant = type.properties?.[parameter.name]
      const spelled = parameter.schema.pattern !== undefined || parameter.schema.enum !== undefined
      if (spelled && (meant?.type === "integer" || meant?.type === "boolean")) parameter.schema = merged(meant)
      const { description, ...rest } = parameter.schema
      if (Predicate.isString(description)) {
        parameter.description = description
        parameter.schema = rest
      }
    }
  }
}

/** A problem's schema as the edge completes it: every standard member is there, `instance` never is. */
const problemSchema = (schema: Json): Json => {
  const properties = schema.properties as Record<string, Json> | undefined
  const type = properties?.type?.enum as ReadonlyArray<unknown> | undefined
  if (properties === undefined || !String(type?.[0]).startsWith("urn:application-manager:problem:")) return schema
  const { detail, instance: _, status, title, traceId, type: typeSchema, ...extensions } = properties
  const integerStatus = { ...status, type: "integer" }
  return {
    ...schema,
    properties: { type: typeSchema, title, status: integerStatus, detail, ...extensions, traceId },
    required: [...new Set([...(schema.required as ReadonlyArray<string>), "type", "title", "status", "detail", "traceId"])]
  }
}

/** Leaves those problems of each status that the operation can give. */
const keepProblems = (operation: Operation, keep: (slug: string) => boolean): void => {
  for (const [status, response] of Object.entries(operation.responses)) {
    const media = (response.content as Record<string, { schema: Json }> | undefined)?.["application/problem+json"]
    if (media === undefined) continue
    const alternatives = (media.schema.anyOf as Array<Json> | undefined) ?? [media.schema]
    const kept = alternatives.filter((one) => keep(slugOf(String(one.$ref))))
    if (kept.length === 0) delete operation.responses[status]
    else media.schema = kept.length === 1 ? (kept[0] as Json) : { anyOf: kept }
  }
}

const slugOf = (reference: string): string =>
  (reference.split("/").at(-1) ?? "").replace(/([a-z])([A-Z])/g, "$1-$2").toLowerCase()

const addExamples = (holder: Json, schemas: Json): void => {
  for (const media of Object.values((holder.content as Record<string, Json> | undefined) ?? {})) {
    if (media.example === undefined && media.examples === undefined) {
      const example = exampleOf(media.schema as Json, schemas)
      if (example !== undefined) media.example = example
    }
  }
}

const idempotencyKey = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description: "Makes the request repeatable: for 24 hours the first answer is given again.",
  schema: { type: "string", minLength: 1, maxLength: 255, examples: ["8e03978e-40d5-43dd-bc93-6894a57f9324"] }
}

const headersOf = (status: string, operation: Operation): Json => ({
  "X-Request-Id": { $ref: "#/components/headers/X-Request-Id" },
  ...(operation.responses["429"] === undefined ? {} : { RateLimit: { $ref: "#/components/headers/RateLimit" } }),
  ...(status === "429" || status === "503" ? { "Retry-After": { $ref: "#/components/headers/Retry-After" } } : {})
})

const responseHeaders = {
  "X-Request-Id": {
    description: "The caller's X-Request-Id when it is 1 to 128 of A-Z a-z 0-9 . _ -, else one made here",
    schema: { type: "string", examples: ["mCy6ymLWY9Tt-0"] }
  },
  RateLimit: {
    description: "What is left of the caller's requests: r requests for the next t seconds (IETF ratelimit-headers draft)",
    schema: { type: "string", examples: ['"principal";r=5999;t=60'] }
  },
  "Retry-After": {
    description: "Seconds after which to try again",
    schema: { type: "integer", minimum: 1, maximum: 3600, examples: [2] }
  }
}
