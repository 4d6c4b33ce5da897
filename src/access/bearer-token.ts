/** The token of an Authorization header (RFC 6750 §2.1); undefined when it is another scheme, or no token. */
export const bearerToken = (authorization: string): string | undefined =>
  /^bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(authorization)?.[1]
