import { type Headers } from "effect/http"
import { type SettingsValues } from "../platform/settings/settings.ts"

/** A cookie that only this origin sets and that no script reads. */
export interface Cookie {
  readonly name: string
  readonly secure: boolean
}

/** Name and attributes of the session's cookie, as `Api:PublicUrl` decides them. */
export interface SessionCookie extends Cookie {
  readonly name: "__Host-am_session" | "am_session"
  /** The origin of our own pages. */
  readonly origin: string
}

export const sessionCookie = ({ api }: Pick<SettingsValues, "api">): SessionCookie => {
  const { origin, protocol } = new URL(api.publicUrl)
  const secure = protocol === "https:"
  return { name: secure ? "__Host-am_session" : "am_session", secure, origin }
}

/** The session token in a Cookie header; of several with the name the first, which is the most specific one. */
export const tokenInCookies = (cookie: Pick<Cookie, "name">, header: string | undefined): string | undefined => {
  if (header === undefined) return undefined
  for (const pair of header.split(";")) {
    const at = pair.indexOf("=")
    if (at > 0 && pair.slice(0, at).trim() === cookie.name) return pair.slice(at + 1).trim()
  }
  return undefined
}

/** Whether a Cookie header has a session token, under either of its names. */
export const hasSessionCookie = (header: string | undefined): boolean =>
  (["__Host-am_session", "am_session"] as const).some((name) => tokenInCookies({ name }, header) !== undefined)

const safeMethods: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"])

/**
 * Whether another site's page may have sent a request with our cookie. Browsers say so themselves; a client that
 * sends neither header is not a browser, and was given the cookie by its user.
 */
export const isFromAnotherSite = (cookie: SessionCookie, method: string, headers: Headers.Headers): boolean => {
  if (safeMethods.has(method)) return false
  const site = headers["sec-fetch-site"]
  if (site !== undefined) return site !== "same-origin" && site !== "none"
  return headers.origin !== undefined && headers.origin !== cookie.origin
}

/** The Set-Cookie header that gives a browser the token for so many seconds; 0 takes it away. */
export const setSessionCookie = (cookie: Cookie, token: string, maxAgeSeconds: number): string =>
  `${cookie.name}=${token}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Lax${cookie.secure ? "; Secure" : ""}`
