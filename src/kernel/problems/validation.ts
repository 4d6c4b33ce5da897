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

/** Validates requests strictly: reports every fault of every part at once, as one problem. */
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

/** The media types of an endpoint's response: a request whose Accept header excludes all of them is rejected. */
export const AnswersIn = Context.Reference<ReadonlyArray<string>>("app/kernel/AnswersIn", {
  defaultValue: () => ["application/json"]
})

/**
 * Whether a large answer of an endpoint may be compressed. Secrets are in answers to POST alone, whose length must not tell what
 * they have in common with the request.
 */
export const Compressible = Context.Reference<boolean>("app/kernel/Compressible", { defaultValue: () => false })

/** Whether browsers visit an endpoint: its problems are pages for those that prefer HTML. */
export const ForBrowsers = Context.Reference<boolean>("app/kernel/ForBrowsers", { defaultValue: () => false })

/** The largest body that an endpoint accepts, in bytes, instead of `Api:MaxBodyBytes`. */
export const MaxBodyBytes = Context.Reference<number | undefined>("app/kernel/MaxBodyBytes", {
  defaultValue: () => undefined
})
