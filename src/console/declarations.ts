import { Context } from "effect"
import { HttpApi } from "effect/http-api"
import { Api } from "../api.ts"
import { builtInApplications } from "../applications/applications/domain.ts"
import { builtInRoles } from "../applications/roles/domain.ts"
import { vendors as knownVendors } from "../gateway/configuration/vendors-domain.ts"
import { RequiredCapability } from "../kernel/authority/access.ts"
import { capabilitiesOf, resources } from "../kernel/authority/capability.ts"
import { inlineDocument } from "../platform/openapi/openapi.ts"
// A whole import of types, so that the build does not run the browser's code.
import type { Member } from "./web/kit/forms/members.ts"
import type { DocumentSchema, JsonSchema as BodySchema } from "./web/kit/texts/schema.ts"

/** Method and path of every operation of the API, by `group.endpoint`. */
export const routes = (): Readonly<Record<string, readonly [method: string, path: string]>> => {
  const found: Record<string, readonly [string, string]> = {}
  HttpApi.reflect(Api, {
    onGroup: () => undefined,
    onEndpoint: ({ endpoint, group }) => {
      found[`${group.identifier}.${endpoint.identifier}`] = [endpoint.method, endpoint.path]
    }
  })
  return found
}

/** The actions of each resource that capabilities are about. */
export const capabilities = (): Readonly<Record<string, ReadonlyArray<string>>> =>
  Object.fromEntries(
    resources.map((resource) => [
      resource,
      capabilitiesOf(resource).map((capability) => capability.slice(resource.length + 1))
    ])
  )

/** The capabilities that every operation refuses to a caller of one tenant. */
export const installationOnly = (): ReadonlyArray<string> => {
  const only = new Map<string, boolean>()
  HttpApi.reflect(Api, {
    onGroup: () => undefined,
    onEndpoint: ({ endpoint }) => {
      const { capability, systemOnly } = Context.getOrUndefined(endpoint.annotations, RequiredCapability) ?? {}
      if (capability != null) only.set(capability, systemOnly === true && only.get(capability) !== false)
    }
  })
  return Array.from(only)
    .filter(([, isOnly]) => isOnly)
    .map(([capability]) => capability)
}

/** What every installation has and keeps: the slugs of applications, and the names of roles of the first of them. */
export const builtIn = () => ({
  applications: builtInApplications.map(({ slug }) => slug),
  roles: builtInRoles.map(({ name }) => name)
})

/** The vendors of models that a provider can be added of. */
export const vendors = () => knownVendors

interface JsonSchema {
  readonly $ref?: string
  readonly description?: string
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly type?: string
  readonly format?: string
  readonly enum?: ReadonlyArray<string>
  readonly pattern?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: JsonSchema
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: ReadonlyArray<string>
}

interface Document {
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> }
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentedOperation>>>>
}

interface DocumentedOperation {
  readonly operationId: string
  readonly parameters?: ReadonlyArray<{ readonly in: string; readonly name: string }>
  readonly "x-foreign-format"?: boolean
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: JsonSchema }>> }
}

let written: Document | undefined
const document = (): Document => (written ??= inlineDocument(Api, "") as unknown as Document)

/** Whether a text is one of a schema. */
const takes = ({ minLength = 0, pattern }: JsonSchema, text: string) =>
  text.length >= minLength && (pattern === undefined || new RegExp(pattern, "u").test(text))

/** The operations that read of one tenant where their query names it. */
export const ofTenants = (): ReadonlyArray<string> =>
  Object.values(document().paths).flatMap(({ get }) =>
    get?.parameters?.some((parameter) => parameter.in === "query" && parameter.name === "tenantId") === true
      ? [get.operationId]
      : []
  )

/** What forms need to know of the members of every operation's body: by operation, and by the path of the member in it. */
export const members = (): Readonly<Record<string, Readonly<Record<string, Member>>>> => {
  const { components, paths } = document()
  const resolved = (schema: JsonSchema): JsonSchema =>
    schema.$ref === undefined ? schema : resolved(components.schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {})
  const variantsOf = (schema: JsonSchema): ReadonlyArray<JsonSchema> => {
    const own = resolved(schema)
    return own.anyOf === undefined ? [own] : own.anyOf.flatMap(variantsOf)
  }
  const membersOf = (schema: JsonSchema, isNeeded: boolean, prefix: string): ReadonlyArray<readonly [string, Member]> =>
    Object.entries(schema.properties ?? {}).flatMap(([name, declared]) => {
      const variants = variantsOf(declared)
      const own = variants.findLast(({ type }) => type !== "null") ?? {}
      const isRequired = isNeeded && schema.required?.includes(name) === true
      const member: Member = {
        kind: own.format === "date-time" || own.format === "uri" ? own.format : (own.type ?? "string"),
        options: own.enum,
        min: own.minimum,
        max: own.maximum,
        maxLength: own.maxLength,
        isRequired: isRequired || undefined,
        isNullable: variants.some(({ type }) => type === "null") || undefined,
        isFilled: (own.type === "string" && !takes(own, "")) || undefined,
        ofWords: (own.items !== undefined && !takes(resolved(own.items), "two words")) || undefined
      }
      return [[prefix + name, member] as const].concat(membersOf(own, isRequired, `${prefix}${name}.`))
    })
  return Object.fromEntries(
    Object.values(paths)
      .flatMap((methods) => Object.values(methods))
      .flatMap((operation) => {
        const schema = operation.requestBody?.content["application/json"]?.schema
        if (schema === undefined || operation["x-foreign-format"] === true) return []
        return [[operation.operationId, Object.fromEntries(membersOf(resolved(schema), true, ""))] as const]
      })
  )
}

/** The schema of an operation's body, with every component that it refers to. */
export const body = (operationId: string): DocumentSchema => {
  const { components, paths } = document()
  const operation = Object.values(paths)
    .flatMap((methods) => Object.values(methods))
    .find((one) => one.operationId === operationId)
  const root = operation?.requestBody?.content["application/json"]?.schema
  if (root === undefined) throw new Error(`No operation ${operationId} takes a body in JSON.`)
  const schemas: Record<string, JsonSchema> = {}
  const collect = (schema: JsonSchema): void => {
    for (const [, name = ""] of JSON.stringify(schema).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      const found = components.schemas[name]
      if (found === undefined || Object.hasOwn(schemas, name)) continue
      schemas[name] = found
      collect(found)
    }
  }
  collect(root)
  return { root, schemas }
}

/** A member of a credential, as a form asks for it. */
interface CredentialMember {
  readonly name: string
  readonly description: string
  readonly isRequired: boolean
  readonly pattern: string | undefined
}

/** What the credentials of a provider consist of, by their type and, of federation, their vendor (`federation:openai`). */
export const credentials = (): Readonly<Record<string, ReadonlyArray<CredentialMember>>> => {
  const { root, schemas } = body("llmAdmin.putConfiguration")
  const resolved = (schema: BodySchema = {}): BodySchema =>
    schema.$ref === undefined ? schema : resolved(schemas[schema.$ref.split("/").at(-1) ?? ""])
  const { items } = resolved(resolved(root).properties?.providers)
  const kinds = resolved(resolved(items).properties?.credential).anyOf ?? []
  return Object.fromEntries(
    kinds.map((kind) => {
      const { properties = {}, required = [] } = resolved(kind)
      const { type, vendor, ...members } = properties
      const key = [type, vendor].flatMap((one) => (typeof one?.const === "string" ? [one.const] : [])).join(":")
      return [
        key,
        Object.entries(members).map(([name, schema]) => ({
          name,
          description: schema.description ?? resolved(schema).description ?? "",
          isRequired: required.includes(name),
          pattern: resolved(schema).pattern
        }))
      ]
    })
  )
}
