import { DateTime } from "effect"
import { type ErrorWriter } from "../error-writer.ts"
import { contextLengthExceeded, type DialectError, originalMembers, type Quota } from "../errors.ts"

const types: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
  504: "timeout_error",
  529: "overloaded_error"
}

/** Anthropic's clients shorten the conversation when they read this. */
const promptTooLong = "prompt is too long"

const messageOf = ({ code, message, original }: DialectError): string =>
  code === contextLengthExceeded && original?.dialect !== "anthropic" && !message.includes(promptTooLong)
    ? `${promptTooLong}: ${message}`
    : message

const bodyOf = (error: DialectError, requestId: string) => ({
  type: "error",
  error: {
    type: types[error.status] ?? (error.status < 500 ? "invalid_request_error" : "api_error"),
    message: messageOf(error),
    ...(error.details === undefined ? {} : { details: error.details }),
    ...originalMembers("anthropic", error)
  },
  request_id: requestId
})

/** A timestamp in Anthropic's format, in whole seconds. */
const momentText = (millis: number): string =>
  DateTime.formatIso(DateTime.makeUnsafe(Math.ceil(millis / 1000) * 1000)).replace(".000Z", "Z")

const quotaHeaders = ({ limit, remaining, resetsAt, unit }: Quota) => ({
  [`anthropic-ratelimit-${unit}-limit`]: String(limit),
  [`anthropic-ratelimit-${unit}-remaining`]: String(remaining),
  ...(resetsAt === null ? {} : { [`anthropic-ratelimit-${unit}-reset`]: momentText(resetsAt) })
})

/** Errors as Anthropic's SDKs read them; overload has a status of its own. */
export const anthropicErrors: ErrorWriter = {
  answer: (error, quota, requestId) => ({
    status: error.status === 503 ? 529 : error.status,
    body: bodyOf(error, requestId),
    headers: quota === undefined ? {} : quotaHeaders(quota)
  }),
  event: (error, requestId) => `event: error\ndata: ${JSON.stringify(bodyOf(error, requestId))}\n\n`
}
