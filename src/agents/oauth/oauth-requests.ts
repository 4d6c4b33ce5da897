import { Effect, Layer, type Types } from "effect"
import { HttpApiError } from "effect/http-api"
import { toProblem } from "../../platform/http/validation.ts"
import { InvalidRequest } from "../agent-credentials/domain.ts"
import { OAuthRequests } from "./api.ts"

const isPayloadError = (error: unknown): error is HttpApiError.HttpApiSchemaError & Types.unhandled =>
  HttpApiError.HttpApiSchemaError.is(error) && error.kind === "Payload"

export const OAuthRequestsLayer = Layer.succeed(
  OAuthRequests,
  OAuthRequests.of((httpEffect, { endpoint }) =>
    Effect.catchIf(httpEffect, isPayloadError, (error) =>
      Effect.mapError(toProblem(error, endpoint), (problem) => {
        const { detail } = problem
        return problem._tag === "ValidationFailed"
          ? new InvalidRequest({ detail, error_description: detail, errors: problem.errors })
          : new InvalidRequest({ detail, error_description: detail })
      })
    )
  )
)
