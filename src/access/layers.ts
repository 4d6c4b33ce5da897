import { Layer } from "effect"
import { AccessLayer } from "./access.ts"
import { AuthCacheInvalidation } from "./auth-cache-invalidation.ts"
import { Authentication } from "./authentication.ts"
import { CapabilityUses } from "./capability-uses.ts"
import { LiveAuthorizationLayer } from "./live-authorization.ts"
import { RateLimits } from "./rate-limits.ts"
import { Rejections } from "./rejections.ts"
import { ServiceAccount } from "./service-account.ts"

/** What features that issue credentials need: to refuse one, and to have its changes known on every replica. */
export const layer = Layer.mergeAll(
  Rejections.layer,
  ServiceAccount.layer,
  CapabilityUses.layer,
  AuthCacheInvalidation.layerKeyRevocations
).pipe(Layer.provideMerge(Layer.merge(AuthCacheInvalidation.layer, RateLimits.layer)))

/** Who sends a request; needs the checks of credentials, which the features that issue them provide. */
export const layerAuthentication = LiveAuthorizationLayer.pipe(Layer.provideMerge(Authentication.layer))

export const middleware = AccessLayer
