import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { AgentId } from "../../agents/agents/domain.ts"
import { Agents } from "../../agents/agents/service.ts"
import { type SyntheticKind } from "../../agents/api-keys/domain.ts"
import { start } from "../../agents/api-keys/key-format.ts"
import { ApiKeys } from "../../agents/api-keys/service.ts"
import { changesOf, unchanged } from "../../audit/log/change-entries.ts"
import { Audit } from "../../audit/log/service.ts"
import { BudgetCaps } from "../../budgets/caps/service.ts"
import { CapId, PlanId, ReservationId } from "../../budgets/ledger/domain.ts"
import { Plans } from "../../budgets/plans/service.ts"
import { ReservationService } from "../../budgets/reservations/service.ts"
import { TargetId } from "../../events/deliveries/domain.ts"
import { Integrations } from "../../events/integrations/service.ts"
import { EventSubscriptions } from "../../events/subscriptions/service.ts"
import { SubscriptionId } from "../../insights/subscriptions/domain.ts"
import { Subscriptions } from "../../insights/subscriptions/service.ts"
import { requireAuthority, requireBounds } from "../../kernel/authority/authority.ts"
import { distinct } from "../../kernel/authority/capability.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Database } from "../../platform/database/database.ts"
import { Tenants } from "../../tenants/service.ts"
import {
  faultOfEnd,
  statusOf,
  type Made,
  syntheticActions,
  type SyntheticPrincipal,
  type SyntheticPrincipalCreation,
  SyntheticPrincipalId,
  type SyntheticPrincipalPatch,
  SyntheticPrincipalView
} from "./domain.ts"
import { SyntheticPrincipalsRepository } from "./repository.ts"

/** Monitors, tests and canaries: API keys of a tenant that are no customers of it. */
export class SyntheticPrincipals extends Context.Service<SyntheticPrincipals>()("app/operations/SyntheticPrincipals", {
  make: Effect.gen(function* () {
    const agents = yield* Agents
    const audit = yield* Audit
    const authCaches = yield* AuthCacheInvalidation
    const caps = yield* BudgetCaps
    const database = yield* Database
    const eventSubscriptions = yield* EventSubscriptions
    const integrations = yield* Integrations
    const keys = yield* ApiKeys
    const plans = yield* Plans
    const repository = yield* SyntheticPrincipalsRepository
    const reservations = yield* ReservationService
    const subscriptions = yield* Subscriptions
    const tenants = yield* Tenants

    const list = Effect.fn("SyntheticPrincipals.list")(function* (
      filter: { readonly tenantId?: TenantId | undefined; readonly kind?: SyntheticKind | undefined },
      page: ListRequest<SyntheticPrincipalId>
    ) {
      const { items, nextCursor } = yield* database.asCaller(repository.list(filter, page))
      return { items: items.map(toResponse(yield* DateTime.now)), nextCursor }
    })

    const get = Effect.fn("SyntheticPrincipals.get")(function* (id: SyntheticPrincipalId) {
      const principal = yield* database.asCaller(repository.get(id))
      return toResponse(yield* DateTime.now)(principal)
    })

    const create = Effect.fn("SyntheticPrincipals.create")(function* (input: SyntheticPrincipalCreation) {
      const { kind, labels = {}, name, scopes } = input
      const tenantId = yield* tenants.forCreation(input.tenantId)
      const { applicationId = null } = yield* CurrentPrincipal
      const now = yield* DateTime.now
      const expiresAt = input.expiresAt ?? null
      yield* requireEnd(kind, expiresAt, now)
      const wanted = { name, scopes, tenantId, applicationId, expiresAt, syntheticKind: kind, labels }
      // The application is the caller's own.
      const { key, row } = yield* Effect.catchTag(keys.issue(wanted), "ApplicationNotFound", Effect.die)
      const made = toResponse(now)(yield* Effect.orDie(repository.lock({ id: SyntheticPrincipalId.make(row.id) })))
      const created = changes.created(syntheticActions.SyntheticPrincipalCreated, made)
      return { ...created, value: { ...made, key } }
    }, audit.change)

    /** Takes a principal under lock for a change, if the caller has all that it can do. */
    const take = Effect.fnUntraced(function* (id: SyntheticPrincipalId) {
      const principal = yield* repository.lock({ id })
      yield* requireAuthority(principal.scopes)
      return principal
    })

    const update = Effect.fn("SyntheticPrincipals.update")(function* (
      id: SyntheticPrincipalId,
      patch: SyntheticPrincipalPatch
    ) {
      const before = yield* take(id)
      const wanted = {
        ...before,
        name: patch.name ?? before.name,
        scopes: patch.scopes === undefined ? before.scopes : distinct(patch.scopes),
        expiresAt: patch.expiresAt === undefined ? before.expiresAt : patch.expiresAt,
        labels: patch.labels ?? before.labels
      }
      yield* requireEnd(before.kind, wanted.expiresAt, before.createdAt)
      yield* requireAuthority(wanted.scopes)
      yield* requireBounds(wanted)
      const now = yield* DateTime.now
      const shown = toResponse(now)(before)
      if (changes.areSame(shown, toResponse(now)(wanted))) return unchanged(shown)
      const after = toResponse(now)(yield* repository.update(wanted))
      yield* authCaches.announce
      return changes.updated(syntheticActions.SyntheticPrincipalUpdated, shown, after)
    }, audit.change)

    /** Ends one thing as its own feature does; what has gone meanwhile is no failure. */
    const end = ({ agentId, id, kind }: Made): Effect.Effect<unknown, unknown> => {
      switch (kind) {
        case "integration":
          return integrations.delete(TargetId.make(id))
        case "event-subscription":
          return eventSubscriptions.delete(TargetId.make(id))
        case "plan":
          return plans.abort(AgentId.make(agentId ?? ""), PlanId.make(id))
        case "reservation":
          return reservations.release(ReservationId.make(id))
        case "cap":
          return caps.delete(CapId.make(id))
        case "subscription":
          return subscriptions.delete(SubscriptionId.make(id))
        case "agent":
          return agents.retire(AgentId.make(id))
        case "response":
        case "transcript":
          return Effect.void
      }
    }

    /**
     * Ends what a principal made, each thing in a change of its own, and answers how many of each kind. The caller needs
     * no other capability for it: who may delete the principal may delete what it made.
     */
    const purge = Effect.fn("SyntheticPrincipals.purge")(function* ({ id, tenantId }: SyntheticPrincipal) {
      const caller = yield* CurrentPrincipal
      const asOwner = { ...caller, capabilities: ["*:*"], tenantId }
      const made = database.read(tenantId, repository.made(`synthetic:${id}`, tenantId))
      const counts: Partial<Record<Made["kind"], number>> = {}
      const contents: Array<Made> = []
      // Agents are ended last; what they made while the rest was, is found by the second look.
      for (const pass of [0, 1]) {
        for (const one of yield* made) {
          if (one.kind === "response" || one.kind === "transcript") {
            if (pass === 1) contents.push(one)
            continue
          }
          yield* end(one).pipe(
            Effect.andThen(Effect.sync(() => (counts[one.kind] = (counts[one.kind] ?? 0) + 1))),
            Effect.catch((error) => Effect.logWarning(`Could not purge ${one.kind} ${one.id}`, error)),
            Effect.provideService(CurrentPrincipal, asOwner)
          )
        }
      }
      for (const { kind } of contents) counts[kind] = (counts[kind] ?? 0) + 1
      return { counts, contents }
    })

    /** Purges, and records that in the change that ends it. */
    const purged = (
      id: SyntheticPrincipalId,
      found: SyntheticPrincipal,
      action: "SyntheticPrincipalReset" | "SyntheticPrincipalDeleted",
      after: (before: SyntheticPrincipal, now: DateTime.Utc) => typeof SyntheticPrincipal.update.Type
    ) =>
      Effect.flatMap(
        purge(found),
        Effect.fnUntraced(function* ({ contents, counts }) {
          const before = yield* take(id)
          const now = yield* DateTime.now
          yield* repository.deleteContents(before.tenantId, idsOf(contents, "response"), idsOf(contents, "transcript"))
          const shown = toResponse(now)
          const changed = yield* repository.update(after(before, now))
          yield* authCaches.announce
          const entry = {
            action: syntheticActions[action],
            entityId: id,
            tenantId: before.tenantId,
            before: encode(shown(before)),
            after: { ...encode(shown(changed)), purged: counts }
          }
          return { value: shown(changed), entries: [entry] }
        }, audit.change)
      )

    const reset = Effect.fn("SyntheticPrincipals.reset")(function* (id: SyntheticPrincipalId) {
      const found = yield* database.asCaller(repository.get(id))
      yield* requireAuthority(found.scopes)
      return yield* purged(id, found, "SyntheticPrincipalReset", (before) =>
        before.kind === "canary" ? { ...before, lastUsedAt: null } : before
      )
    })

    const remove = Effect.fn("SyntheticPrincipals.delete")(function* (id: SyntheticPrincipalId) {
      const found = yield* database.asCaller(repository.get(id))
      yield* requireAuthority(found.scopes)
      // Its key ends first, so that nothing new is made. If the process dies then, the request can be repeated.
      yield* Effect.gen(function* () {
        const before = yield* take(id)
        const now = yield* DateTime.now
        if (statusOf(before, now) === "expired") return unchanged(undefined)
        const shown = toResponse(now)
        const after = yield* repository.update({ ...before, expiresAt: now })
        yield* authCaches.announce
        const { entries } = changes.updated(syntheticActions.SyntheticPrincipalUpdated, shown(before), shown(after))
        return { value: undefined, entries }
      }).pipe(audit.change)
      yield* purged(id, found, "SyntheticPrincipalDeleted", (before, now) => ({ ...before, revokedAt: now }))
    })

    return { list, get, create, update, reset, delete: remove }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(SyntheticPrincipalsRepository.layer))
}

const idsOf = (contents: ReadonlyArray<Made>, kind: Made["kind"]) =>
  contents.filter((one) => one.kind === kind).map(({ id }) => id)

const requireEnd = (kind: SyntheticKind, expiresAt: DateTime.Utc | null, createdAt: DateTime.Utc) => {
  const message = faultOfEnd(kind, expiresAt, createdAt)
  return message === undefined
    ? Effect.void
    : Effect.fail(new ValidationFailed({ errors: [{ path: ["payload", "expiresAt"], message }] }))
}

const changes = changesOf(SyntheticPrincipalView, ({ id, tenantId }) => ({ entityId: id, tenantId }))
const encode = Schema.encodeSync(SyntheticPrincipalView)

const toResponse =
  (now: DateTime.Utc) =>
  (principal: SyntheticPrincipal): SyntheticPrincipalView => ({
    id: principal.id,
    kind: principal.kind,
    name: principal.name,
    tenantId: principal.tenantId,
    scopes: principal.scopes,
    expiresAt: principal.expiresAt,
    labels: principal.labels,
    status: statusOf(principal, now),
    synthetic: true,
    start: start(principal.publicId),
    createdAt: principal.createdAt,
    createdBy: principal.createdBy,
    lastUsedAt: principal.lastUsedAt
  })
