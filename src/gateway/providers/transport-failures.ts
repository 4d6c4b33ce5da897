import { codesOf, isUnsent } from "../../platform/outbound/connection-errors.ts"
import { addressRefused } from "../../platform/outbound/guarded-dispatcher.ts"
import { unreadableFile } from "../../platform/runtime/temporary-file.ts"
import { type DialectError } from "../formats/errors.ts"
import { ProviderFailure } from "./provider.ts"

export const bad = (status: number, message: string, code: string): DialectError => ({ status, message, code })

export const failure = (
  reason: ProviderFailure["reason"],
  error: DialectError,
  sent: boolean,
  answer: Partial<Pick<ProviderFailure, "headers" | "received" | "retryAfterSeconds" | "usage">> = {}
) => new ProviderFailure({ reason, error, sent, ...answer })

/** Says nothing against the provider, which cannot use a form without its end. */
const unreadableFiles = failure(
  "busy",
  bad(
    503,
    "The provider did not get the whole request, whose files cannot be read again from the directory of Llm:Gateway:UploadDirectory.",
    "overloaded"
  ),
  false
)

const late = new Set(["UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT", "ERR_DEADLINE"])

/** A connection error with a code, like Node's own errors. */
export const transportError = (message: string, code: string): Error => Object.assign(new Error(message), { code })

/** The failure of a call whose connection failed this way. */
export const fromTransport = (cause: unknown): ProviderFailure => {
  const codes = codesOf(cause)
  if (codes.some((code) => late.has(code))) {
    return failure("timeout", bad(504, "The provider did not answer in time.", "provider-timeout"), true)
  }
  if (codes.includes(unreadableFile)) return unreadableFiles
  if (codes.includes(addressRefused)) {
    return failure(
      "connection",
      bad(502, "The provider's address is none of the public internet.", "address-refused"),
      false
    )
  }
  if (codes.includes("ERR_TOO_LARGE")) {
    return failure("broken-off", bad(502, "The provider's answer is too large.", "provider-error"), true)
  }
  return isUnsent(codes)
    ? failure("connection", bad(502, "The provider cannot be reached.", "provider-unavailable"), false)
    : failure("broken-off", bad(502, "The provider broke the connection off.", "provider-unavailable"), true)
}
