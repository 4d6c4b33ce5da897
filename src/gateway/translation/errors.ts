import { isJson } from "../../kernel/parsed-json.ts"
import { type Dialect } from "./domain.ts"

type Json = Readonly<Record<string, unknown>>

/** An error before it is written in a dialect. */
export interface DialectError {
  readonly status: number
  readonly message: string
  /** What a program tells the case by, such as `model_not_found`; OpenAI's `code`. */
  readonly code: string | null
  /** The member of the request that is at fault, where there is one. */
  readonly param?: string | undefined
  /** What an SDK acts on by itself; Anthropic's `details`. */
  readonly details?: Json | undefined
  /** The members of a provider's own error: callers of its dialect get them unchanged. */
  readonly original?: { readonly dialect: Dialect; readonly members: Json } | undefined
}

/** What a limit of requests or tokens leaves. */
export interface Quota {
  readonly unit: "requests" | "tokens"
  readonly limit: bigint
  readonly remaining: bigint
  /** When all of it is there again, in milliseconds since 1970; null where it never is. */
  readonly resetsAt: number | null
}

/** The members of a provider's own error, where it speaks this dialect. */
export const originalMembers = (dialect: Dialect, { original }: DialectError): Json =>
  original?.dialect === dialect ? original.members : {}

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
  original: { dialect, members: membersOf(body) }
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
