import { isJson, type Json } from "../../kernel/json/parsed-json.ts"
import { type Dialect } from "./domain.ts"

/** An error before it is written in a dialect. */
export interface DialectError {
  readonly status: number
  readonly message: string
  /** The machine-readable code, such as `model_not_found`; OpenAI's `code`. */
  readonly code: string | null
  /** The member of the request that is at fault, where there is one. */
  readonly param?: string | undefined
  /** Details that SDKs act on; Anthropic's `details`. */
  readonly details?: Json | undefined
  /** The members of a provider's own error: callers of its dialect get them unchanged. */
  readonly original?: { readonly dialect: Dialect; readonly members: Json } | undefined
}

/** An error of a provider, and when its body says to try again. */
export interface ProviderError extends DialectError {
  readonly retryAfterSeconds?: number | undefined
}

/** What remains of a request or token limit. */
export interface Quota {
  readonly unit: "requests" | "tokens"
  readonly limit: bigint
  readonly remaining: bigint
  /** When the limit is fully available again, in milliseconds since 1970; null if never. */
  readonly resetsAt: number | null
}

/** The members of a provider's own error, if the provider uses this dialect. */
export const originalMembers = (dialect: Dialect, { original }: DialectError): Json =>
  original?.dialect === dialect ? original.members : {}

const textIn = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value.slice(0, 2000) : undefined

/** The error format of Python servers such as FastAPI: `detail` is a string or a list. */
const detailIn = ({ detail, message }: Json): string | undefined => {
  const told = detail ?? message
  return textIn(told) ?? (told === undefined || told === null ? undefined : textIn(JSON.stringify(told)))
}

/** Google sends the error of a stream as an element of a list. */
const unlisted = (body: unknown): unknown =>
  Array.isArray(body) ? body.find((element) => isJson(element) && Boolean(element.error)) : body

/** Vendors nest errors under `error`; other servers do not. */
const innerOf = (outer: Json): Json => (isJson(outer.error) ? outer.error : outer.error === undefined ? outer : {})

const toldMembers = ["type", "param", "code", "details"]

/** The members of a provider's error that its SDK acts on; a `type` that is not a string is omitted. */
const membersOf = (given: unknown): Json => {
  const body = unlisted(given)
  const inner = isJson(body) ? innerOf(body) : {}
  return Object.fromEntries(
    toldMembers
      .filter((name) => (name === "type" ? textIn(inner.type) : inner[name]) !== undefined)
      .map((name) => [name, inner[name]])
  )
}

/** Parses an error of a provider of this dialect. */
export const readErrorIn = (dialect: Dialect, status: number, body: unknown): DialectError => ({
  ...readError(status, body),
  original: { dialect, members: membersOf(body) }
})

/** Members that only an answer without an error has. */
const answers = ["candidates", "choices", "content", "data", "output"]

/** The error that a value is, with the usage beside it; undefined for an answer. Some providers do not nest it under `error`. */
export const errorAlone = (given: unknown): Json | undefined => {
  const value = unlisted(given)
  if (!isJson(value) || answers.some((name) => value[name])) return undefined
  const { error = undefined, object, type, usage } = value
  if (error) return { error: isJson(error) ? error : { message: error }, usage }
  return object === "error" || type === "error" ? { error: value, usage } : undefined
}

/** The error that a provider sent as an event of a stream in OpenAI's dialect. */
export const errorInEvent = (event: unknown): DialectError | undefined =>
  isJson(event) && event.error ? readError(502, event) : undefined

/** Parses an error of any vendor. */
export const readError = (status: number, given: unknown): DialectError => {
  const body = unlisted(given)
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
