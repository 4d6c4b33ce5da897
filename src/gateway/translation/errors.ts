import { isJson } from "../../kernel/parsed-json.ts"
import { type Dialect } from "./domain.ts"

type Json = Readonly<Record<string, unknown>>

/** A refusal or failure, before it is written in a dialect. */
export interface DialectError {
  readonly status: number
  readonly message: string
  /** What a program tells the case by, such as `model_not_found`; OpenAI's `code`. */
  readonly code: string | null
  /** The member of the request that is at fault, where there is one. */
  readonly param?: string | undefined
  /** What an SDK acts on by itself; Anthropic's `details`. */
  readonly details?: Json | undefined
  /** What a provider itself told of its error, as it came: callers that speak its dialect are told the same. */
  readonly told?: { readonly dialect: Dialect; readonly members: Json } | undefined
}

const openAiTypes: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "insufficient_quota",
  403: "permission_error",
  404: "invalid_request_error",
  413: "invalid_request_error",
  429: "rate_limit_error"
}

const anthropicTypes: Readonly<Record<number, string>> = {
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

const statusClass = (status: number): string => (status < 500 ? "invalid_request_error" : "api_error")

/** The status that a dialect answers with: Anthropic has one of its own for overload. */
export const statusIn = (dialect: Dialect, status: number): number =>
  dialect === "anthropic" && status === 503 ? 529 : dialect === "openai" && status === 529 ? 503 : status

const toldIn = (dialect: Dialect, { told }: DialectError): Json => (told?.dialect === dialect ? told.members : {})

/** An error's body as the SDKs of a dialect read it. */
export const errorBody = (dialect: Dialect, error: DialectError, requestId: string): Json =>
  dialect === "openai"
    ? {
        error: {
          message: error.message,
          type: openAiTypes[error.status] ?? (error.status < 500 ? "invalid_request_error" : "server_error"),
          param: error.param ?? null,
          code: error.code,
          ...toldIn(dialect, error)
        }
      }
    : {
        type: "error",
        error: {
          type: anthropicTypes[error.status] ?? statusClass(error.status),
          message: error.message,
          ...(error.details === undefined ? {} : { details: error.details }),
          ...toldIn(dialect, error)
        },
        request_id: requestId
      }

/** An error in the middle of a stream, where the status was sent long ago. */
export const errorEvent = (dialect: Dialect, error: DialectError, requestId: string): string => {
  const data = JSON.stringify(errorBody(dialect, error, requestId))
  return dialect === "openai" ? `data: ${data}\n\n` : `event: error\ndata: ${data}\n\n`
}

const textIn = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value.slice(0, 2000) : undefined

/** A fault, or a list of them, as servers that are written in Python tell them. */
const detailIn = ({ detail, message }: Json): string | undefined => {
  const told = detail ?? message
  return textIn(told) ?? (told === undefined || told === null ? undefined : textIn(JSON.stringify(told)))
}

/** Both dialects keep what an error says under `error`, others beside it. */
const innerOf = (outer: Json): Json => (isJson(outer.error) ? outer.error : outer.error === undefined ? outer : {})

const toldMembers = ["type", "param", "code", "details"]

/** The members of a provider's error that its SDK acts on; a type that is no word is none. */
const membersOf = (body: unknown): Json => {
  const inner = isJson(body) ? innerOf(body) : {}
  return Object.fromEntries(
    toldMembers
      .filter((name) => (name === "type" ? textIn(inner.type) : inner[name]) !== undefined)
      .map((name) => [name, inner[name]])
  )
}

/** What the error of a provider of a dialect says. */
export const readErrorIn = (dialect: Dialect, status: number, body: unknown): DialectError => ({
  ...readError(status, body),
  told: { dialect, members: membersOf(body) }
})

/** What an error says, whichever dialect it is in. */
export const readError = (status: number, body: unknown): DialectError => {
  const outer = isJson(body) ? body : {}
  const { error } = outer
  const inner = innerOf(outer)
  return {
    status,
    message:
      textIn(inner.message) ?? textIn(error) ?? detailIn(outer) ?? `The provider answered with status ${status}.`,
    code: textIn(inner.code) ?? textIn(inner.type) ?? null,
    param: textIn(inner.param)
  }
}
