import { Schema } from "effect"
import { Problem, Fault } from "./problem.ts"

const faults = { errors: Schema.Array(Fault) }

export class ValidationFailed extends Problem<ValidationFailed>()(
  "ValidationFailed",
  {
    slug: "validation-failed",
    status: 400,
    meaning: "Some values of the request are invalid; `errors` lists each of them."
  },
  faults
) {}

export class MalformedJson extends Problem<MalformedJson>()("MalformedJson", {
  slug: "malformed-json",
  status: 400,
  meaning: "The body is not JSON, or names a member twice."
}) {}

export class BadRequest extends Problem<BadRequest>()("BadRequest", {
  slug: "bad-request",
  status: 400,
  meaning: "The request is not valid HTTP, for instance because its body is incomplete."
}) {}

export class RouteNotFound extends Problem<RouteNotFound>()("RouteNotFound", {
  slug: "route-not-found",
  status: 404,
  meaning: "The service has no resource at this path."
}) {}

export class MethodNotAllowed extends Problem<MethodNotAllowed>()("MethodNotAllowed", {
  slug: "method-not-allowed",
  status: 405,
  meaning: "The path does not support this method; the Allow header lists the methods that it supports."
}) {}

export class NotAcceptable extends Problem<NotAcceptable>()("NotAcceptable", {
  slug: "not-acceptable",
  status: 406,
  meaning: "The Accept header excludes every media type of the response."
}) {}

export class RequestTimeout extends Problem<RequestTimeout>()("RequestTimeout", {
  slug: "request-timeout",
  status: 408,
  meaning: "The complete request did not arrive in time."
}) {}

export class PayloadTooLarge extends Problem<PayloadTooLarge>()("PayloadTooLarge", {
  slug: "payload-too-large",
  status: 413,
  meaning: "The body is larger than this operation accepts."
}) {}

export class UnsupportedMediaType extends Problem<UnsupportedMediaType>()("UnsupportedMediaType", {
  slug: "unsupported-media-type",
  status: 415,
  meaning: "This operation does not accept the body's Content-Type."
}) {}

export class ExpectationFailed extends Problem<ExpectationFailed>()("ExpectationFailed", {
  slug: "expectation-failed",
  status: 417,
  meaning: "The Expect header asks for something other than 100-continue."
}) {}

export class HeadersTooLarge extends Problem<HeadersTooLarge>()("HeadersTooLarge", {
  slug: "headers-too-large",
  status: 431,
  meaning: "The URL and the headers of the request together exceed 16 KiB."
}) {}

export class InternalError extends Problem<InternalError>()("InternalError", {
  slug: "internal-error",
  status: 500,
  meaning: "The service failed; its log has the reason under the trace id."
}) {}

export class MethodNotImplemented extends Problem<MethodNotImplemented>()("MethodNotImplemented", {
  slug: "method-not-implemented",
  status: 501,
  meaning: "The service does not implement this method."
}) {}

export class Overloaded extends Problem<Overloaded>()("Overloaded", {
  slug: "overloaded",
  status: 503,
  meaning: "The service cannot handle the request now; retry after the seconds in Retry-After."
}) {}
