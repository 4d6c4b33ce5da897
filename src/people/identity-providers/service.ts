import { Context, DateTime, Effect, Layer, Redacted } from "effect"
import { SecureRandom } from "effect/crypto"
import { Model } from "effect/schema"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { type RoleId } from "../../applications/roles/domain.ts"
import { Roles } from "../../applications/roles/service.ts"
import { changesOf, unchanged } from "../../audit/log/change-entries.ts"
import { Audit } from "../../audit/log/service.ts"
import { onlyStops, requireAuthority, requireBounds } from "../../kernel/authority/authority.ts"
import { distinct } from "../../kernel/authority/capability.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { Database } from "../../platform/database/database.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"
import {
  IdentityProvider,
  identityProviderActions,
  type IdentityProviderCreation,
  IdentityProviderId,
  IdentityProviderNotFound,
  type IdentityProviderPatch,
  IdentityProviderView
} from "./domain.ts"
import { ProviderMetadata } from "./metadata.ts"
import { IdentityProvidersRepository } from "./repository.ts"

/** The providers that the installation trusts, as its administrators entered them. */
export class IdentityProviders extends Context.Service<IdentityProviders>()("app/people/IdentityProviders", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const authCaches = yield* AuthCacheInvalidation
    const database = yield* Database
    const metadata = yield* ProviderMetadata
    const random = yield* SecureRandom.SecureRandom
    const repository = yield* IdentityProvidersRepository
    const roles = yield* Roles
    const sealing = yield* Sealing
    const { publicUrl } = (yield* Settings).api

    const redirectUri = (id: IdentityProviderId) => `${publicUrl}/api/auth/oidc/${id}/callback`

    const list = Effect.fn("IdentityProviders.list")(function* (
      filter: { readonly kind?: IdentityProvider["kind"] | undefined; readonly tenantId?: TenantId | undefined },
      page: ListRequest<IdentityProviderId>
    ) {
      const { items, nextCursor } = yield* database.asCaller(repository.list(filter, page))
      return { items: items.map(toResponse), nextCursor }
    })

    const find = Effect.fn("IdentityProviders.find")((id: IdentityProviderId) => database.asCaller(repository.get(id)))

    /** Holds the roles as they are, if they are roles of this service and the caller may give all that they do. */
    const requireRoles = Effect.fnUntraced(function* (before: ReadonlyArray<RoleId>, after: ReadonlyArray<RoleId>) {
      const held = yield* roles.lockServiceRoles([...new Set([...before, ...after])])
      const errors = after.flatMap((id, index) =>
        held.some((role) => role.id === id)
          ? []
          : [fault(["defaultRoleIds", index], "Expected a role of the application application-manager")]
      )
      if (errors.length > 0) return yield* invalid(errors)
      yield* requireAuthority(distinct(held.flatMap((role) => role.capabilities)))
    })

    /** A provider lets people in for as long as it is there. */
    const requireNoEnd = requireBounds({ expiresAt: null, applicationId: null })

    const seal = (id: IdentityProviderId, secret: Redacted.Redacted) =>
      sealing.seal(Redacted.make(new TextEncoder().encode(Redacted.value(secret))), placeOf(id))

    const create = Effect.fn("IdentityProviders.create")(function* (input: IdentityProviderCreation) {
      const id = IdentityProviderId.make(yield* random.uuidV7())
      const { clientSecret, ...given } = input
      const wanted = { ...defaultsOf(input.kind), ...given }
      yield* requireConsistent({ ...wanted, hasClientSecret: clientSecret != null })
      yield* metadata.currentConfiguration(wanted)
      return yield* Effect.gen(function* () {
        yield* requireNoEnd
        yield* requireRoles([], wanted.defaultRoleIds)
        const now = yield* DateTime.now
        const provider = yield* repository.insert(
          IdentityProvider.insert.make({
            id,
            ...wanted,
            sealedClientSecret: clientSecret == null ? null : yield* seal(id, clientSecret),
            createdAt: Model.Override(now),
            createdBy: (yield* CurrentPrincipal).name,
            updatedAt: Model.Override(now)
          })
        )
        return changes.created(identityProviderActions.IdentityProviderCreated, toResponse(provider))
      }).pipe(audit.change)
    })

    const update = Effect.fn("IdentityProviders.update")(function* (
      id: IdentityProviderId,
      patch: IdentityProviderPatch
    ) {
      const before = yield* repository.lock({ id })
      if (!onlyStops(patch)) yield* requireNoEnd
      const fixed = (["kind", "issuer", "tenantId"] as const).flatMap((member) =>
        patch[member] === undefined || patch[member] === before[member]
          ? []
          : [fault([member], "Expected the value that it has: it cannot be changed")]
      )
      if (fixed.length > 0) return yield* invalid(fixed)
      const { clientSecret } = patch
      const wanted = {
        ...before,
        ...(patch.clientId === undefined ? {} : { clientId: patch.clientId }),
        scopes: patch.scopes ?? before.scopes,
        allowedAlgorithms: patch.allowedAlgorithms ?? before.allowedAlgorithms,
        claimMapping: patch.claimMapping ?? before.claimMapping,
        domains: patch.domains ?? before.domains,
        subjects: patch.subjects ?? before.subjects,
        defaultRoleIds: patch.defaultRoleIds ?? before.defaultRoleIds,
        status: patch.status ?? before.status,
        sealedClientSecret:
          clientSecret === undefined
            ? before.sealedClientSecret
            : clientSecret === null
              ? null
              : yield* seal(id, clientSecret)
      }
      yield* requireConsistent({ ...wanted, hasClientSecret: wanted.sealedClientSecret !== null })
      yield* requireRoles(before.defaultRoleIds, wanted.defaultRoleIds)
      const shown = toResponse(before)
      if (clientSecret === undefined && changes.areSame(shown, toResponse(wanted))) return unchanged(shown)
      // What was exchanged for its tokens may end.
      yield* authCaches.announce
      const after = yield* repository.update({ ...wanted, updatedAt: Model.Override(yield* DateTime.now) })
      return changes.updated(identityProviderActions.IdentityProviderUpdated, shown, toResponse(after))
    }, audit.change)

    const remove = Effect.fn("IdentityProviders.delete")(function* (id: IdentityProviderId) {
      const before = yield* repository.lock({ id })
      yield* requireRoles(before.defaultRoleIds, [])
      yield* repository.delete(id)
      yield* authCaches.announce
      return changes.deleted(identityProviderActions.IdentityProviderDeleted, toResponse(before))
    }, audit.change)

    /** Fetches the current configuration and keys, and notes whether that was possible. */
    const refetch = Effect.fnUntraced(function* (provider: IdentityProvider) {
      const at = DateTime.toDateUtc(yield* DateTime.now)
      const note = (isFetched: boolean) =>
        database.transaction("all", repository.keysFetched(provider.id, isFetched, at))
      return yield* metadata.currentConfiguration(provider).pipe(
        Effect.flatMap((found) => Effect.map(metadata.refreshedKeys(found), (keys) => ({ found, keys }))),
        Effect.tap(() => note(true)),
        Effect.tapError(() => note(false))
      )
    })
    const checkAll = Effect.flatMap(database.read("all", repository.active), (providers) =>
      Effect.forEach(providers, (provider) => Effect.ignore(refetch(provider)), { concurrency: 4, discard: true })
    )
    yield* repeatJob("fetch the keys of identity providers", "1 hour", checkAll)

    const test = Effect.fn("IdentityProviders.test")(function* (id: IdentityProviderId) {
      const provider = yield* find(id)
      const { found, keys } = yield* refetch(provider)
      return {
        issuer: found.issuer,
        authorizationEndpoint: found.authorization_endpoint ?? null,
        tokenEndpoint: found.token_endpoint ?? null,
        jwksUri: found.jwks_uri,
        redirectUri: provider.kind === "login" ? redirectUri(id) : null,
        keys: keys.map(({ alg, kid }) => ({ kid: kid ?? null, algorithm: alg ?? null }))
      }
    })

    const login = Effect.fn("IdentityProviders.login")(function* (id: IdentityProviderId) {
      const provider = yield* database.read("all", repository.get(id))
      if (provider.kind !== "login" || provider.status !== "active") return yield* new IdentityProviderNotFound({})
      return provider
    })

    const clientSecret = Effect.fn("IdentityProviders.clientSecret")(function* (provider: IdentityProvider) {
      const sealed = provider.sealedClientSecret
      if (sealed === null) return undefined
      const opened = yield* sealing.open(sealed, placeOf(provider.id))
      return Redacted.make(new TextDecoder().decode(Redacted.value(opened)), { label: "client-secret" })
    })

    return {
      list,
      get: Effect.fn("IdentityProviders.get")((id: IdentityProviderId) => Effect.map(find(id), toResponse)),
      create,
      update,
      delete: remove,
      test,
      redirectUri,
      /** A provider that people sign in with, for a caller that is not authenticated yet. */
      login,
      /** The providers that people of no tenant, and of one, sign in with. */
      loginProviders: (tenantId: TenantId | undefined) => database.read("all", repository.login(tenantId ?? null)),
      /** Undefined for a public client. */
      clientSecret,
      /** The active providers whose tokens agents exchange, by their issuer. */
      workload: (issuer: string) => database.read("all", repository.workload(issuer))
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provideMerge(ProviderMetadata.layer),
    Layer.provide(IdentityProvidersRepository.layer)
  )
}

const placeOf = (id: IdentityProviderId) => `identity-provider:${id}`

const defaultsOf = (kind: IdentityProvider["kind"]) =>
  ({
    clientId: null,
    scopes: kind === "login" ? ["openid", "email", "profile"] : [],
    allowedAlgorithms: ["ES256", "EdDSA", "Ed25519", "PS256", "RS256"],
    claimMapping: { email: "email", emailVerified: "email_verified", name: "name" },
    domains: [],
    subjects: [],
    defaultRoleIds: [],
    tenantId: null,
    status: "active"
  }) as const

const fault = (path: ReadonlyArray<string | number>, message: string): Fault => ({
  path: ["payload", ...path],
  message
})
const invalid = (errors: ReadonlyArray<Fault>) =>
  new ValidationFailed({
    errors,
    detail: errors.map(({ message, path }) => `${path.join(".")}: ${message}`).join("; ")
  })

type Described = Pick<
  IdentityProviderView,
  "kind" | "clientId" | "hasClientSecret" | "scopes" | "domains" | "subjects" | "defaultRoleIds"
>

/** Refuses members that mean nothing for the kind, which an administrator would believe to protect something. */
const requireConsistent = (provider: Described): Effect.Effect<void, ValidationFailed> => {
  const isLogin = provider.kind === "login"
  const none = (member: "scopes" | "domains" | "subjects" | "defaultRoleIds") =>
    provider[member].length === 0 ? [] : [fault([member], `Expected none for a provider of kind ${provider.kind}`)]
  const errors = isLogin
    ? [
        ...(provider.clientId === null ? [fault(["clientId"], "Required for a provider of kind login")] : []),
        ...(provider.scopes.includes("openid") ? [] : [fault(["scopes"], "Expected openid among them")]),
        ...none("subjects")
      ]
    : [
        ...(provider.hasClientSecret ? [fault(["clientSecret"], "Expected none for a provider of kind workload")] : []),
        ...none("scopes"),
        ...none("domains"),
        ...none("defaultRoleIds")
      ]
  return errors.length === 0 ? Effect.void : Effect.fail(invalid(errors))
}

const toResponse = (provider: IdentityProvider): IdentityProviderView => ({
  id: provider.id,
  kind: provider.kind,
  issuer: provider.issuer,
  clientId: provider.clientId,
  hasClientSecret: provider.sealedClientSecret !== null,
  scopes: provider.scopes,
  allowedAlgorithms: provider.allowedAlgorithms,
  claimMapping: provider.claimMapping,
  domains: provider.domains,
  subjects: provider.subjects,
  defaultRoleIds: provider.defaultRoleIds,
  tenantId: provider.tenantId,
  status: provider.status,
  createdAt: provider.createdAt,
  createdBy: provider.createdBy,
  updatedAt: provider.updatedAt
})

const changes = changesOf(IdentityProviderView, ({ id, tenantId }) => ({ entityId: id, tenantId }))
