import { Result, Schema } from "effect"
import { HttpMethod } from "effect/http"
import { type HttpApiEndpoint } from "effect/http-api"

/**
 * Whether a request of an endpoint may be without a body, which then counts as `{}`: where no member is required. A PUT may
 * not: it would replace everything by nothing.
 */
export const takesNoBody = ({ method, payload }: HttpApiEndpoint.Top): boolean => {
  const json = payload.get("application/json")
  if (json === undefined || method === "PUT" || !HttpMethod.hasBody(method)) return false
  const body = Schema.Union(json.schemas) as Schema.Constraint as Schema.Codec<unknown>
  return Result.isSuccess(Schema.decodeUnknownResult(body)({}))
}
