/** A text in the characters that OAuth allows in errors (RFC 6749 §5.2), which need no escapes in a quoted string either. */
export const errorText = (text: string): string => text.replaceAll(/["\\]/g, "'").replaceAll(/[^\x20-\x7e]/g, "?")

/** What a challenge says beside its realm. */
interface Challenge {
  /** What is wrong with the token that was presented (RFC 6750 §3.1); absent where there is none. */
  readonly error?: string | undefined
  readonly description?: string | undefined
  /** The scopes that the request needs. */
  readonly scopes?: ReadonlyArray<string> | undefined
  /** Where a client learns who issues tokens (RFC 9728 §5.1). */
  readonly resourceMetadata?: string | undefined
}

/** One challenge of the header WWW-Authenticate (RFC 9110 §11.6.1, RFC 6750 §3). */
export const challengeOf = (
  scheme: "ApiKey" | "Basic" | "Bearer",
  { description, error, resourceMetadata, scopes = [] }: Challenge = {}
): string => {
  const parameters = {
    realm: "application-manager",
    resource_metadata: resourceMetadata,
    error,
    error_description: error === undefined ? undefined : description,
    scope: scopes.length === 0 ? undefined : scopes.join(" ")
  }
  const written = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}="${errorText(value)}"`]
  )
  return `${scheme} ${written.join(", ")}`
}
