import { Context, DateTime, Effect, Layer, Option } from "effect"
import { type AgentNotFound } from "../../identity/agents/domain.ts"
import { type ApiKeyNotFound } from "../../identity/api-keys/domain.ts"
import { type ApplicationNotFound } from "../../applications/applications/domain.ts"
import { type Change } from "../../audit/log/domain.ts"
import { Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal, Forbidden } from "../../kernel/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { emptySlice, type Slice, slice } from "../../kernel/page.ts"
import { entityTag, type IfMatch, meets, VersionMismatch } from "../../kernel/precondition.ts"
import { ValidationFailed } from "../../kernel/problems.ts"
import { scopeOf, Database } from "../../platform/database/database.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { TenantNotFound } from "../../identity/tenants/domain.ts"
import { Tenants } from "../../identity/tenants/service.ts"
import { withinTenant } from "../attribution/service.ts"
import {
  allTenants,
  type Cap,
  capActions,
  type CapCreation,
  CapId,
  CapImmutable,
  CapNotFound,
  type CapUpdate,
  naturalAnchor,
  type TooManyCaps
} from "../ledger/cap-domain.ts"
import { type CapFilter, CapsRepository, type StoredCap } from "../ledger/cap-repository.ts"
import { isLooser, requireLoosening, requireOwn } from "./own-caps.ts"
import { amountOf, quantityFault, quantityOf } from "../ledger/quantity-domain.ts"

type UnknownNamed = TenantNotFound | AgentNotFound | ApiKeyNotFound | ApplicationNotFound

/** What may be spent: made, changed and ended by those who may write budgets. */
export class BudgetCaps extends Context.Service<
  BudgetCaps,
  {
    list(filter: CapFilter, after: CapId | undefined, limit: number): Effect.Effect<Slice<Cap, CapId>>
    get(id: CapId): Effect.Effect<Cap, CapNotFound>
    create(input: CapCreation): Effect.Effect<Cap, UnknownNamed | TooManyCaps | ValidationFailed | Forbidden>
    update(
      id: CapId,
      input: CapUpdate,
      ifMatch: IfMatch | undefined
    ): Effect.Effect<Cap, CapNotFound | CapImmutable | ValidationFailed | VersionMismatch | Forbidden>
    /** Ends a cap; what it counted stays. */
    delete(id: CapId): Effect.Effect<void, CapNotFound | Forbidden>
    /** The cap under lock until the transaction ends, if it is one that the caller may change. */
    take(id: CapId): Effect.Effect<StoredCap, CapNotFound, Change>
    /** The cap as it is stored, if the caller may see it. */
    find(id: CapId): Effect.Effect<StoredCap, CapNotFound>
  }
>()("app/budgets/BudgetCaps") {
  static readonly layerNoDeps = Layer.effect(
    BudgetCaps,
    Effect.gen(function* () {
      const audit = yield* Audit
      const database = yield* Database
      const repository = yield* CapsRepository
      const tenants = yield* Tenants
      const { budgets } = yield* Settings

      const list = Effect.fn("BudgetCaps.list")(function* (filter: CapFilter, after: CapId | undefined, limit: number) {
        const principal = yield* CurrentPrincipal
        const own = withinTenant(principal, filter)
        if (own === undefined) return emptySlice
        const rows = yield* database.transaction(scopeOf(principal), repository.list(own, after, limit + 1))
        return slice(rows.map(capView), limit, (cap) => cap.id)
      })

      const found = Effect.flatMap(
        Option.match({
          onNone: () => Effect.fail(new CapNotFound({})),
          onSome: (cap: StoredCap) => Effect.succeed(cap)
        })
      )
      const find = Effect.fn("BudgetCaps.find")(function* (id: CapId) {
        return yield* found(database.transaction(scopeOf(yield* CurrentPrincipal), repository.find(id)))
      })
      const take = (id: CapId) => found(repository.lock(id))

      const tenantOfNew = Effect.fnUntraced(function* (given: TenantId | null | undefined) {
        const { tenantId } = yield* CurrentPrincipal
        if (tenantId !== undefined) {
          return given === undefined
            ? tenantId
            : yield* new Forbidden({ missing: [], detail: "Only system callers name a tenant." })
        }
        if (given === undefined) return yield* tenants.defaultId
        // The id that such caps are kept under is nobody's: they are asked for with null.
        return given === allTenants ? yield* new TenantNotFound({}) : (given ?? allTenants)
      })

      const create = Effect.fn("BudgetCaps.create")(function* (input: CapCreation) {
        yield* requireOwn(input.scope ?? {})
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
            scope: input.scope ?? {},
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
        return { value: capView(cap), entries: [{ ...entry, tenantId: recordedIn(cap) }] }
      }, audit.change)

      const update = Effect.fn("BudgetCaps.update")(function* (
        id: CapId,
        input: CapUpdate,
        ifMatch: IfMatch | undefined
      ) {
        const before = yield* take(id)
        yield* requireOwn(before.scope)
        if (!meets(ifMatch, before.version)) return yield* new VersionMismatch({ version: before.version })
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
        if (isLooser(before, wanted)) yield* requireLoosening
        if (same(capSnapshot(before), capSnapshot(wanted))) return { value: capView(before), entries: [] }
        const after = yield* repository.update({
          ...wanted,
          version: before.version + 1,
          updatedAt: yield* DateTime.now
        })
        const entry = { action: capActions.BudgetCapUpdated, entityId: id, tenantId: recordedIn(before) }
        return {
          value: capView(after),
          entries: [{ ...entry, before: capSnapshot(before), after: capSnapshot(after) }]
        }
      }, audit.change)

      const remove = Effect.fn("BudgetCaps.delete")(function* (id: CapId) {
        const before = yield* take(id)
        yield* requireLoosening
        yield* repository.delete(before, yield* DateTime.now)
        const entry = { action: capActions.BudgetCapDeleted, entityId: id, before: capSnapshot(before) }
        return { value: undefined, entries: [{ ...entry, tenantId: recordedIn(before) }] }
      }, audit.change)

      return BudgetCaps.of({
        list,
        get: (id) => Effect.map(find(id), capView),
        create,
        update,
        delete: remove,
        take,
        find
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(CapsRepository.layer))
}

const immutable = ["scope", "unit", "period", "windowSeconds", "timeZone", "anchor"] as const

const sorted = (value: unknown): unknown =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : value
const same = (a: unknown, b: unknown): boolean => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b))

const fault = (member: string, message: string) =>
  Effect.fail(new ValidationFailed({ errors: [{ path: ["payload", member], message }] }))

/** Whose log a change of a cap belongs into; nobody's alone when it is over all tenants. */
export const recordedIn = ({ tenantId }: StoredCap): TenantId | null => (tenantId === allTenants ? null : tenantId)

export const capView = ({ limitAmount, tenantId, ...cap }: StoredCap): Cap => ({
  ...cap,
  tenantId: tenantId === allTenants ? null : tenantId,
  limit: quantityOf(cap.unit, limitAmount)
})

const capSnapshot = (cap: StoredCap) => {
  const { createdAt: _, updatedAt: __, version: ___, ...view } = capView(cap)
  return view
}

/** The tag of a cap's version. */
export const tagOf = ({ version }: Cap): string => entityTag(version)
