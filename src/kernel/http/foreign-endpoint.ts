import { Record, Schema } from "effect"
import { type HttpMethod, type HttpRouter } from "effect/http"
import { HttpApiEndpoint, HttpApiSchema, OpenApi } from "effect/http-api"
import { type Json } from "../json/parsed-json.ts"

/** What the endpoints of a group in a foreign format have in common. */
interface Format {
  readonly error: Schema.Top
  /** What the failures mean, by status. */
  readonly reasons: Readonly<Record<number, string>>
  readonly security: ReadonlyArray<Json>
}

interface Declaration {
  readonly summary: string
  readonly description: string
  /** What a success means. */
  readonly answer: string
  readonly failures: ReadonlyArray<number>
  readonly security?: Format["security"]
  /** Examples of the body. */
  readonly examples?: Json
  /** Other members of the operation. */
  readonly operation?: Json
}

const declaring =
  <Method extends HttpMethod.HttpMethod>(method: Method, format: Format) =>
  <
    const Identifier extends string,
    const Path extends HttpRouter.PathInput,
    Params extends Schema.Struct.Fields = never,
    Payload extends HttpApiEndpoint.PayloadConstraintCodecs<Method> = never,
    const Success extends Schema.Top = HttpApiSchema.NoContent
  >(
    identifier: Identifier,
    path: Path,
    options: Declaration & { readonly params?: Params; readonly payload?: Payload; readonly success?: Success }
  ) => {
    const { answer, description, examples, failures, operation, security = format.security, summary } = options
    const error = failures.map((status) => format.error.pipe(HttpApiSchema.status(status)))
    // Errors are in the document, and not in the type: the handler writes them itself.
    return HttpApiEndpoint.make(method)<Identifier, Path, Params, never, Payload, never, Success>(identifier, path, {
      ...options,
      error
    } as never).annotateMerge(
      OpenApi.annotations({
        summary,
        description,
        override: { security, ...operation, "x-foreign-format": true },
        transform: ({ parameters, requestBody, ...derived }) => ({
          ...derived,
          ...(parameters.length > 0 && { parameters: parameters.map(described) }),
          ...(requestBody && {
            requestBody: { ...requestBody, content: withMember(requestBody.content, () => ({ examples })) }
          }),
          responses: withMember(derived.responses, (status) => ({
            description: format.reasons[Number(status)] ?? answer
          }))
        })
      })
    )
  }

const withMember = (objects: Readonly<Record<string, Json>>, member: (key: string) => Json): Json =>
  Record.map(objects, (object, key) => ({ ...object, ...member(key) }))

const described = ({ schema: { description, ...schema }, ...parameter }: { readonly schema: Json }): Json => ({
  ...parameter,
  schema,
  description
})

/**
 * Declares endpoints in a format that others define, errors included. Their schemas are for the document: their handlers
 * take the raw request, and write the response.
 */
export const foreignEndpoints = (format: Format) => ({
  get: declaring("GET", format),
  post: declaring("POST", format),
  put: declaring("PUT", format),
  delete: declaring("DELETE", format)
})

export const text = (description: string, example: string) =>
  Schema.String.annotate({ description, examples: [example] })

export const oneOf = (description: string, first: string, ...others: ReadonlyArray<string>) =>
  (others.length === 0 ? Schema.Literal(first) : Schema.Literals([first, ...others])).annotate({ description })
