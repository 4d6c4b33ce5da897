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
  const text = detail ?? message
  return textIn(text) ?? (text === undefined || text === null ? undefined : textIn(JSON.stringify(text)))
}

/** Google sends the error of a stream as an element of a list. */
const unlisted = (body: unknown): unknown =>
  Array.isArray(body) ? body.find((element) => isJson(element) && Boolean(element.error)) : body

/** Vendors nest errors under `error`; other servers do not. */
const innerOf = (outer: Json): Json => (isJson(outer.error) ? outer.error : outer.error === undefined ? outer : {})

const toldMembers: ReadonlySet<string> = new Set(["type", "param", "code", "details"])

/**
 * The members of a provider's error that its clients act on. Vendors add members to an error that is nested; what is not
 * nested has members of other kinds, too.
 */
const membersOf = (given: unknown): Json => {
  const body = unlisted(given)
  const outer = isJson(body) ? body : {}
  const isNested = isJson(outer.error)
  return Object.fromEntries(
    Object.entries(innerOf(outer)).filter(
      ([name, value]) =>
        name !== "message" && (isNested || toldMembers.has(name)) && (name !== "type" || textIn(value) !== undefined)
    )
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

/** OpenAI's code of a conversation that is longer than the model's context. */
export const contextLengthExceeded = "context_length_exceeded"

/** How vendors say so. */
const tooLong = new RegExp(
  [
    "(?:prompt|input) is too long",
    String.raw`(?:prompt|input) (?:token count|length)\b.*\bexceeds?\b`,
    String.raw`(?:exceed|larger than|longer than)\w*\b.*\bcontext (?:length|window|limit|size)`,
    "maximum (?:context|prompt) length",
    "exceeded model token limit",
    "prompt exceeds max length",
    "reduce the length of the messages"
  ].join("|"),
  "i"
)

const codeIn = (inner: Json, message: string, status: number): string | null => {
  const given = textIn(inner.code) ?? (typeof inner.code === "number" ? String(inner.code) : undefined)
  const code = given !== undefined && isStatus(given) ? undefined : given
  if (code === undefined && status !== 429 && tooLong.test(message)) return contextLengthExceeded
  return code ?? textIn(inner.type) ?? null
}

/** Whether a code repeats the status, and says no more. */
const isStatus = (code: string): boolean => /^[1-5]\d\d$/.test(code)

/** Parses an error of any vendor. */
export const readError = (status: number, given: unknown): DialectError => {
  const body = unlisted(given)
  const outer = isJson(body) ? body : {}
  const { error } = outer
  const inner = innerOf(outer)
  const message =
    textIn(inner.message) ?? textIn(error) ?? detailIn(outer) ?? `The provider answered with status ${status}.`
  return { status, message, code: codeIn(inner, message, status), param: textIn(inner.param) }
}
