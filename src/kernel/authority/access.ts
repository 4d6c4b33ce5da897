import { Context } from "effect"
import { HttpApiMiddleware, OpenApi } from "effect/http-api"
import { type Capability } from "./capability.ts"
import { Forbidden, RateLimited, Unauthenticated } from "./principal.ts"

/** What an endpoint requires of its caller. An endpoint that declares nothing rejects every caller. */
export interface Requirement {
  /** null: any authenticated caller may, since the endpoint is about the caller itself. */
  readonly capability: Capability | null
  /** Alternatives, each of them sufficient. */
  readonly or?: ReadonlyArray<Capability> | undefined
  /** What it requires beside that, all of it. */
  readonly and?: ReadonlyArray<Capability> | undefined
  /** Whether the gateway's policy decides which credentials are accepted (Llm:Gateway:Auth). */
  readonly byGatewayPolicy?: boolean | undefined
  /** Whether only an account that signed in may. */
  readonly accountsOnly: boolean
  /** Resources of the installation: a tenant-scoped caller gets 403 whatever its scopes. */
  readonly systemOnly: boolean
}

export class RequiredCapability extends Context.Service<RequiredCapability, Requirement>()(
  "app/kernel/RequiredCapability"
) {}

/**
 * Endpoints that open or close a reservation: such a request is limited by caps, so by what its caller spends, and any other
 * by the rate of requests.
 */
export const LimitedByCaps = Context.Reference<boolean>("app/kernel/LimitedByCaps", { defaultValue: () => false })

/** The credentials of most operations, each of them sufficient. */
export const anyCredential = [{ apiKey: [] }, { bearer: [] }, { session: [] }]

/** Annotations of an endpoint: the capability it needs, shown in the OpenAPI document as `x-required-capability`. */
export const requires = (
  capability: Capability,
  options?: {
    readonly systemOnly?: boolean
    readonly or?: ReadonlyArray<Capability>
    readonly and?: ReadonlyArray<Capability>
    readonly byGatewayPolicy?: boolean
  }
) => {
  const byGatewayPolicy = options?.byGatewayPolicy
  const systemOnly = options?.systemOnly ?? false
  const or = options?.or
  const and = options?.and
  return Context.make(RequiredCapability, {
    capability,
    or,
    and,
    systemOnly,
    accountsOnly: false,
    byGatewayPolicy
  }).pipe(
    Context.merge(
      OpenApi.annotations({
        override: {
          security: anyCredential,
          "x-required-capability": capability,
          ...(or === undefined ? {} : { "x-or-capabilities": or }),
          ...(and === undefined ? {} : { "x-and-capabilities": and }),
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
 * itself, since some credentials are only valid together.
 */
export class Access extends HttpApiMiddleware.Service<Access>()("app/kernel/Access", {
  error: [Unauthenticated, Forbidden, RateLimited]
}) {}
