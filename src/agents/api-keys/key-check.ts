import { Cache, Clock, Effect, Exit, Layer, Option } from "effect"
import { Digest, Mac } from "effect/crypto"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { ApiKeyCheck, type ApiKeyRefusalReason, apiKeyRefusals } from "../../access/credential-checks.ts"
import { type Refusal } from "../../audit/log/service.ts"
import { type Principal } from "../../kernel/authority/principal.ts"
import { makeLastUses } from "../../platform/database/last-use.ts"
import { canaryActions } from "./domain.ts"
import { digestOf, parse, publicPartOf, start } from "./key-format.ts"
import { ApiKeysRepository, type StoredKey } from "./repository.ts"

/** The check of presented keys: cached for a second, emptied by any change of authority. */
const layerNoDeps = Layer.effect(
  ApiKeyCheck,
  Effect.gen(function* () {
    const authCaches = yield* AuthCacheInvalidation
    const clock = yield* Clock.Clock
    const digest = yield* Digest.Digest
    const repository = yield* ApiKeysRepository

    const cache = yield* Cache.makeWith(
      (publicId: string) =>
        Effect.map(
          repository.credential(publicId),
          Option.map((credential) => ({ credential, principal: principalOf(credential) }))
        ),
      // Failed lookups are not cached: the key may be valid, and the database may be available again.
      { capacity: 10_000, timeToLive: (exit) => (Exit.isSuccess(exit) ? "1 second" : 0) }
    )
    yield* authCaches.onChange(Cache.invalidateAll(cache))

    const uses = yield* makeLastUses("keys", repository.used)

    // Compared on a miss as well, so that an unknown id takes as long as a wrong secret.
    const dummy = new Uint8Array(32)

    const judge = (publicId: string, found: Found | undefined, presented: Uint8Array) => {
      const refused = (reason: ApiKeyRefusalReason) => Effect.fail(refusalOf(start(publicId), reason))
      const same = Mac.timingSafeEqual(found?.credential.secretSha256 ?? dummy, presented)
      if (found === undefined) return refused("unknown")
      if (!same) return refused("wrong-secret")
      const now = clock.currentTimeMillisUnsafe()
      const { applicationStatus, expiresAt, id, revokedAt, syntheticKind, tenantId, tenantStatus } = found.credential
      if (revokedAt !== null && revokedAt.epochMilliseconds <= now) return refused("revoked")
      if (expiresAt !== null && expiresAt.epochMilliseconds <= now) return refused("expired")
      if (syntheticKind === "canary") {
        const refusal = { action: canaryActions.CanaryTouched, target: id, reason: "canary", tenantId, isAlarm: true }
        // The holder of the key knows from the answer that it was tried; the finding must survive from then on.
        return Effect.andThen(uses.storeAt(id, now), Effect.fail<Refusal>(refusal))
      }
      if (tenantStatus !== null && tenantStatus !== "active") return refused("tenant-suspended")
      // One that is pending again keeps what it was granted before.
      if (applicationStatus === "suspended" || applicationStatus === "rejected") return refused("application-suspended")
      uses.recordAt(id, now)
      return Effect.succeed(found.principal)
    }

    const check = (key: string): Effect.Effect<Principal, Refusal> => {
      const parsed = parse(key)
      if (parsed === undefined) return Effect.fail(refusalOf(publicPartOf(key) ?? "no key of ours", "malformed"))
      const { publicId, secret } = parsed
      return Effect.flatMap(Cache.get(cache, publicId), (found) =>
        Effect.flatMap(digestOf(digest, secret), (presented) =>
          judge(publicId, Option.getOrUndefined(found), presented)
        )
      )
    }

    return ApiKeyCheck.of({ check })
  })
)

export const ApiKeyCheckLayer = layerNoDeps.pipe(Layer.provide(ApiKeysRepository.layer))

const refusalOf = (target: string, reason: ApiKeyRefusalReason): Refusal => ({
  action: apiKeyRefusals.ApiKeyRefused,
  target,
  reason
})

interface Found {
  readonly credential: StoredKey
  readonly principal: Principal
}

const principalOf = (credential: StoredKey): Principal => ({
  ...(credential.syntheticKind === null
    ? { kind: "api-key", name: `api-key:${credential.id}` }
    : { kind: "synthetic", name: `synthetic:${credential.id}`, apiKeyId: credential.id, synthetic: true }),
  capabilities: credential.scopes,
  tenantId: credential.tenantId ?? undefined,
  applicationId: credential.applicationId ?? undefined,
  expiresAt: credential.expiresAt ?? undefined
})
