import { type ErrorWriter } from "../error-writer.ts"
import { type DialectError, originalMembers, type Quota } from "../errors.ts"

const types: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "insufficient_quota",
  403: "permission_error",
  404: "invalid_request_error",
  413: "invalid_request_error",
  429: "rate_limit_error"
}

const bodyOf = (error: DialectError) => {
  const original = originalMembers("openai", error)
  return {
    error: {
      message: error.message,
      type: types[error.status] ?? (error.status < 500 ? "invalid_request_error" : "server_error"),
      param: error.param ?? null,
      code: error.code,
      ...(error.details === undefined ? {} : { details: error.details }),
      ...original,
      // Some vendors send a number, which is none of OpenAI's codes.
      ...(typeof original.code === "number" ? { code: String(original.code) } : {})
    }
  }
}

/** A duration in OpenAI's format: `41s`, `6m0s`, `1h0m0s`. */
const waitText = (millis: number): string => {
  const total = Math.max(1, Math.ceil(millis / 1000))
  const hours = Math.floor(total / 3600)
  const minutes = Math.floor(total / 60) % 60
  return `${hours > 0 ? `${hours}h` : ""}${total >= 60 ? `${minutes}m` : ""}${total % 60}s`
}

const quotaHeaders = ({ limit, remaining, resetsAt, unit }: Quota, now: number) => ({
  [`x-ratelimit-limit-${unit}`]: String(limit),
  [`x-ratelimit-remaining-${unit}`]: String(remaining),
  ...(resetsAt === null ? {} : { [`x-ratelimit-reset-${unit}`]: waitText(resetsAt - now) })
})

/** Errors as OpenAI's SDKs read them; status 529 is specific to Anthropic. */
export const openAiErrors: ErrorWriter = {
  answer: (error, quota, _, now) => ({
    status: error.status === 529 ? 503 : error.status,
    body: bodyOf(error),
    headers: quota === undefined ? {} : quotaHeaders(quota, now)
  }),
  event: (error) => `data: ${JSON.stringify(bodyOf(error))}\n\n`
}
