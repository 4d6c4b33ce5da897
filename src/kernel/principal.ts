import { Context, Schema } from "effect"
import { Capability } from "./capability.ts"
import { type TenantId } from "./identifier.ts"
import { Problem } from "./problem.ts"

/** Who calls. `tenantId` undefined means every tenant (a system principal). */
export interface Principal {
  readonly kind: "service-account" | "api-key" | "account" | "agent" | "synthetic" | "system" | "anonymous"
  /** As written in every record: `service-account`, `api-key:<id>`, `system`, … */
  readonly name: string
  readonly capabilities: ReadonlyArray<Capability>
  readonly tenantId: TenantId | undefined
  readonly applicationId: number | undefined
  /** The key that an agent came with, where both are asked for: its caps hold too. */
  readonly apiKeyId?: string
  /** The sign-in that an account came with. */
  readonly sessionId?: string
}

export const anonymous: Principal = {
  kind: "anonymous",
  name: "anonymous",
  capabilities: [],
  tenantId: undefined,
  applicationId: undefined
}

/** The service itself, at work in the background. */
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

/** Whose authority the running work has; nobody's until the access check or a background job says whose. */
export const CurrentPrincipal = Context.Reference<Principal>("app/auth/CurrentPrincipal", {
  defaultValue: () => anonymous
})

export class Unauthenticated extends Problem<Unauthenticated>()("Unauthenticated", {
  slug: "unauthenticated",
  status: 401,
  meaning: "No valid credential came with the request."
}) {}

export class Forbidden extends Problem<Forbidden>()(
  "Forbidden",
  {
    slug: "forbidden",
    status: 403,
    meaning: "The caller may not do this; `missing` names the capabilities it lacks."
  },
  { missing: Schema.Array(Capability) }
) {}

export class RateLimited extends Problem<RateLimited>()(
  "RateLimited",
  {
    slug: "rate-limited",
    status: 429,
    meaning: "The caller has used up its requests for this minute; Retry-After says when more are granted."
  },
  { retryAfterSeconds: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 3600 }))) }
) {}
