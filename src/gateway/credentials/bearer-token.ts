import { Effect, Redacted } from "effect"
import { type Json } from "../../kernel/json/parsed-json.ts"
import { CredentialUnavailable, type Token } from "./token-source.ts"

const longestLifetimeSeconds = 86_400
/** What OAuth's answers mean without `expires_in` is left open (RFC 6749 §5.1); every vendor here sends it. */
const usualLifetimeSeconds = 300

const secondsIn = (given: unknown): number | undefined => {
  const seconds = typeof given === "string" && /^\d{1,9}$/.test(given) ? Number(given) : given
  return typeof seconds === "number" && Number.isFinite(seconds) && seconds > 0
    ? Math.min(seconds, longestLifetimeSeconds)
    : undefined
}

/** The token of an answer of a token endpoint (RFC 6749 §5.1). Its lifetime is relative, so that no clock is compared. */
export const bearerTokenIn = (
  hostname: string,
  { access_token: token, expires_in: lifetime }: Json
): Effect.Effect<Token, CredentialUnavailable> =>
  typeof token === "string" && /^[\x21-\x7e]{1,65536}$/.test(token)
    ? Effect.succeed({
        value: Redacted.make(token, { label: "provider-token" }),
        lifetimeMillis: (secondsIn(lifetime) ?? usualLifetimeSeconds) * 1000
      })
    : Effect.fail(new CredentialUnavailable({ detail: `${hostname} answered without a token` }))
