import { Record as Rec } from "effect"
import { Api } from "../../src/api.ts"
import { openApiDocument } from "../../src/platform/openapi/openapi.ts"

/** A JSON Schema of the document, or any other JSON object. */
export interface Json {
  readonly [member: string]: unknown
}

export interface Parameter {
  readonly name: string
  readonly in: "path" | "query" | "header"
  readonly required: boolean
  readonly schema: Json
}

export interface MediaType {
  readonly schema: Json
  readonly example?: unknown
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>
}

interface Response {
  readonly description: string
  readonly headers?: Readonly<Record<string, Json>>
  readonly content?: Readonly<Record<string, MediaType>>
}

/** One operation of the document. */
export interface Operation {
  readonly operationId: string
  readonly method: string
  readonly path: string
  readonly summary: string
  readonly description: string
  readonly tags: ReadonlyArray<string>
  readonly security: ReadonlyArray<Json>
  readonly parameters: ReadonlyArray<Parameter>
  readonly requestBody?: { readonly required: boolean; readonly content: Readonly<Record<string, MediaType>> }
  readonly responses: Readonly<Record<string, Response>>
  readonly "x-required-capability"?: string
  readonly "x-or-capabilities"?: ReadonlyArray<string>
  readonly "x-and-capabilities"?: ReadonlyArray<string>
  readonly "x-system-only"?: boolean
  readonly "x-accounts-only"?: boolean
  /** Whether its format is that of vendors' SDKs, OAuth clients, browsers or Prometheus. */
  readonly "x-foreign-format"?: boolean
}

interface OpenApiDocument extends Json {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Omit<Operation, "method" | "path" | "security">>>>>
  readonly security: ReadonlyArray<Json>
  readonly tags: ReadonlyArray<{ readonly name: string; readonly description?: string }>
  readonly components: {
    readonly schemas: Readonly<Record<string, Json>>
    readonly headers: Readonly<Record<string, Json>>
    readonly securitySchemes: Readonly<Record<string, Json>>
  }
}

/** The document as clients get it. */
export const servedDocument: Json = openApiDocument(Api, "http://127.0.0.1:11402")

const shared = /^#\/components\/(responses|parameters|headers|examples)\/(.+)$/

/** The document with every reference but those to schemas replaced by its component, one object for all of them. */
export const withoutReferences = (whole: Json): Json => {
  const components = whole.components as Readonly<Record<string, Json>>
  const visited = new Map<unknown, unknown>()
  const component = (kind: string, name: string): unknown => {
    const found = components[kind]?.[name]
    if (!visited.has(found)) visited.set(found, visit(found))
    return visited.get(found)
  }
  const visit = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(visit)
    if (typeof value !== "object" || value === null) return value
    const [, kind = "", name = ""] = shared.exec(String(Reflect.get(value, "$ref"))) ?? []
    if (name !== "") return component(kind, name)
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, visit(member)]))
  }
  return visit(whole) as Json
}

/** The document with the parameters of each path written at its operations. */
export const withParametersOfPaths = ({ paths, ...whole }: Json): Json => ({
  ...whole,
  paths: Rec.map(paths as Readonly<Record<string, Json>>, ({ parameters = [], ...operations }) =>
    Rec.map(operations as Readonly<Record<string, Json>>, ({ parameters: own = [], ...operation }) => ({
      ...operation,
      parameters: [...(parameters as ReadonlyArray<Json>), ...(own as ReadonlyArray<Json>)]
    }))
  )
})

export const document = withParametersOfPaths(withoutReferences(servedDocument)) as OpenApiDocument

export const documented: ReadonlyArray<Operation> = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) =>
    Object.assign({ method: method.toUpperCase(), path, security: document.security }, operation)
  )
)

/** Every operation of the service's own format, in the order of the document. */
export const operations: ReadonlyArray<Operation> = documented.filter(
  (operation) => operation["x-foreign-format"] !== true
)

const foreignOf = (tag: string): ReadonlyArray<Operation> =>
  documented.filter((operation) => operation["x-foreign-format"] === true && operation.tags.includes(tag))

/** Operations in the format of vendors' SDKs. */
export const compatibleOperations = foreignOf("Compatibility")

/** Pages for people, and metrics for Prometheus. */
export const pages = foreignOf("Pages")

/** Operations for OAuth clients. */
export const oauthOperations = foreignOf("OAuth")

/** The operations that need no credential. */
export const anonymousOperations: ReadonlyArray<string> = [
  "health.get",
  "health.ready",
  "attestation.publicKeys",
  "auth.login",
  "auth.refresh",
  "auth.logout",
  "auth.claim",
  "auth.installation",
  "auth.acceptInvitation",
  "oidcSignIn.providers",
  "oidcSignIn.start",
  "oidcSignIn.callback",
  "agentTokens.token",
  "agentTokens.exchange",
  "workload.configuration",
  "workload.keys",
  "tokenMetadata.keys",
  "tokenMetadata.authorizationServer",
  "tokenMetadata.openIdConfiguration",
  "tokenMetadata.apiResource",
  "tokenMetadata.gatewayResource"
]

/** The operations that authenticate their callers themselves, as their standards have it. */
export const standardOperations: ReadonlyArray<string> = [
  "oauth.token",
  "oauth.introspect",
  "oauth.revoke",
  "registration.register",
  "registration.read",
  "registration.update",
  "registration.delete"
]

/** The operations that do not reveal whether the resource exists. */
export const silentOperations: ReadonlyArray<string> = ["agentCredentials.revoke", "insights.by", "insights.spend"]

/** The operations about the caller itself, which need a credential and no capability. */
export const ownOperations: ReadonlyArray<string> = [
  "auth.me",
  "auth.changePassword",
  "auth.listSessions",
  "auth.endSession",
  "auth.endOtherSessions",
  "subjectTokens.create"
]

export const mutating = (operation: Operation): boolean => ["POST", "PUT", "PATCH", "DELETE"].includes(operation.method)

/** The address with its parameters filled in, percent-encoded: those of the path, and of the query what is given. */
export const pathOf = (operation: Operation, parameters: Readonly<Record<string, string | number>> = {}): string => {
  const value = (name: string) => encodeURIComponent(String(parameters[name]))
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => value(name))
  const query = operation.parameters.flatMap(({ in: place, name }) =>
    place === "query" && Object.hasOwn(parameters, name) ? [`${name}=${value(name)}`] : []
  )
  return query.length === 0 ? path : `${path}?${query.join("&")}`
}

/** The schema of the operation's JSON body; undefined when it has none. */
export const bodySchemaOf = (operation: Operation): Json | undefined =>
  operation.requestBody?.content["application/json"]?.schema

/** The name of the component that a schema refers to. */
export const componentOf = (schema: Json): string | undefined =>
  typeof schema.$ref === "string" ? schema.$ref.split("/").at(-1) : undefined

/** A schema with its reference followed. */
export const dereferenced = (schema: Json): Json => {
  const name = componentOf(schema)
  const component = name === undefined ? undefined : document.components.schemas[name]
  return component === undefined ? schema : dereferenced(component)
}

/** The operation's path with the examples of its parameters. */
export const examplePath = (operation: Operation): string =>
  pathOf(
    operation,
    Object.fromEntries(
      operation.parameters.map(({ name, schema }) => [
        name,
        ((dereferenced(schema).examples as ReadonlyArray<string | number> | undefined) ?? ["1"])[0] ?? "1"
      ])
    )
  )
