import { document as documented } from "../contract/document.ts"

/** A JSON schema, as far as tests look into one. */
interface JsonSchema {
  readonly $ref?: string
  readonly type?: string | ReadonlyArray<string>
  readonly format?: string
  readonly maximum?: number
  readonly enum?: ReadonlyArray<unknown>
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: ReadonlyArray<string>
  readonly items?: JsonSchema
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly oneOf?: ReadonlyArray<JsonSchema>
  readonly allOf?: ReadonlyArray<JsonSchema>
}

interface DocumentedOperation {
  readonly operationId: string
  readonly parameters?: ReadonlyArray<{
    readonly name: string
    readonly in: string
    readonly required?: boolean
    readonly schema: JsonSchema
  }>
  readonly requestBody?: {
    readonly required: boolean
    readonly content: Readonly<Record<string, { readonly schema: JsonSchema }>>
  }
  readonly responses: Readonly<Record<string, unknown>>
}

/** What a parameter holds, which says what it refuses. */
export type ParameterKind = "integer" | "long" | "uuid" | "date-time" | "text" | "other"

export interface DocumentedParameter {
  readonly name: string
  readonly kind: ParameterKind
}

/** An operation as the OpenAPI document has it. */
export interface DocumentedCall {
  readonly name: string
  readonly method: string
  /** The address with a well-formed value for every parameter that it needs, and the given path parameters as they are. */
  address(values?: Readonly<Record<string, string>>): string
  readonly pathParameters: ReadonlyArray<DocumentedParameter>
  readonly queryParameters: ReadonlyArray<DocumentedParameter>
  /** Whether it reads a JSON body. */
  readonly readsJson: boolean
  /** The media types of the bodies that it reads. */
  readonly bodyTypes: ReadonlyArray<string>
  /** Whether it needs no body. */
  readonly takesNoBody: boolean
  /** Whether `{}` is a body that it may take. */
  readonly takesEmptyObject: boolean
  /** Where its body holds free text, each as the path to it; arrays are entered at 0. */
  readonly textMembers: ReadonlyArray<ReadonlyArray<string | number>>
  readonly statuses: ReadonlyArray<number>
}

const document = documented as unknown as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentedOperation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> }
}

const resolved = (schema: JsonSchema): JsonSchema =>
  schema.$ref === undefined ? schema : resolved(document.components.schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {})

const alternatives = (schema: JsonSchema): ReadonlyArray<JsonSchema> =>
  [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])].map(resolved)

const kindOf = (schema: JsonSchema): ParameterKind => {
  const all = [schema, ...alternatives(schema)]
  if (all.some(({ maximum = 0 }) => maximum > 2_147_483_647)) return "long"
  if (all.some(({ type }) => type === "integer")) return "integer"
  if (all.some(({ format }) => format === "uuid")) return "uuid"
  if (all.some(({ format }) => format === "date-time")) return "date-time"
  return all.some((one) => one.type === "string" && one.enum === undefined) ? "text" : "other"
}

const deepest = 6

const textIn = (
  schema: JsonSchema,
  at: ReadonlyArray<string | number>
): ReadonlyArray<ReadonlyArray<string | number>> => {
  if (at.length > deepest) return []
  const one = resolved(schema)
  return [
    ...(one.type === "string" && one.enum === undefined ? [at] : []),
    ...Object.entries(one.properties ?? {}).flatMap(([name, inner]) => textIn(inner, [...at, name])),
    ...(one.items === undefined ? [] : textIn(one.items, [...at, 0])),
    ...alternatives(one).flatMap((inner) => textIn(inner, at))
  ]
}

const wellFormed: Readonly<Record<ParameterKind, string>> = {
  integer: "2147483647",
  long: "9007199254740991",
  uuid: "01890a5d-ac96-774b-bcce-b302099a8057",
  "date-time": "2026-01-31T09:30:00.000Z",
  text: "nothing-of-that-name",
  other: "nothing-of-that-name"
}

const callOf = (path: string, method: string, operation: DocumentedOperation): DocumentedCall => {
  const parametersIn = (place: string) =>
    (operation.parameters ?? [])
      .filter((parameter) => parameter.in === place)
      .map(({ name, schema }) => ({ name, kind: kindOf(resolved(schema)) }))
  const pathParameters = parametersIn("path")
  const needed = (operation.parameters ?? [])
    .filter((parameter) => parameter.in === "query" && parameter.required === true)
    .map(({ name, schema }) => `${name}=${wellFormed[kindOf(resolved(schema))]}`)
  const body = operation.requestBody?.content["application/json"]?.schema
  const members = body === undefined ? [] : textIn(body, [])
  return {
    name: operation.operationId,
    method: method.toUpperCase(),
    address: (values = {}) =>
      pathParameters.reduce(
        (address, { kind, name }) => address.replace(`{${name}}`, () => values[name] ?? wellFormed[kind]),
        needed.length === 0 ? path : `${path}?${needed.join("&")}`
      ),
    pathParameters,
    queryParameters: parametersIn("query"),
    readsJson: body !== undefined,
    bodyTypes: Object.keys(operation.requestBody?.content ?? {}),
    takesNoBody: operation.requestBody?.required === false,
    takesEmptyObject: body !== undefined && (resolved(body).required ?? []).length === 0,
    textMembers: [...new Map(members.map((member) => [member.join("."), member])).values()],
    statuses: Object.keys(operation.responses).map(Number)
  }
}

/** Every operation of the service. */
export const operations: ReadonlyArray<DocumentedCall> = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => callOf(path, method, operation))
)

/** A body that holds nothing but `value`, at the place of a member. */
export const bodyWith = (member: ReadonlyArray<string | number>, value: unknown): unknown =>
  member.reduceRight<unknown>((inner, key) => (typeof key === "number" ? [inner] : { [key]: inner }), value)
