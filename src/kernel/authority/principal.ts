import { Context, type DateTime, Schema } from "effect"
import { type TenantId } from "../identifier.ts"
import { Problem } from "../problems/problem.ts"
import { Capability } from "./capability.ts"

/** The identity that a request acts as. An undefined `tenantId` means all tenants (a system principal). */
export interface Principal {
  readonly kind: "service-account" | "api-key" | "account" | "agent" | "synthetic" | "system" | "anonymous"
  /** As stored in audit entries: `service-account`, `api-key:<id>`, `system`, … */
  readonly name: string
  readonly capabilities: ReadonlyArray<Capability>
  readonly tenantId: TenantId | undefined
  readonly applicationId: number | undefined
  /** When the authority itself ends, as that of a key with an expiry; not when a sign-in does. */
  readonly expiresAt?: DateTime.Utc | undefined
  /** The API key whose caps apply too: that of a synthetic principal, or one that an agent had to send as well. */
  readonly apiKeyId?: string
  /** Whether it monitors or tests: what it does counts in no report unless one asks for it. */
  readonly synthetic?: boolean
  /** The sign-in session of an account. */
  readonly sessionId?: string
}

export const anonymous: Principal = {
  kind: "anonymous",
  name: "anonymous",
  capabilities: [],
  tenantId: undefined,
  applicationId: undefined
}

/** The service itself, in background jobs. */
export const system: Principal = {
  kind: "system",
  name: "system",
  capabilities: ["*:*"],
  tenantId: undefined,
  applicationId: undefined
}

export const serviceAccount: Principal = {
  kind: "service-account",
  name: "service-account",
  capabilities: ["*:*"],
  tenantId: undefined,
  applicationId: undefined
}

/** The principal of the running work; anonymous until the access check or a background job sets it. */
export const CurrentPrincipal = Context.Reference<Principal>("app/kernel/CurrentPrincipal", {
  defaultValue: () => anonymous
})

export class Unauthenticated extends Problem<Unauthenticated>()("Unauthenticated", {
  slug: "unauthenticated",
  status: 401,
  meaning:
    "The request has no valid credential: send an API key in the header X-Api-Key, or a token in Authorization: Bearer."
}) {}

export class Forbidden extends Problem<Forbidden>()(
  "Forbidden",
  {
    slug: "forbidden",
    status: 403,
    meaning: "The caller is not allowed to do this; `missing` lists the capabilities that it lacks."
  },
  { missing: Schema.Array(Capability) }
) {}

export class RateLimited extends Problem<RateLimited>()(
  "RateLimited",
  {
    slug: "rate-limited",
    status: 429,
    meaning: "The caller has reached its rate limit; retry after the seconds in Retry-After."
  },
  { retryAfterSeconds: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 3600 }))) }
) {}
