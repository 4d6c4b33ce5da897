const isKey = (text: string): boolean => text.startsWith("amk_")

/** The API key that an Authorization header has, as a bearer token or within the credentials of Basic (RFC 7617). */
export const keyInAuthorization = (authorization: string): string | undefined => {
  const basic = /^basic +([A-Za-z0-9+/]+=*)$/i.exec(authorization)?.[1]
  if (basic === undefined) return [bearerToken(authorization) ?? ""].find(isKey)
  const text = Buffer.from(basic, "base64").toString("latin1")
  const colon = text.indexOf(":")
  return [text.slice(colon + 1), text.slice(0, Math.max(0, colon))].find(isKey)
}

/** The token of an Authorization header (RFC 6750 §2.1); undefined when it is another scheme, or no token. */
export const bearerToken = (authorization: string): string | undefined =>
  /^bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(authorization)?.[1]
