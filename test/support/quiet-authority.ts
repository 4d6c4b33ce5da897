import { Effect, Layer } from "effect"
import { AuthorityChanges } from "../../src/access/auth-cache-invalidation.ts"

/** For services that are tested without the replicas and caches that they would tell of a change. */
export const quietAuthority = Layer.mock(AuthorityChanges, { announce: Effect.void })
