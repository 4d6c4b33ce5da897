import { isJson, type Json, listIn, textIn } from "../../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../../kernel/lookup-table.ts"
import { type ErrorWriter } from "../error-writer.ts"
import { contextLengthExceeded, type DialectError, type ProviderError, type Quota, readError } from "../errors.ts"

const statuses: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  402: "RESOURCE_EXHAUSTED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  408: "DEADLINE_EXCEEDED",
  409: "ABORTED",
  412: "FAILED_PRECONDITION",
  429: "RESOURCE_EXHAUSTED",
  499: "CANCELLED",
  500: "INTERNAL",
  501: "UNIMPLEMENTED",
  504: "DEADLINE_EXCEEDED"
}

const statusOf = (status: number): string => statuses[status] ?? (status < 500 ? "INVALID_ARGUMENT" : "UNAVAILABLE")

const typeOf = (name: string): string => `type.googleapis.com/google.rpc.${name}`

/** A reason in the form of Google's (AIP-193): `budget-exceeded` is `BUDGET_EXCEEDED`. */
const reasonOf = (code: string): string => code.toUpperCase().replaceAll(/[^A-Z0-9]+/g, "_")

const domain = "application-manager"

const metadataOf = (details: Json | undefined): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(details ?? {}).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, typeof value === "string" ? value : JSON.stringify(value)]]
    )
  )

const detailsOf = (error: DialectError, requestId: string, waitSeconds: number | undefined): ReadonlyArray<Json> => [
  ...(error.code === null
    ? []
    : [{ "@type": typeOf("ErrorInfo"), reason: reasonOf(error.code), domain, metadata: metadataOf(error.details) }]),
  ...(error.param === undefined
    ? []
    : [{ "@type": typeOf("BadRequest"), fieldViolations: [{ field: error.param, description: error.message }] }]),
  ...(waitSeconds === undefined ? [] : [{ "@type": typeOf("RetryInfo"), retryDelay: `${waitSeconds}s` }]),
  { "@type": typeOf("RequestInfo"), requestId }
]

const bodyOf = (error: DialectError, requestId: string, waitSeconds?: number) => ({
  error: {
    code: error.status,
    message: error.message,
    status: statusOf(error.status),
    details: detailsOf(error, requestId, waitSeconds)
  }
})

const waitOf = (status: number, quota: Quota | undefined, now: number): number | undefined => {
  const resetsAt = quota?.resetsAt ?? null
  return status !== 429 || resetsAt === null ? undefined : Math.max(1, Math.ceil((resetsAt - now) / 1000))
}

/** Errors as Google's SDKs read them; status 529 is specific to Anthropic. */
export const geminiErrors: ErrorWriter = {
  answer: (given, quota, requestId, now) => {
    const error = given.status === 529 ? { ...given, status: 503 } : given
    return { status: error.status, body: bodyOf(error, requestId, waitOf(error.status, quota, now)), headers: {} }
  },
  // An error in a stream of events has no frame; in an array it is an element.
  event: (error, requestId) => JSON.stringify(bodyOf(error, requestId))
}

/** Reasons for which Google refuses the gateway's key, though the status is another. */
const credentialReasons = lookupTable<number>({ API_KEY_INVALID: 401, ACCESS_TOKEN_EXPIRED: 401 })

const detailOf = (details: ReadonlyArray<unknown>, name: string): Json | undefined =>
  details.filter(isJson).find((detail) => detail["@type"] === typeOf(name))

const secondsOf = (delay: unknown): number | undefined => {
  const seconds = /^(\d{1,9}(?:\.\d{1,9})?)s$/.exec(textIn(delay))?.[1]
  return seconds === undefined ? undefined : Math.ceil(Number(seconds))
}

/** Parses an error of Google's, which a stream without events has in an array. */
export const readGeminiError = (status: number, given: unknown): ProviderError => {
  const body: unknown = Array.isArray(given) ? given[0] : given
  const inner = isJson(body) && isJson(body.error) ? body.error : {}
  const details = listIn(inner.details)
  const reason = textIn(detailOf(details, "ErrorInfo")?.reason)
  const violation: unknown = listIn(detailOf(details, "BadRequest")?.fieldViolations)[0]
  const field = isJson(violation) ? textIn(violation.field) : ""
  const error = readError(credentialReasons[reason] ?? status, body)
  return {
    ...error,
    code: error.code === contextLengthExceeded ? error.code : reason || textIn(inner.status) || null,
    param: field || undefined,
    retryAfterSeconds: secondsOf(detailOf(details, "RetryInfo")?.retryDelay)
  }
}

/** The error that an element of a stream is; undefined for content. Its own status is in it. */
export const errorInAnswer = (value: unknown): ProviderError | undefined => {
  if (!isJson(value) || !isJson(value.error)) return undefined
  const { code } = value.error
  const isStatus = typeof code === "number" && code >= 400 && code < 600
  return readGeminiError(isStatus ? code : 502, value)
}
