import { Schema } from "effect"
import { repeatedMember } from "../../kernel/json/json-scanner.ts"
import { isStorable } from "../../kernel/text.ts"
import { maxAssertionCharacters } from "./domain.ts"

const maxLifetimeSeconds = 300
const skewSeconds = 10
const compact = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
const types: ReadonlySet<unknown> = new Set([undefined, "JWT", "client-authentication+jwt"])
const algorithms: ReadonlySet<unknown> = new Set(["ES256", "EdDSA", "Ed25519", "PS256", "RS256"])

/** What an assertion says before its key is known: the key id and the algorithm. */
export interface AssertionHeader {
  readonly kid: string
  readonly algorithm: "ES256" | "EdDSA" | "PS256" | "RS256"
}

const text = (value: unknown, most: number): value is string =>
  typeof value === "string" && value.length > 0 && value.length <= most && isStorable(value)

/** Whether the unused bits of the last character are zero, so that no other text encodes the same bytes. */
const isCanonical = (part: string): boolean => {
  const rest = part.length % 4
  const last = alphabet.indexOf(part.at(-1) ?? "")
  return rest === 0 || (rest === 2 && (last & 15) === 0) || (rest === 3 && (last & 3) === 0)
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
const Members = Schema.Record(Schema.String, Schema.Unknown)
const isMembers = Schema.is(Members)

const objectIn = (bytes: Uint8Array): Readonly<Record<string, unknown>> | undefined => {
  try {
    const value: unknown = JSON.parse(decoder.decode(bytes))
    return isMembers(value) && !Array.isArray(value) && repeatedMember(bytes) === undefined ? value : undefined
  } catch {
    return undefined
  }
}

const decoded = (part: string): Uint8Array => Uint8Array.from(Buffer.from(part, "base64url"))

/** Reads form and header of an assertion; a text is why it is none. Keys that a header brings along are never used. */
export const readAssertion = (assertion: string): AssertionHeader | string => {
  if (assertion.length > maxAssertionCharacters) return "too-long"
  if (!compact.test(assertion)) return "not-compact"
  const parts = assertion.split(".")
  if (!parts.every(isCanonical)) return "not-canonical"
  const header = objectIn(decoded(parts[0] ?? ""))
  if (header === undefined) return "header-unreadable"
  if (header.crit !== undefined || header.b64 !== undefined) return "critical-header"
  if (!types.has(header.typ)) return "wrong-type"
  if (!algorithms.has(header.alg)) return "wrong-algorithm"
  if (!text(header.kid, 128)) return "no-kid"
  const algorithm = header.alg === "Ed25519" ? "EdDSA" : (header.alg as AssertionHeader["algorithm"])
  return { kid: header.kid, algorithm }
}

/** What is left of an assertion when all its claims are as they must be. */
export interface Claims {
  readonly jti: string
  /** Seconds since 1970. */
  readonly exp: number
}

/** Checks the claims of a verified payload (RFC 7523 §3); a text is what is wrong. */
export const checkClaims = (
  payload: Uint8Array,
  expected: { readonly agentId: string; readonly audiences: ReadonlyArray<string>; readonly nowSeconds: number }
): Claims | string => {
  const { agentId, audiences, nowSeconds: now } = expected
  const claims = objectIn(payload)
  if (claims === undefined) return "payload-unreadable"
  const { aud, exp, iat, iss, jti, nbf, sub } = claims
  if (iss !== agentId) return "wrong-issuer"
  if (sub !== agentId) return "wrong-subject"
  if (typeof aud !== "string" || !audiences.includes(aud)) return "wrong-audience"
  if (!isSeconds(exp)) return "no-expiry"
  if (!isSeconds(iat)) return "no-issue-time"
  if (exp <= now) return "expired"
  if (exp <= iat || exp - iat > maxLifetimeSeconds) return "lives-too-long"
  if (iat > now + skewSeconds) return "issued-in-the-future"
  if (nbf !== undefined && (!isSeconds(nbf) || nbf > now + skewSeconds)) return "not-yet-valid"
  if (!text(jti, 256)) return "no-jti"
  return { jti, exp }
}

const isSeconds = (value: unknown): value is number => Number.isSafeInteger(value)

/** The claims of a JWT, without verification; undefined when they cannot be read. */
export const claimsIn = (jwt: string): Readonly<Record<string, unknown>> | undefined => {
  const part = jwt.split(".", 2)[1]
  return part === undefined || jwt.length > maxAssertionCharacters ? undefined : objectIn(decoded(part))
}

/** Who an assertion says that it is from; undefined when it says nothing readable. */
export const claimedAgent = (assertion: string): string | undefined => {
  const sub = claimsIn(assertion)?.sub
  return typeof sub === "string" ? sub : undefined
}
