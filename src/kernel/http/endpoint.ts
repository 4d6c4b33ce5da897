import { Context, type Schema } from "effect"
import { type HttpMethod, type HttpRouter } from "effect/http"
import { HttpApiEndpoint, type HttpApiSchema, OpenApi } from "effect/http-api"
import { type RequiredCapability } from "../authority/access.ts"
import { AnswersIn, Compressible, ForBrowsers, MaxBodyBytes } from "../problems/validation.ts"
import { ActsOn, AnswersResource, Evaluation, Preconditions } from "./precondition.ts"

/** What an endpoint declares beside its schemas. */
interface Declaration {
  readonly summary: string
  readonly description: string
  /** Who may call it; absent if no credential is needed. */
  readonly access?: Context.Context<RequiredCapability>
  /** The media types of its responses, if it is not JSON alone. */
  readonly answersIn?: ReadonlyArray<string>
  /** Whether browsers visit it, so that its problems are pages for them. */
  readonly forBrowsers?: boolean
  /** The largest body that it reads, if it is not `Api:MaxBodyBytes`. */
  readonly maxBodyBytes?: number
  /** Of a GET whose path does not end in a parameter: whether it answers one resource all the same, which has an entity tag. */
  readonly answersResource?: boolean
  /** Where the resource is read that it acts on, with its own parameters, if that is neither its path nor the one above. */
  readonly actsOn?: HttpRouter.PathInput
  /** Who evaluates its precondition, if that is not done around the handler. */
  readonly evaluation?: typeof Evaluation.Service
}

const declaring = <Method extends HttpMethod.HttpMethod>(method: Method) => {
  const make = HttpApiEndpoint.make(method)
  return <
    const Identifier extends string,
    const Path extends HttpRouter.PathInput,
    Params extends Schema.Top | Schema.Struct.Fields = never,
    Query extends Schema.Top | Schema.Struct.Fields = never,
    Payload extends HttpApiEndpoint.PayloadConstraintCodecs<Method> = never,
    Headers extends Schema.Top | Schema.Struct.Fields = never,
    const Success extends HttpApiEndpoint.SuccessConstraint = HttpApiSchema.NoContent,
    const Error extends Schema.Top | ReadonlyArray<Schema.Top> = never
  >(
    identifier: Identifier,
    path: Path,
    options: Declaration & {
      readonly params?: Params
      readonly query?: Query
      readonly headers?: Headers
      readonly payload?: Payload
      /** By default 204 without a body. */
      readonly success?: Success
      readonly error?: Error
    }
  ) => {
    const { access, actsOn, answersIn, answersResource, description, evaluation, forBrowsers, maxBodyBytes, summary } =
      options
    const annotations = [
      access ?? Context.empty(),
      ...(method === "GET" ? [Context.make(Compressible, true)] : []),
      ...(answersIn === undefined ? [] : [Context.make(AnswersIn, answersIn)]),
      ...(forBrowsers === undefined ? [] : [Context.make(ForBrowsers, forBrowsers)]),
      ...(maxBodyBytes === undefined ? [] : [Context.make(MaxBodyBytes, maxBodyBytes)]),
      ...(answersResource === undefined ? [] : [Context.make(AnswersResource, answersResource)]),
      ...(actsOn === undefined ? [] : [Context.make(ActsOn, actsOn)]),
      ...(evaluation === undefined ? [] : [Context.make(Evaluation, evaluation)])
    ]
    // The compiler cannot tell that a generic error is no stream.
    return make<Identifier, Path, Params, Query, Payload, Headers, Success, Error>(identifier, path, options as never)
      .annotateMerge(Context.mergeAll(...annotations))
      .annotateMerge(OpenApi.annotations({ summary, description }))
      .middleware(Preconditions)
  }
}

/** Declares an endpoint: its schemas, its access and its texts in the OpenAPI document. */
export const endpoint = {
  get: declaring("GET"),
  post: declaring("POST"),
  put: declaring("PUT"),
  patch: declaring("PATCH"),
  delete: declaring("DELETE")
}
