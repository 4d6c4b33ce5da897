import { ByteSize, Cause, Context, Effect, ErrorReporter, Layer, Schema, SchemaIssue, type Types } from "effect"
import { HttpIncomingMessage, HttpMethod, HttpServerRequest } from "effect/http"
import { type HttpApiEndpoint, HttpApiError } from "effect/http-api"
import { takesNoBody } from "../../kernel/http/optional-body.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import {
  InternalError,
  MalformedJson,
  NotAcceptable,
  PayloadTooLarge,
  UnsupportedMediaType,
  ValidationFailed
} from "../../kernel/problems/problems.ts"
import { AnswersIn, Compressible, ForBrowsers, MaxBodyBytes, Validation } from "../../kernel/problems/validation.ts"
import { accepts } from "./negotiation.ts"
import { declaresMoreThan, encoded, inStrictJson, faultIn, isEncoded } from "./request-body.ts"
import { CurrentRequest, headersOf } from "./request.ts"

const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) => {
    switch (issue._tag) {
      case "MissingKey":
        return "Required"
      case "UnexpectedKey":
        return "Unknown member"
      default:
        return SchemaIssue.defaultLeafHook(issue)
    }
  }
})

const segment = (part: PropertyKey | { readonly key: PropertyKey }): string | number => {
  const key = typeof part === "object" ? part.key : part
  return typeof key === "number" ? key : String(key)
}

/** Every fault of one part of a request, under the name of the part. */
export const faultsOf = (slot: string, error: Schema.SchemaError): ReadonlyArray<Fault> =>
  format(error.issue).issues.map((issue) => ({
    path: [slot, ...(issue.path ?? []).map(segment)],
    // A query parameter is a string unless it is repeated.
    message: slot === "query" && issue.message === "Expected string" ? "Expected one value, not several" : issue.message
  }))

const maxValues = 5000

/** Whether there are more values within this one than all faults are looked for. */
const hasManyValues = (value: unknown): boolean => {
  let values = 0
  const isOver = (one: unknown): boolean => {
    values += 1
    if (values > maxValues) return true
    return typeof one === "object" && one !== null && Object.values(one).some(isOver)
  }
  return isOver(value)
}

/** How to look for faults in a value: for all of them, but in a large one for the first, since each takes a kilobyte. */
export const faultOptions = (value: unknown): { readonly errors: "all" | "first" } => ({
  errors: hasManyValues(value) ? "first" : "all"
})

const strict = { errors: "all", onExcessProperty: "error" } as const
const notJson = "Expected a valid JSON body"

const faultsIn = (slot: string, schema: Schema.Constraint, input: unknown) =>
  Schema.decodeUnknownEffect(schema as Schema.Codec<unknown>, { ...strict, ...faultOptions(input) })(input).pipe(
    Effect.match({ onSuccess: () => [], onFailure: (error) => faultsOf(slot, error) })
  )

/** The faults of a body of JSON. */
const payloadFaults = Effect.fnUntraced(function* (endpoint: HttpApiEndpoint.Top) {
  const request = yield* HttpServerRequest.HttpServerRequest
  const json = endpoint.payload.get("application/json")
  if (json === undefined || !HttpMethod.hasBody(request.method)) return []
  const body = yield* Effect.option(
    Effect.flatMap(request.text, (text) => Effect.try(() => JSON.parse(text) as unknown))
  )
  return body._tag === "None"
    ? [{ path: ["payload"], message: notJson }]
    : yield* faultsIn("payload", Schema.Union(json.schemas), body.value)
})

/** Decoding stops at the first part with a fault, so the remaining parts are validated here. */
const remainingFaults = Effect.fnUntraced(function* (
  kind: HttpApiError.HttpApiSchemaError["kind"],
  endpoint: HttpApiEndpoint.Top
) {
  if (kind === "Payload") return []
  const { query } = endpoint
  const inQuery =
    kind === "Query" || query === undefined
      ? []
      : yield* faultsIn("query", Schema.toCodecArrayFromSingle(query), yield* HttpServerRequest.ParsedSearchParams)
  return [...inQuery, ...(yield* payloadFaults(endpoint))]
})

/** The problem for a request that does not match the declaration of its endpoint. */
export const toProblem = Effect.fnUntraced(function* (
  error: HttpApiError.HttpApiSchemaError,
  endpoint: HttpApiEndpoint.Top
) {
  if (error.kind === "Body" || error.kind === "ResponseHeaders") {
    yield* ErrorReporter.report(Cause.fail(error))
    return yield* new InternalError({})
  }
  const { text } = yield* HttpServerRequest.HttpServerRequest
  const faults = [...faultsOf(error.kind.toLowerCase(), error.cause)]
  if (error.kind === "Payload" && faults.length === 1 && faults[0]?.message === notJson) {
    const detail = faultIn(yield* Effect.orElseSucceed(text, () => ""))
    return yield* new MalformedJson(detail === undefined ? {} : { detail })
  }
  const [first] = faults
  const isEmpty =
    error.kind === "Payload" && first?.path.length === 1 && (yield* Effect.orElseSucceed(text, () => "unread")) === ""
  // For an empty body the schema's message would only give its name.
  if (isEmpty) faults[0] = { ...first, message: "Required" }
  // A body is decoded up to its first fault.
  const all = error.kind === "Payload" && !isEmpty ? yield* payloadFaults(endpoint) : []
  const errors = [...(all.length === 0 ? faults : all), ...(yield* remainingFaults(error.kind, endpoint))]
  const shown = errors.slice(0, 3).map((fault) => `${fault.path.join(".")}: ${fault.message}`)
  return yield* new ValidationFailed({
    errors,
    detail: `${shown.join("; ")}${errors.length > shown.length ? `; and ${errors.length - shown.length} more` : ""}`
  })
})

const isSchemaError = (error: unknown): error is HttpApiError.HttpApiSchemaError & Types.unhandled =>
  HttpApiError.HttpApiSchemaError.is(error)

export const ValidationLayer = Layer.succeed(
  Validation,
  Validation.of((httpEffect, { endpoint }) => {
    const answersIn = Context.get(endpoint.annotations, AnswersIn)
    // A client that accepts problems accepts JSON.
    const isCompressible = Context.get(endpoint.annotations, Compressible)
    const isForBrowsers = Context.get(endpoint.annotations, ForBrowsers)
    const types = [
      ...answersIn,
      ...(answersIn.includes("application/json") ? ["application/problem+json"] : []),
      ...(isForBrowsers ? ["text/html"] : [])
    ]
    const maxBodyBytes = Context.get(endpoint.annotations, MaxBodyBytes)
    const sized =
      maxBodyBytes === undefined
        ? httpEffect
        : Effect.provideService(httpEffect, HttpIncomingMessage.MaxBodySize, ByteSize.bytes(maxBodyBytes))
    const strictly = Effect.catchIf(sized, isSchemaError, (error) => toProblem(error, endpoint))
    const bodyTypes = [...endpoint.payload.keys()]
    const readsBody = endpoint.payload.size > 0 && HttpMethod.hasBody(endpoint.method)
    const decoded =
      readsBody && endpoint.payload.has("application/json") ? inStrictJson(strictly, takesNoBody(endpoint)) : strictly
    const admitted: Effect.Effect<
      Effect.Success<typeof decoded>,
      Effect.Error<typeof decoded> | NotAcceptable | PayloadTooLarge | UnsupportedMediaType,
      Effect.Services<typeof decoded>
    > = decoded
    return Effect.withFiber((fiber): typeof admitted => {
      const info = Context.get(fiber.context, CurrentRequest)
      if (info !== undefined) {
        info.bodyTypes = bodyTypes
        info.isCompressible = isCompressible
        info.isForBrowsers = isForBrowsers
      }
      const headers = headersOf(Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest))
      if (headers.accept !== undefined && !accepts(headers.accept, types)) return Effect.fail(new NotAcceptable({}))
      const maximum = maxBodyBytes ?? Context.get(fiber.context, HttpIncomingMessage.MaxBodySize)
      if (!readsBody) return admitted
      if (isEncoded(headers)) return Effect.fail(new UnsupportedMediaType({ detail: encoded }))
      return declaresMoreThan(headers, maximum) ? Effect.fail(new PayloadTooLarge({})) : admitted
    })
  })
)
