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

/** Whether an endpoint answers JSON alone, so that an Accept header without it is refused; streams and files say no. */
export const AnswersJson = Context.Reference<boolean>("app/kernel/AnswersJson", { defaultValue: () => true })

/** The largest body an endpoint reads, in bytes, where it is not `Api:MaxBodyBytes`. */
export const MaxBodyBytes = Context.Reference<number | undefined>("app/kernel/MaxBodyBytes", {
  defaultValue: () => undefined
})
