import { Context } from "effect"
import { HttpApiMiddleware, OpenApi } from "effect/http-api"
import { type Capability } from "./capability.ts"
import { Forbidden, RateLimited, Unauthenticated } from "./principal.ts"

/** What an endpoint asks of its caller. An endpoint that declares nothing lets nobody in. */
export interface Requirement {
  /** null: whoever is let in at all may, since it is about the caller itself. */
  readonly capability: Capability | null
  /** Others, of which each is enough. */
  readonly or?: ReadonlyArray<Capability> | undefined
  /** Whether the gateway's policy says which credentials count (Llm:Gateway:Auth). */
  readonly byGatewayPolicy?: boolean | undefined
  /** Whether nobody but an account that signed in may. */
  readonly accountsOnly: boolean
  /** Things of the installation: a tenant-scoped caller gets 403 whatever its scopes. */
  readonly systemOnly: boolean
}

export class RequiredCapability extends Context.Service<RequiredCapability, Requirement>()(
  "app/auth/RequiredCapability"
) {}

/** Endpoints that caps alone limit: by what their callers spend, and not by how often they ask. */
export const LimitedByCaps = Context.Reference<boolean>("app/auth/LimitedByCaps", { defaultValue: () => false })

const anyCredential = [{ apiKey: [] }, { bearer: [] }, { session: [] }]

/** Annotations of an endpoint: the capability it needs, shown in the OpenAPI document as `x-required-capability`. */
export const requires = (
  capability: Capability,
  options?: {
    readonly systemOnly?: boolean
    readonly or?: ReadonlyArray<Capability>
    readonly byGatewayPolicy?: boolean
  }
) => {
  const byGatewayPolicy = options?.byGatewayPolicy
  const systemOnly = options?.systemOnly ?? false
  const or = options?.or
  return Context.make(RequiredCapability, { capability, or, systemOnly, accountsOnly: false, byGatewayPolicy }).pipe(
    Context.merge(
      OpenApi.annotations({
        override: {
          security: anyCredential,
          "x-required-capability": capability,
          ...(or === undefined ? {} : { "x-or-capabilities": or }),
          ...(systemOnly ? { "x-system-only": true } : {})
        }
      })
    )
  )
}

/** Annotations of an endpoint about the caller itself: it needs a credential, and no capability. */
export const requiresCredential = (options?: { readonly accountsOnly?: boolean }) => {
  const accountsOnly = options?.accountsOnly ?? false
  return Context.make(RequiredCapability, { capability: null, systemOnly: false, accountsOnly }).pipe(
    Context.merge(
      OpenApi.annotations({
        override: accountsOnly
          ? { security: [{ bearer: [] }, { session: [] }], "x-accounts-only": true }
          : { security: anyCredential }
      })
    )
  )
}

/**
 * Authenticates the caller, limits its rate and checks the capability that the endpoint declares. It reads the request
 * itself, since what the credentials mean together is not for one scheme after another to say.
 */
export class Access extends HttpApiMiddleware.Service<Access>()("app/auth/Access", {
  error: [Unauthenticated, Forbidden, RateLimited]
}) {}
