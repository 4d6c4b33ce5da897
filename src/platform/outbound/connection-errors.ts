import { Predicate } from "effect"
import { addressRefused } from "./guarded-dispatcher.ts"

/** Error codes of connections that were never established, so that nothing was sent. */
const unsent = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
  "UND_ERR_CONNECT_TIMEOUT",
  addressRefused
])

/** The codes of an error and of those that caused it. */
export const codesOf = (cause: unknown): ReadonlyArray<string> => {
  if (!Predicate.isObject(cause)) return []
  const nested = Predicate.hasProperty(cause, "errors") && Array.isArray(cause.errors) ? cause.errors : []
  const own = Predicate.hasProperty(cause, "code") && typeof cause.code === "string" ? [cause.code] : []
  const below = Predicate.hasProperty(cause, "cause") ? codesOf(cause.cause) : []
  return [...own, ...nested.flatMap(codesOf), ...below]
}

/** Whether the code is of a connection whose certificate was not accepted. */
export const isTlsError = (code: string): boolean => /CERT|ERR_TLS|ERR_SSL|UNABLE_TO_VERIFY|SELF_SIGNED/.test(code)

/** Whether nothing was sent, since the connection was never established. */
export const isUnsent = (codes: ReadonlyArray<string>): boolean =>
  codes.some((code) => unsent.has(code) || isTlsError(code))
