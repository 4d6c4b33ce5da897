import { Context } from "effect"
import { HttpApiMiddleware } from "effect/http-api"
import {
  BadRequest,
  InternalError,
  MalformedJson,
  NotAcceptable,
  Overloaded,
  PayloadTooLarge,
  UnsupportedMediaType,
  ValidationFailed
} from "./problems.ts"

/** Reads requests strictly: every fault of every part at once, as one problem. */
export class Validation extends HttpApiMiddleware.Service<Validation>()("app/kernel/Validation", {
  error: [
    ValidationFailed,
    MalformedJson,
    BadRequest,
    NotAcceptable,
    PayloadTooLarge,
    UnsupportedMediaType,
    InternalError,
    Overloaded
  ]
}) {}

/** The media types that an endpoint answers in: an Accept header that lets none of them through is refused. */
export const AnswersIn = Context.Reference<ReadonlyArray<string>>("app/kernel/AnswersIn", {
  defaultValue: () => ["application/json"]
})

/** The largest body an endpoint reads, in bytes, where it is not `Api:MaxBodyBytes`. */
export const MaxBodyBytes = Context.Reference<number | undefined>("app/kernel/MaxBodyBytes", {
  defaultValue: () => undefined
})
