import { Context } from "effect"
import { HttpApiMiddleware, OpenApi } from "effect/http-api"
import { type Capability } from "../kernel/capability.ts"
import { Forbidden, RateLimited, Unauthenticated } from "./domain.ts"

/** What an endpoint asks of its caller. An endpoint that declares nothing lets nobody in. */
export interface Requirement {
  readonly capability: Capability
  /** Another one that is enough. */
  readonly or?: Capability | undefined
  /** Things of the installation: a tenant-scoped caller gets 403 whatever its scopes. */
  readonly systemOnly: boolean
}

export class RequiredCapability extends Context.Service<RequiredCapability, Requirement>()(
  "app/auth/RequiredCapability"
) {}

/** Annotations of an endpoint: the capability it needs, shown in the OpenAPI document as `x-required-capability`. */
export const requires = (
  capability: Capability,
  options?: { readonly systemOnly?: boolean; readonly or?: Capability }
) => {
  const systemOnly = options?.systemOnly ?? false
  const or = options?.or
  return Context.make(RequiredCapability, { capability, or, systemOnly }).pipe(
    Context.merge(
      OpenApi.annotations({
        override: {
          security: [{ apiKey: [] }, { bearer: [] }, { session: [] }],
          "x-required-capability": capability,
          ...(or === undefined ? {} : { "x-or-capability": or }),
          ...(systemOnly ? { "x-system-only": true } : {})
        }
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
