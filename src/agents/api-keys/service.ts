import { Context, DateTime, Effect, Layer } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { Model } from "effect/schema"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { changesOf, unchanged } from "../../audit/log/change-entries.ts"
import { Audit } from "../../audit/log/service.ts"
import { callerBounds, requireAuthority, requireBounds } from "../../kernel/authority/authority.ts"
import { type Capability, distinct, intersection } from "../../kernel/authority/capability.ts"
import { CurrentPrincipal, Forbidden } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { Database } from "../../platform/database/database.ts"
import {
  ApiKey,
  apiKeyActions,
  type ApiKeyCreation,
  type ApiKeyId,
  ApiKeyInactive,
  type ApiKeyPatch,
  ApiKeyRotated,
  ApiKeySynthetic,
  type ApiKeyRotation,
  ApiKeyView,
  ExpiresInThePast
} from "./domain.ts"
import { generate, start } from "./key-format.ts"
import { ApiKeysRepository } from "./repository.ts"

const graceSecondsDefault = 86_400

/** A key that is to be made. */
interface WantedKey extends Pick<ApiKey, "name" | "scopes" | "tenantId" | "applicationId" | "expiresAt"> {
  readonly syntheticKind?: ApiKey["syntheticKind"]
  readonly labels?: ApiKey["labels"]
}

export class ApiKeys extends Context.Service<ApiKeys>()("app/agents/ApiKeys", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const authCaches = yield* AuthCacheInvalidation
    const database = yield* Database
    const digest = yield* Digest.Digest
    const random = yield* SecureRandom.SecureRandom
    const repository = yield* ApiKeysRepository

    const list = Effect.fn("ApiKeys.list")(function* (
      filter: { readonly tenantId?: TenantId | undefined; readonly applicationId?: number | undefined },
      page: ListRequest<ApiKeyId>
    ) {
      const { items, nextCursor } = yield* database.asCaller(repository.list(filter, page))
      return { items: items.map(toResponse(yield* DateTime.now)), nextCursor }
    })

    const get = Effect.fn("ApiKeys.get")(function* (id: ApiKeyId) {
      const key = yield* database.asCaller(repository.get(id))
      return toResponse(yield* DateTime.now)(key)
    })

    const issue = Effect.fnUntraced(function* (wanted: WantedKey) {
      const { applicationId, expiresAt, labels = {}, name, syntheticKind = null, tenantId } = wanted
      const scopes = distinct(wanted.scopes)
      yield* requireAuthority(scopes)
      const now = yield* DateTime.now
      if (expiresAt !== null && DateTime.isLessThanOrEqualTo(expiresAt, now)) return yield* new ExpiresInThePast({})
      yield* requireBounds({ expiresAt, applicationId })
      const made = yield* generate(random, digest)
      const row = yield* repository.insert(
        ApiKey.insert.make({
          ...made,
          name,
          scopes,
          tenantId,
          applicationId,
          createdAt: Model.Override(now),
          createdBy: (yield* CurrentPrincipal).name,
          lastUsedAt: null,
          expiresAt,
          revokedAt: null,
          rotatedFrom: null,
          syntheticKind,
          labels
        })
      )
      return { row, key: made.key }
    })

    const create = Effect.fn("ApiKeys.create")(function* (input: ApiKeyCreation) {
      const principal = yield* CurrentPrincipal
      const tenantId = input.tenantId === undefined ? (principal.tenantId ?? null) : input.tenantId
      if (principal.tenantId !== undefined && tenantId !== principal.tenantId) {
        return yield* new Forbidden({ missing: [], detail: "A tenant's caller makes keys of its own tenant only." })
      }
      const applicationId = input.applicationId === undefined ? (principal.applicationId ?? null) : input.applicationId
      const { name, scopes } = input
      const { key, row } = yield* issue({ name, scopes, tenantId, applicationId, expiresAt: input.expiresAt ?? null })
      const view = toResponse(yield* DateTime.now)(row)
      return { ...changes.created(apiKeyActions.ApiKeyCreated, view), value: { ...view, key } }
    }, audit.change)

    /** Takes a key under lock for a change, if the caller has all that the key can do. */
    const take = Effect.fnUntraced(function* (id: ApiKeyId) {
      const key = yield* repository.lock({ id })
      if (key.syntheticKind !== null) return yield* new ApiKeySynthetic({})
      yield* requireAuthority(key.scopes)
      return key
    })

    /** Takes a key that is live and not on its way out. */
    const takeLive = Effect.fnUntraced(function* (id: ApiKeyId) {
      const key = yield* take(id)
      if (key.status(yield* DateTime.now) !== "active") return yield* new ApiKeyInactive({})
      return (yield* repository.hasSuccessor(id)) ? yield* new ApiKeyRotated({}) : key
    })

    const update = Effect.fn("ApiKeys.update")(function* (id: ApiKeyId, patch: ApiKeyPatch) {
      const before = yield* takeLive(id)
      const now = yield* DateTime.now
      if (patch.scopes !== undefined) yield* requireAuthority(patch.scopes)
      // A key that is to end now is revoked or rotated, which says so.
      const { expiresAt } = patch
      if (expiresAt != null && DateTime.isLessThanOrEqualTo(expiresAt, now)) return yield* new ExpiresInThePast({})
      const shown = toResponse(now)(before)
      const wanted = {
        ...before,
        name: patch.name ?? before.name,
        scopes: patch.scopes === undefined ? before.scopes : distinct(patch.scopes),
        expiresAt: patch.expiresAt === undefined ? before.expiresAt : patch.expiresAt
      }
      yield* requireBounds(wanted)
      const after = toResponse(now)(yield* repository.update(wanted))
      if (changes.areSame(shown, after)) return unchanged(after)
      yield* authCaches.announce
      return changes.updated(apiKeyActions.ApiKeyUpdated, shown, after)
    }, audit.change)

    const rotate = Effect.fn("ApiKeys.rotate")(function* (id: ApiKeyId, rotation: ApiKeyRotation) {
      const principal = yield* CurrentPrincipal
      const old = yield* takeLive(id)
      yield* requireBounds({ applicationId: old.applicationId })
      const { expiresAt: callerEnd } = yield* callerBounds
      const now = yield* DateTime.now
      const made = yield* generate(random, digest)
      const key = yield* Effect.orDie(
        repository.insert(
          ApiKey.insert.make({
            ...made,
            name: old.name,
            scopes: old.scopes,
            tenantId: old.tenantId,
            applicationId: old.applicationId,
            createdAt: Model.Override(now),
            createdBy: principal.name,
            lastUsedAt: null,
            expiresAt: earliest(old.expiresAt, callerEnd),
            revokedAt: null,
            rotatedFrom: old.id,
            syntheticKind: null,
            labels: {}
          })
        )
      )
      const graceEnd = DateTime.add(now, { seconds: rotation.graceSeconds ?? graceSecondsDefault })
      const ends = earliest(graceEnd, old.expiresAt, callerEnd)
      const ended = yield* repository.update(
        rotation.graceSeconds === 0 ? { ...old, revokedAt: now } : { ...old, expiresAt: ends }
      )
      yield* authCaches.announce
      const view = toResponse(now)(key)
      const rotated = changes.updated(apiKeyActions.ApiKeyRotated, toResponse(now)(ended), view)
      return { ...rotated, value: { ...view, key: made.key } }
    }, audit.change)

    const revoke = Effect.fn("ApiKeys.revoke")(function* (id: ApiKeyId) {
      const before = yield* take(id)
      const now = yield* DateTime.now
      if (before.revokedAt !== null) return unchanged(undefined)
      const after = yield* repository.update({ ...before, revokedAt: now })
      yield* authCaches.announce
      const shown = toResponse(now)
      return { ...changes.updated(apiKeyActions.ApiKeyRevoked, shown(before), shown(after)), value: undefined }
    }, audit.change)

    const rotations = Effect.fn("ApiKeys.rotations")(function* (id: ApiKeyId) {
      const keys = yield* database.asCaller(repository.rotations(id))
      return keys.map(toResponse(yield* DateTime.now))
    })

    const narrow = Effect.fn("ApiKeys.narrow")(function* (id: ApiKeyId, to: ReadonlyArray<Capability>) {
      const before = yield* take(id)
      const now = yield* DateTime.now
      const scopes = intersection(before.scopes, to)
      if (scopes.length === before.scopes.length && scopes.every((scope) => before.scopes.includes(scope))) {
        return unchanged(undefined)
      }
      const after = yield* repository.update({ ...before, scopes })
      yield* authCaches.announce
      const shown = toResponse(now)
      return { ...changes.updated(apiKeyActions.ApiKeyUpdated, shown(before), shown(after)), value: undefined }
    }, audit.change)

    return {
      list,
      get,
      create,
      update,
      rotate,
      revoke,
      /** A key and those that took its place one after another, the newest last. */
      rotations,
      /** Takes from a key what is not among these scopes, also from one whose place another key took. */
      narrow,
      /** Makes a key as a part of another change, which writes the entry. */
      issue
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(ApiKeysRepository.layer))
}

const changes = changesOf(ApiKeyView, ({ id, tenantId }) => ({ entityId: id, tenantId }))

/** The earliest of some ends; null where none is set. */
const earliest = (...ends: ReadonlyArray<DateTime.Utc | null>): DateTime.Utc | null =>
  ends.reduce((a, b) => (a === null ? b : b === null ? a : DateTime.min(a, b)), null)

const toResponse =
  (now: DateTime.Utc) =>
  (key: ApiKey): ApiKeyView => ({
    id: key.id,
    name: key.name,
    start: start(key.publicId),
    scopes: key.scopes,
    tenantId: key.tenantId,
    applicationId: key.applicationId,
    status: key.status(now),
    createdAt: key.createdAt,
    createdBy: key.createdBy,
    lastUsedAt: key.lastUsedAt,
    expiresAt: key.expiresAt,
    rotatedFrom: key.rotatedFrom,
    synthetic: key.syntheticKind !== null
  })
