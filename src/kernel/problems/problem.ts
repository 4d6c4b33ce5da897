import { Effect, Schema } from "effect"
import { HttpApiError } from "effect/http-api"

/** The URI of a problem type (RFC 9457 §3.1.1): a URN. */
export const problemType = <const Slug extends string>(slug: Slug) => `urn:application-manager:problem:${slug}` as const

/** One fault of a request: where it is (the first segment names the part of the request) and what is wrong. */
export const Fault = Schema.Struct({
  path: Schema.Array(Schema.Union([Schema.String, Schema.Int])).annotate({ examples: [["payload", "email"]] }),
  message: Schema.String.annotate({ examples: ["Expected a valid e-mail address"] })
}).annotate({ identifier: "Fault", description: "One fault of a request: where it is and what is wrong with it" })
export type Fault = typeof Fault.Type

/** Every problem class by slug, as `GET /problems` lists them. */
export interface ProblemDefinition {
  readonly slug: string
  /** Its status; of a slug with several, that of its first declaration. */
  readonly status: number
  readonly statuses: ReadonlyArray<number>
  readonly title: string
  readonly meaning: string
}
const definitions = new Map<string, ProblemDefinition>()
const meanings = new Map<string, string>()
export const problemDefinitions = (): ReadonlyArray<ProblemDefinition> =>
  [...definitions.values()].toSorted((a, b) => a.slug.localeCompare(b.slug))

/** The meaning of a slug with this status. */
export const problemMeaning = (slug: string, status: number): string | undefined => meanings.get(`${slug} ${status}`)

const phrases: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  402: "Payment Required",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  406: "Not Acceptable",
  408: "Request Timeout",
  409: "Conflict",
  410: "Gone",
  412: "Precondition Failed",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  417: "Expectation Failed",
  422: "Unprocessable Content",
  428: "Precondition Required",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  501: "Not Implemented",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout"
}
export const statusPhrase = (status: number): string => phrases[status] ?? "Error"

/**
 * Declares a typed problem (RFC 9457): `type` is a URN made of the slug, `title` the status phrase, `detail` the
 * meaning unless the instance says more. `traceId` is written at the HTTP edge, which alone knows the trace.
 */
export const Problem =
  <Self = never>() =>
  <
    const Tag extends string,
    const Slug extends string,
    const Status extends number,
    const Fields extends HttpApiError.ProblemExtensionFields = {}
  >(
    tag: Tag,
    declaration: { readonly slug: Slug; readonly status: Status; readonly meaning: string },
    fields?: Fields
  ) => {
    const title = statusPhrase(declaration.status)
    const { meaning, slug, status } = declaration
    const known = definitions.get(slug) ?? { ...declaration, title, statuses: [] }
    definitions.set(slug, { ...known, statuses: [...new Set([...known.statuses, status])] })
    meanings.set(`${slug} ${status}`, meaning)
    return HttpApiError.Problem<Self>()(
      tag,
      { type: problemType(declaration.slug), status: declaration.status, title },
      {
        detail: Schema.String.pipe(Schema.withConstructorDefault(Effect.succeed(declaration.meaning))),
        traceId: Schema.optionalKey(TraceId),
        ...(fields as Fields)
      },
      { identifier: tag, description: declaration.meaning }
    )
  }

const TraceId = Schema.String.pipe(Schema.check(Schema.isPattern(/^[0-9a-f]{32}$/u))).annotate({
  identifier: "TraceId",
  description: "W3C trace id of the request",
  examples: ["4bf92f3577b34da6a3ce929d0e0e4736"]
})
