import { Effect, Layer } from "effect"
import { HttpApiError } from "effect/http-api"
import { MalformedJson, ValidationFailed } from "../kernel/problems.ts"
import { OAuthRequests } from "./api.ts"
import { invalidRequest } from "./domain.ts"

const unreadable = "A member is missing, unknown or of the wrong type."

/** Whether a failure says that the request could not be read. */
const isUnreadable = (error: unknown) =>
  HttpApiError.HttpApiSchemaError.is(error)
    ? error.kind === "Payload"
    : error instanceof ValidationFailed || error instanceof MalformedJson

export const OAuthRequestsLayer = Layer.succeed(
  OAuthRequests,
  OAuthRequests.of((httpEffect) =>
    Effect.catchIf(
      httpEffect,
      (error) => isUnreadable(error),
      () => Effect.fail(invalidRequest(unreadable))
    )
  )
)
