import { Effect, Layer } from "effect"
import { AuthCacheInvalidation } from "../../src/access/auth-cache-invalidation.ts"

/** For services that are tested without the replicas and caches that they would tell of a change. */
export const quietAuthority = Layer.mock(AuthCacheInvalidation, { announce: Effect.void })
