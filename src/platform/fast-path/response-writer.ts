import { Predicate, type Schema, SchemaAST } from "effect"
import { HttpServerResponse } from "effect/http"
import { type HttpApiEndpoint, HttpApiSchema } from "effect/http-api"
import { type Write, writerOf } from "./json-writer.ts"
import { invalid, type Read, readerOf } from "./schema-reader.ts"

interface Encoding {
  readonly _tag: string
  readonly contentType: string
}

// How HttpApi itself reads a response schema; it declares these as internal.
const { getResponseEncodingSchema, getStatusSuccessSchema, getWithHeadersAnnotation, isStreamSchema, isUpgrade } =
  HttpApiSchema as unknown as {
    readonly getResponseEncodingSchema: (schema: Schema.Top) => Encoding
    readonly getStatusSuccessSchema: (schema: Schema.Top) => number
    readonly getWithHeadersAnnotation: (ast: SchemaAST.AST) => object | undefined
    readonly isStreamSchema: (schema: Schema.Top) => boolean
    readonly isUpgrade: (schema: Schema.Top) => boolean
  }

interface ValueWithHeaders {
  readonly body: unknown
  readonly headers: object
}

/** One of the responses that an endpoint declares. */
interface DeclaredResponse {
  readonly status: number
  readonly contentType: string
  readonly body: Write
  readonly headers: Read | undefined
}

/**
 * Turns a handler's result into the response that HttpApi would make, without an effect for each step. A value that cannot
 * be encoded is returned unchanged, for HttpApi to report; so is every value of an endpoint that returns anything but JSON.
 */
export const responseWriter = (
  { success }: HttpApiEndpoint.Top,
  options: SchemaAST.ParseOptions = {}
): ((value: unknown) => unknown) => {
  const schemas = [...success] as ReadonlyArray<Schema.Top>
  if (!schemas.every(isPlainJson)) return (value) => value
  let responses: ReadonlyArray<DeclaredResponse> | undefined
  return (value) => {
    if (HttpServerResponse.isHttpServerResponse(value)) return value
    responses ??= schemas.map(declaredResponse)
    try {
      return isWithHeaders(value)
        ? (responseOf(responses, value.body, value.headers, options) ?? value)
        : (responseOf(responses, value, undefined, options) ?? value)
    } catch {
      return value
    }
  }
}

const isWithHeaders = (value: unknown): value is ValueWithHeaders =>
  Predicate.hasProperty(value, HttpApiSchema.WithHeadersValueTypeId)

const bodyOf = (schema: Schema.Top): Schema.Top => (HttpApiSchema.isWithHeaders(schema) ? schema.schema : schema)

const isPlainJson = (schema: Schema.Top): boolean =>
  !isUpgrade(schema) &&
  !isStreamSchema(bodyOf(schema)) &&
  !HttpApiSchema.isNoContent(bodyOf(schema).ast) &&
  getWithHeadersAnnotation(schema.ast) === undefined &&
  getResponseEncodingSchema(schema)._tag === "Json"

const declaredResponse = (schema: Schema.Top): DeclaredResponse => ({
  status: getStatusSuccessSchema(schema),
  contentType: getResponseEncodingSchema(schema).contentType,
  body: writerOf(SchemaAST.flip(bodyOf(schema).ast)),
  headers: HttpApiSchema.isWithHeaders(schema) ? readerOf(SchemaAST.flip(schema.headers.ast)) : undefined
})

const responseOf = (
  responses: ReadonlyArray<DeclaredResponse>,
  value: unknown,
  given: object | undefined,
  options: SchemaAST.ParseOptions
): HttpServerResponse.HttpServerResponse | undefined => {
  for (const { body, contentType, headers: readHeaders, status } of responses) {
    if (given !== undefined && readHeaders === undefined) continue
    const json = body(value, options)
    if (json === null) continue
    const headers = given === undefined ? undefined : readHeaders?.(given, {})
    if (json === undefined || headers === invalid) return undefined
    const response = HttpServerResponse.text(json, { status, contentType })
    return headers === undefined ? response : withHeaders(response, headers as Record<string, unknown>)
  }
  return undefined
}

/** `HttpServerResponse.setHeaders` would copy all of them, three times. */
const withHeaders = (response: HttpServerResponse.HttpServerResponse, given: Readonly<Record<string, unknown>>) => {
  const headers: Record<string, unknown> = response.headers
  for (const name in given) headers[name.toLowerCase()] = given[name]
  return response
}
