import { Context, DateTime, Effect, Layer, Option } from "effect"
import { Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal, Forbidden } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { emptySlice } from "../../kernel/http/page.ts"
import { entityTag } from "../../kernel/http/precondition.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { scopeOf, Database } from "../../platform/database/database.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { Tenants } from "../../tenants/service.ts"
import { ModelNames } from "../attribution/service.ts"
import { withinTenant } from "../attribution/service.ts"
import { allTenants, CapId, type StoredCap, tenantIdOf } from "../ledger/domain.ts"
import { amountOf, quantityFault, quantityOf } from "../ledger/quantity-domain.ts"
import {
  type Cap,
  capActions,
  type CapCreation,
  CapImmutable,
  CapNotFound,
  type CapUpdate,
  naturalAnchor
} from "./domain.ts"
import { type CapFilter, CapsRepository } from "./repository.ts"

/** Budget caps: created, changed and deleted by callers with `budgets:write`. */
export class BudgetCaps extends Context.Service<BudgetCaps>()("app/budgets/BudgetCaps", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const database = yield* Database
    const repository = yield* CapsRepository
    const modelOf = yield* ModelNames
    const tenants = yield* Tenants
    const { budgets } = yield* Settings

    const list = Effect.fn("BudgetCaps.list")(function* (filter: CapFilter, page: ListRequest<CapId>) {
      const principal = yield* CurrentPrincipal
      const own = withinTenant(principal, filter)
      if (own === undefined) return emptySlice
      const { items, nextCursor } = yield* database.read(scopeOf(principal), repository.list(own, page))
      return { items: items.map(toCap), nextCursor }
    })

    const found = Effect.flatMap(
      Option.match({
        onNone: () => Effect.fail(new CapNotFound({})),
        onSome: (cap: StoredCap) => Effect.succeed(cap)
      })
    )
    const find = Effect.fn("BudgetCaps.find")(function* (id: CapId) {
      return yield* found(database.read(scopeOf(yield* CurrentPrincipal), repository.find(id)))
    })
    const take = (id: CapId) => found(repository.lock(id))

    const tenantOfNew = Effect.fnUntraced(function* (given: TenantId | null | undefined) {
      const { tenantId } = yield* CurrentPrincipal
      if (tenantId !== undefined) {
        return given === undefined
          ? tenantId
          : yield* new Forbidden({ missing: [], detail: "Only system callers may name a tenant." })
      }
      if (given === undefined) return yield* tenants.defaultId
      // Caps over all tenants are stored under the nil id, and requested with null.
      return given === allTenants ? yield* new TenantNotFound({}) : (given ?? allTenants)
    })

    const ofModels = (scope: StoredCap["scope"]): StoredCap["scope"] =>
      scope.model === undefined || scope.model === "each" ? scope : { ...scope, model: modelOf(scope.model) }

    const create = Effect.fn("BudgetCaps.create")(function* (input: CapCreation) {
      yield* AgentCapPolicy.requireOwn(input.scope ?? {})
      const tenantId = yield* tenantOfNew(input.tenantId)
      if (input.scope !== undefined) yield* repository.requireNamed(tenantId, input.scope)
      const timeZone = input.timeZone ?? "UTC"
      if (timeZone !== "UTC" && !(yield* repository.knowsZone(timeZone))) {
        return yield* fault("timeZone", "Expected a time zone of the IANA database, such as Europe/Berlin")
      }
      const now = yield* DateTime.now
      const cap = yield* repository.insert(
        {
          tenantId,
          id: CapId.make(allTenants),
          name: input.name,
          scope: ofModels(input.scope ?? {}),
          unit: input.unit,
          limitAmount: amountOf(input.unit, input.limit),
          period: input.period,
          windowSeconds: input.windowSeconds ?? null,
          timeZone,
          anchor: input.anchor ?? naturalAnchor(input.period),
          mode: input.mode ?? "hard",
          alertThresholds: input.alertThresholds ?? [],
          status: input.status ?? "active",
          version: 1,
          createdAt: now,
          updatedAt: now
        },
        (yield* CurrentPrincipal).name,
        budgets.maxCaps
      )
      const entry = { action: capActions.BudgetCapCreated, entityId: cap.id, after: capSnapshot(cap) }
      return { value: toCap(cap), entries: [{ ...entry, tenantId: tenantIdOf(cap) }] }
    }, audit.change)

    const update = Effect.fn("BudgetCaps.update")(function* (id: CapId, given: CapUpdate) {
      const input = given.scope === undefined ? given : { ...given, scope: ofModels(given.scope) }
      const before = yield* take(id)
      yield* AgentCapPolicy.requireOwn(before.scope)
      const differing = immutable.filter(
        (member) => input[member] !== undefined && !same(input[member], before[member])
      )
      if (differing.length > 0) return yield* new CapImmutable({ members: differing })
      const limitFault = quantityFault(before.unit, input.limit)
      if (limitFault !== undefined) return yield* fault("limit", limitFault)
      const wanted = {
        ...before,
        name: input.name,
        limitAmount: amountOf(before.unit, input.limit),
        mode: input.mode ?? before.mode,
        alertThresholds: input.alertThresholds ?? before.alertThresholds,
        status: input.status ?? before.status
      }
      if (isLooser(before, wanted)) yield* AgentCapPolicy.requireLoosening
      if (same(capSnapshot(before), capSnapshot(wanted))) return { value: toCap(before), entries: [] }
      const after = yield* repository.update({
        ...wanted,
        version: before.version + 1,
        updatedAt: yield* DateTime.now
      })
      const entry = { action: capActions.BudgetCapUpdated, entityId: id, tenantId: tenantIdOf(before) }
      return {
        value: toCap(after),
        entries: [{ ...entry, before: capSnapshot(before), after: capSnapshot(after) }]
      }
    }, audit.change)

    const remove = Effect.fn("BudgetCaps.delete")(function* (id: CapId) {
      const before = yield* take(id)
      yield* AgentCapPolicy.requireLoosening
      yield* repository.delete(before, yield* DateTime.now)
      const entry = { action: capActions.BudgetCapDeleted, entityId: id, before: capSnapshot(before) }
      return { value: undefined, entries: [{ ...entry, tenantId: tenantIdOf(before) }] }
    }, audit.change)

    return {
      list,
      get: (id: CapId) => Effect.map(find(id), toCap),
      create,
      update,
      delete: remove,
      /** The cap under lock until the transaction ends, if the caller may change it. */
      take,
      /** The cap as it is stored, if the caller may see it. */
      find
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)
  static readonly layer = this.layerNoDeps.pipe(Layer.provide(CapsRepository.layer))
}

/** How much a mode admits beyond the limit, least first. */
const modes: ReadonlyArray<StoredCap["mode"]> = ["hard", "approval", "soft"]

/** Whether a change lets more be spent under a cap. */
const isLooser = (before: StoredCap, after: StoredCap): boolean =>
  after.limitAmount > before.limitAmount ||
  modes.indexOf(after.mode) > modes.indexOf(before.mode) ||
  (before.status === "active" && after.status === "paused")

const forbidden = (detail: string) => Effect.fail(new Forbidden({ missing: [], detail }))

/** What an agent may do with caps, whatever its scopes. */
export const AgentCapPolicy = {
  /** An agent acts for itself alone: it writes caps on itself only. */
  requireOwn: ({ agentId }: StoredCap["scope"]): Effect.Effect<void, Forbidden> =>
    Effect.flatMap(CurrentPrincipal, ({ kind, name }) =>
      kind !== "agent" || name === `agent:${agentId}`
        ? Effect.void
        : forbidden("An agent can only write caps on itself.")
    ),
  /** An agent loosens no cap, not even another's: two agents would loosen each other's. */
  requireLoosening: Effect.flatMap(CurrentPrincipal, ({ kind }) =>
    kind === "agent" ? forbidden("An agent cannot loosen a cap.") : Effect.void
  )
}

const immutable = ["scope", "unit", "period", "windowSeconds", "timeZone", "anchor"] as const

const sorted = (value: unknown): unknown =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : value
const same = (a: unknown, b: unknown): boolean => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b))

const fault = (member: string, message: string) =>
  Effect.fail(new ValidationFailed({ errors: [{ path: ["payload", member], message }] }))

export const toCap = ({ limitAmount, tenantId, ...cap }: StoredCap): Cap => ({
  ...cap,
  tenantId: tenantIdOf({ tenantId }),
  limit: quantityOf(cap.unit, limitAmount)
})

const capSnapshot = (cap: StoredCap) => {
  const { createdAt: _, updatedAt: __, version: ___, ...view } = toCap(cap)
  return view
}

/** The entity tag of a cap's version. */
export const tagOf = ({ version }: Cap): string => entityTag(version)
