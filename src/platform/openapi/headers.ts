import { conditionalPattern } from "../../kernel/http/precondition.ts"
import { type Json } from "./schemas.ts"

/** The request header of every idempotent operation. */
export const idempotencyKey = {
  name: "Idempotency-Key",
  in: "header",
  description: "Makes the request repeatable: for 24 hours the first response is returned again.",
  schema: { type: "string", pattern: "^[ -~]{1,255}$", examples: ["8e03978e-40d5-43dd-bc93-6894a57f9324"] }
}

const tags = { type: "string", pattern: conditionalPattern }

/** The request headers of every operation on a resource, and of every one that changes something. */
export const ifMatch = {
  name: "If-Match",
  in: "header",
  description:
    "Makes the request only if the current ETag of the resource is one of these, or, with `*`, if it is there; otherwise 412 (RFC 9110 §13.1.1). Weak tags never match.",
  schema: { ...tags, examples: ['"1"', "*"] }
}
export const ifNoneMatch = {
  name: "If-None-Match",
  in: "header",
  description:
    "A GET answers 304 if the current ETag of the resource is one of these; what changes something answers 412 then, or, with `*`, if the resource is there (RFC 9110 §13.1.2)",
  schema: { ...tags, examples: ['"1"', "*"] }
}

/** The response header of what shows a resource that is read by its id. */
export const entityTag = {
  description:
    "The entity tag of the resource, for If-Match and If-None-Match (RFC 9110 §8.8.3). What follows a `~` is of its last use alone, which If-Match does not compare.",
  required: true,
  schema: { type: "string", examples: ['"GKot5hBsd81kMupNCXHaqb"'] }
}

/** The response header of what browsers save as a file. */
export const attachment = {
  "Content-Disposition": {
    description: "`attachment` and a name for the file (RFC 6266)",
    schema: { type: "string", examples: ['attachment; filename="usage-2026-01-01-2026-02-01.csv"'] }
  }
}

/** The headers of a response with this status, by whether the operation limits its callers, and may answer again with what it stored. */
export const headersOf = (status: string, isLimited: boolean, isReplayed: boolean): Json => {
  const names = [
    "X-Request-Id",
    ...(isLimited ? ["RateLimit", "RateLimit-Policy"] : []),
    ...(status === "429" || status === "503" ? ["Retry-After"] : []),
    ...(status === "401" ? ["WWW-Authenticate"] : []),
    ...(status.startsWith("2") && isReplayed ? ["Idempotency-Replayed"] : [])
  ]
  return {
    ...Object.fromEntries(names.map((name) => [name, responseHeaders[name]])),
    ...(status === "403" ? { "WWW-Authenticate": neededScopes } : {})
  }
}

const neededScopes = {
  description: "Of the problem `forbidden`: what a token needs (RFC 6750 §3.1)",
  schema: {
    type: "string",
    examples: ['Bearer realm="application-manager", error="insufficient_scope", scope="roles:read"']
  }
}

const responseHeaders: Readonly<Record<string, Json>> = {
  "X-Request-Id": {
    description: "The caller's X-Request-Id if it is 1 to 128 of A-Z a-z 0-9 . _ -, otherwise a new one",
    required: true,
    schema: { type: "string", pattern: "^[A-Za-z0-9._-]{1,128}$", examples: ["mCy6ymLWY9Tt-0"] }
  },
  RateLimit: {
    description: "The caller's remaining requests: r requests in the next t seconds (IETF ratelimit-headers draft)",
    schema: { type: "string", examples: ['"principal";r=5999;t=60'] }
  },
  "RateLimit-Policy": {
    description: "The caller's limit: q requests in w seconds (IETF ratelimit-headers draft)",
    schema: { type: "string", examples: ['"principal";q=6000;w=60'] }
  },
  "Retry-After": {
    description: "Seconds after which to try again",
    required: true,
    schema: { type: "integer", minimum: 1, maximum: 3600, examples: [2] }
  },
  "WWW-Authenticate": {
    description:
      "The ways to authenticate (RFC 9110 §11.6.1), and `error` if a bearer token is not accepted (RFC 6750 §3.1)",
    required: true,
    schema: {
      type: "string",
      examples: [
        'Bearer realm="application-manager", error="invalid_token", scope="roles:read", ApiKey realm="application-manager"'
      ]
    }
  },
  "Idempotency-Replayed": {
    description:
      "Present if this is the stored response to the first request with the Idempotency-Key; one-time secrets are masked",
    schema: { type: "string", enum: ["true"] }
  }
}
