import { Schema } from "effect"
import { Problem, Fault } from "./problem.ts"

const faults = { errors: Schema.Array(Fault) }

export class ValidationFailed extends Problem<ValidationFailed>()(
  "ValidationFailed",
  {
    slug: "validation-failed",
    status: 400,
    meaning: "The request was read, but some of its values are not acceptable; `errors` names every one."
  },
  faults
) {}

export class MalformedJson extends Problem<MalformedJson>()("MalformedJson", {
  slug: "malformed-json",
  status: 400,
  meaning: "The body is not JSON."
}) {}

export class BadRequest extends Problem<BadRequest>()("BadRequest", {
  slug: "bad-request",
  status: 400,
  meaning: "The request cannot be read as HTTP, for instance its body broke off."
}) {}

export class RouteNotFound extends Problem<RouteNotFound>()("RouteNotFound", {
  slug: "route-not-found",
  status: 404,
  meaning: "Nothing is served at this path."
}) {}

export class MethodNotAllowed extends Problem<MethodNotAllowed>()("MethodNotAllowed", {
  slug: "method-not-allowed",
  status: 405,
  meaning: "The path exists, but not for this method; the Allow header lists those it has."
}) {}

export class NotAcceptable extends Problem<NotAcceptable>()("NotAcceptable", {
  slug: "not-acceptable",
  status: 406,
  meaning: "The Accept header excludes every form this answer has."
}) {}

export class RequestTimeout extends Problem<RequestTimeout>()("RequestTimeout", {
  slug: "request-timeout",
  status: 408,
  meaning: "The request did not arrive as a whole within the time that it may take."
}) {}

export class PayloadTooLarge extends Problem<PayloadTooLarge>()("PayloadTooLarge", {
  slug: "payload-too-large",
  status: 413,
  meaning: "The body is larger than this operation takes."
}) {}

export class UnsupportedMediaType extends Problem<UnsupportedMediaType>()("UnsupportedMediaType", {
  slug: "unsupported-media-type",
  status: 415,
  meaning: "The body's Content-Type is none that this operation reads."
}) {}

export class ExpectationFailed extends Problem<ExpectationFailed>()("ExpectationFailed", {
  slug: "expectation-failed",
  status: 417,
  meaning: "The Expect header asks for something other than 100-continue."
}) {}

export class HeadersTooLarge extends Problem<HeadersTooLarge>()("HeadersTooLarge", {
  slug: "headers-too-large",
  status: 431,
  meaning: "The address and the headers of the request are larger than 16 KiB together."
}) {}

export class InternalError extends Problem<InternalError>()("InternalError", {
  slug: "internal-error",
  status: 500,
  meaning: "The service failed; the trace id finds the reason in its log."
}) {}

export class MethodNotImplemented extends Problem<MethodNotImplemented>()("MethodNotImplemented", {
  slug: "method-not-implemented",
  status: 501,
  meaning: "Nothing here is served by this method."
}) {}

export class Overloaded extends Problem<Overloaded>()("Overloaded", {
  slug: "overloaded",
  status: 503,
  meaning: "The service cannot take the request now; try again after the seconds in Retry-After."
}) {}
