import { Context, Equal, SchemaAST } from "effect"
import { type HttpApi, type HttpApiEndpoint, OpenApi } from "effect/http-api"
import { anyCredential } from "../../kernel/authority/access.ts"
import { takesNoBody } from "../../kernel/http/optional-body.ts"
import { answersResource, makeResources } from "../../kernel/http/resources.ts"
import { statusPhrase } from "../../kernel/problems/problem.ts"
import { ForBrowsers } from "../../kernel/problems/validation.ts"
import { untyped } from "../http/served-api.ts"
import { serviceVersion } from "../runtime/version.ts"
import { withSharedComponents, sorted } from "./components.ts"
import { attachment, entityTag, headersOf, idempotencyKey, ifMatch, ifNoneMatch } from "./headers.ts"
import { html, withPages } from "./pages.ts"
import { anyProblem, keepProblems, problemSchema } from "./problems.ts"
import { type Json, mapSchemas, simplified } from "./schemas.ts"
import { withoutVariants } from "./variants.ts"

/** Component names as a reader knows them: `TrialUser`, `NewTrialUser`, problems without `Encoded`. */
const componentName = (name: string): string =>
  name
    .replace(/Encoded$/, "")
    .replace(/^(.*)\.jsonCreate$/, "New$1")
    .replace(/\.json$/, "")

const componentOf = SchemaAST.resolveAt<string>("component")

// Effect caches documents by the identity of this object.
const options: OpenApi.FromApiOptions = {
  // Effect closes every object, and those of others are open.
  includeAnnotationKey: (key) => key === "additionalProperties",
  referencePolicy: ({ ast, identifier }) => {
    // An `identifier` is named in messages, too ("Expected Uuid"); a `component` is not.
    const name = componentOf(ast) ?? identifier ?? (ast.annotations?.title as string | undefined)
    return name !== undefined && /^[A-Z]\w*(?:\.json(?:Create)?)?$/.test(name) ? componentName(name) : undefined
  }
}

interface Operation extends Json {
  parameters: Array<Json & { name: string; in: string; schema: Json }>
  responses: Record<string, Json>
  requestBody?: Json
}

interface Document extends Json {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Json; readonly securitySchemes: Json }
}

/** The OpenAPI 3.1 document of the service, as clients get it. `serverUrl` is `Api:PublicUrl`. */
export const openApiDocument = (served: HttpApi.Constraint, serverUrl: string): Json =>
  withSharedComponents(inlineDocument(served, serverUrl))

/** The same document with every response, parameter, header and example inline. */
export const inlineDocument = (served: HttpApi.Constraint, serverUrl: string): Json => {
  const api = untyped(served).annotateMerge(
    OpenApi.annotations({
      version: serviceVersion,
      license: { name: "Proprietary", identifier: "LicenseRef-Proprietary" },
      servers: [{ url: serverUrl, description: "This installation" }]
    })
  )
  const raw = OpenApi.fromApi(api, options) as unknown as Json
  const endpoints = endpointsOf(served)
  const conditions = conditionsOf(endpoints)
  const document = withoutVariants(mapSchemas(raw, (object) => problemSchema(simplified(object)))) as Document
  for (const methods of Object.values(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      if (Equal.equals(operation.security, anyCredential)) delete operation.security
      if (operation["x-foreign-format"] !== true) {
        const endpoint = endpoints.get(String(operation.operationId))
        if (endpoint !== undefined) {
          conditions(operation, endpoint)
          if (takesNoBody(endpoint)) operation.requestBody = { ...operation.requestBody, required: false }
        }
        finish(operation, method, document.components.schemas)
        if (endpoint !== undefined && Context.get(endpoint.annotations, ForBrowsers)) addPages(operation)
      }
      addHeaders(operation)
    }
  }
  const { components, ...whole } = withPages(document) as Document
  return {
    ...whole,
    security: anyCredential,
    components: {
      schemas: sorted({ ...components.schemas, Problem: anyProblem }),
      securitySchemes: { ...securitySchemes, ...components.securitySchemes }
    }
  }
}

const securitySchemes = {
  apiKey: { type: "apiKey", in: "header", name: "X-Api-Key" },
  bearer: {
    type: "http",
    scheme: "bearer",
    description: "An agent's access token, or the session token of an account that signed in"
  },
  session: {
    type: "apiKey",
    in: "cookie",
    name: "am_session",
    description: "The session token as a browser keeps it; over https the cookie is __Host-am_session"
  }
}

const bodyProblems = new Set(["malformed-json", "unsupported-media-type"])

const finish = (operation: Operation, method: string, components: Json): void => {
  const { requestBody, responses } = operation
  operation.parameters = operation.parameters.map(({ required, schema: { description, ...schema }, ...parameter }) => ({
    ...parameter,
    ...(required === true ? { required } : {}),
    schema,
    ...(description === undefined ? {} : { description })
  }))
  const validated = requestBody !== undefined || operation.parameters.length > 0
  const repeatable = method === "post" && responses["422"] !== undefined
  const conditional = operation.parameters.some(({ name }) => name === ifNoneMatch.name)
  keepProblems(responses, components, (slug) => {
    if (slug === "version-mismatch") return conditional
    if (slug.startsWith("idempotency-")) return repeatable
    // The body of an idempotent request is read even if the endpoint has no payload.
    if (slug === "payload-too-large") return requestBody !== undefined || repeatable
    if (bodyProblems.has(slug)) return requestBody !== undefined
    return slug !== "validation-failed" || validated
  })
  if (responses["422"] !== undefined) operation.parameters.push(idempotencyKey)
  for (const [status, response] of Object.entries(responses)) {
    for (const [type, media] of Object.entries((response.content ?? {}) as Record<string, Json>)) {
      const isStream = media["x-effect-stream"] !== undefined
      delete media["x-effect-stream"]
      if (isStream && type !== "text/event-stream") response.headers = { ...(response.headers as Json), ...attachment }
      // Effect takes every stream for one of bytes.
      if (isText(type) && isBinary(media.schema)) media.schema = { type: "string" }
    }
    if (status.startsWith("2")) response.description = successes[status] ?? statusPhrase(Number(status))
  }
}

/** Adds to the problems of an operation that browsers visit how they get them. */
const addPages = ({ responses }: Operation): void => {
  for (const [status, response] of Object.entries(responses)) {
    if (status >= "400") response.content = { ...(response.content as Json), "text/html": html }
  }
}

/** Every endpoint, by the id of its operation. */
const endpointsOf = (served: HttpApi.Constraint): ReadonlyMap<string, HttpApiEndpoint.Top> =>
  new Map(
    Object.values(untyped(served).groups).flatMap((group) =>
      Object.values(group.endpoints).map(
        (endpoint) => [`${group.identifier}.${endpoint.identifier}`, endpoint] as const
      )
    )
  )

/** Adds to an operation the conditional headers that it takes, and the entity tags of its answers. */
const conditionsOf = (endpoints: ReadonlyMap<string, HttpApiEndpoint.Top>) => {
  const resources = makeResources<true>()
  for (const endpoint of endpoints.values()) resources.add(endpoint, true)
  return (operation: Operation, endpoint: HttpApiEndpoint.Top): void => {
    if (endpoint.method === "GET" && !answersResource(endpoint)) return
    operation.parameters.push(ifMatch, ifNoneMatch)
    for (const [status, response] of Object.entries(operation.responses)) {
      const { etag, ...headers } = (response.headers ?? {}) as Json
      const isTagged =
        status.startsWith("2") &&
        (etag !== undefined || answersResource(endpoint) || resources.shownBy(endpoint) !== undefined)
      if (isTagged) response.headers = { ...headers, ETag: etag ?? entityTag }
    }
    if (endpoint.method === "GET")
      operation.responses[304] = { description: "Not Modified", headers: { ETag: entityTag } }
  }
}

const isText = (mediaType: string): boolean => /^text\/|[/+](?:x-nd)?json$/.test(mediaType)

const isBinary = (schema: unknown): boolean => (schema as Json | undefined)?.format === "binary"

/** Adds what the service itself sends with every answer of the operation. */
const addHeaders = ({ parameters, responses, ...operation }: Operation): void => {
  const isReplayed = parameters?.includes(idempotencyKey) ?? false
  for (const [status, response] of Object.entries(responses)) {
    // Paths in others' formats have the headers wherever a request counts; they are documented where it is refused.
    const isCounted = operation["x-foreign-format"] !== true || status === "401" || status === "429"
    const isLimited = isCounted && responses["429"] !== undefined
    response.headers = { ...(response.headers as Json | undefined), ...headersOf(status, isLimited, isReplayed) }
  }
}

const successes: Readonly<Record<string, string>> = {
  200: "OK",
  201: "Created",
  202: "Accepted",
  204: "Done; no body"
}
