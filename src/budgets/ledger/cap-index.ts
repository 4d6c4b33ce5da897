import { Cache, Context, Effect, Exit, Layer } from "effect"
import { hash } from "node:crypto"
import { type TenantId } from "../../kernel/identifier.ts"
import { Database } from "../../platform/database/database.ts"
import { allTenants, dimensions, type StoredCap } from "./domain.ts"
import { type ApplicableCap, type BudgetSubject, type Dimensions } from "./protocol-domain.ts"
import { LedgerStore } from "./repository.ts"

type Dimension = (typeof dimensions)[number]

interface StoredApplicableCap extends ApplicableCap {
  readonly cap: StoredCap
}

/** A cap that applies to all reservations with some values, or to those of them that have more: a cap on their model, or on each. */
export interface CompatibleCap extends StoredApplicableCap {
  readonly dependsOn: ReadonlyArray<Dimension>
}

const maxCachedTenants = 10_000
/** Calls that repeat have few distinct values. */
const maxCachedLookups = 1000

/** The caps of one tenant, indexed by the dimensions that their scopes name: one look-up for each kind of scope. */
export class CapIndex {
  readonly revision: bigint
  readonly size: number
  /** Whether any of them needs an approval where it has no room. */
  readonly asksForApproval: boolean
  /** The dimensions that any of them names. */
  private readonly named: ReadonlyArray<Dimension>
  private readonly known = new Map<string, ReadonlyArray<StoredApplicableCap>>()
  private readonly shapes = new Map<
    string,
    { readonly bound: ReadonlyArray<Dimension>; readonly caps: Map<string, Array<StoredCap>> }
  >()

  constructor({ caps, revision }: { readonly caps: ReadonlyArray<StoredCap>; readonly revision: bigint }) {
    this.revision = revision
    this.size = caps.length
    this.asksForApproval = caps.some(({ mode }) => mode === "approval")
    this.named = dimensions.filter((name) => caps.some(({ scope }) => scope[name] !== undefined))
    for (const cap of caps) {
      const bound = dimensions.filter((name) => cap.scope[name] !== undefined && cap.scope[name] !== "each")
      const shape = bound.join()
      let known = this.shapes.get(shape)
      if (known === undefined) this.shapes.set(shape, (known = { bound, caps: new Map() }))
      const key = keyOf(bound, cap.scope)
      known.caps.set(key, [...(known.caps.get(key) ?? []), cap])
    }
  }

  /** The caps that apply to a reservation with these values; a paused one counts it, and refuses nothing. */
  applicable(values: Dimensions): ReadonlyArray<StoredApplicableCap> {
    let key = ""
    for (const name of this.named) key += values[name] === undefined ? "\0" : `=${values[name]}\0`
    let applicable = this.known.get(key)
    if (applicable === undefined) {
      if (this.known.size >= maxCachedLookups) this.known.clear()
      this.known.set(key, (applicable = this.find(values)))
    }
    return applicable
  }

  /** The active caps that no value contradicts: those that apply to such a reservation, whatever else it is for, and to some of them. */
  compatible(values: Dimensions): ReadonlyArray<CompatibleCap> {
    return [...this.shapes.values()]
      .flatMap(({ caps }) => [...caps.values()].flat())
      .filter(
        ({ scope, status }) =>
          status === "active" &&
          dimensions.every((name) => {
            const bound = scope[name]
            return bound === undefined || bound === "each" || values[name] === undefined || values[name] === bound
          })
      )
      .map((cap) => ({
        cap,
        counterKey: counterKey(cap, values),
        dependsOn: dimensions.filter((name) => cap.scope[name] !== undefined && values[name] === undefined)
      }))
  }

  private find(values: Dimensions): ReadonlyArray<StoredApplicableCap> {
    const found: Array<StoredApplicableCap> = []
    for (const { bound, caps } of this.shapes.values()) {
      for (const cap of caps.get(keyOf(bound, values)) ?? []) found.push({ cap, counterKey: counterKey(cap, values) })
    }
    // In the order of creation, which is that of their ids.
    return found.length < 2 ? found : found.toSorted((a, b) => (a.cap.id < b.cap.id ? -1 : 1))
  }
}

const keyOf = (
  bound: ReadonlyArray<Dimension>,
  values: Readonly<Partial<Record<Dimension, string | number | undefined>>>
): string => (bound.length === 0 ? "" : JSON.stringify(bound.map((name) => values[name] ?? null)))

/** In the place of a value that is missing. */
const none = "none"

/** The values that are counted separately, as JSON; empty where there is one counter. A missing value counts as `none`. */
const counterKey = ({ scope }: StoredCap, values: Dimensions): string => {
  const counted: Record<string, string | number> = {}
  for (const name of dimensions) if (scope[name] === "each") counted[name] = values[name] ?? none
  if (Object.keys(counted).length === 0) return ""
  const key = JSON.stringify(counted)
  return key.length <= maxKeyLength ? key : JSON.stringify(abbreviated(counted))
}

/** In UTF-16, of which three bytes at most are stored for one: an index takes 2,704 bytes for all of its columns. */
const maxKeyLength = 800
const maxValueLength = 40

/** Values too long for an index, each as its beginning and its SHA-256. */
const abbreviated = (counted: Readonly<Record<string, string | number>>): Record<string, string | number> =>
  Object.fromEntries(
    Object.entries(counted).map(([name, value]) => [
      name,
      typeof value === "string" && value.length > maxValueLength
        ? `${value
            .slice(0, maxValueLength)
            .toWellFormed()
            .replace(/\uFFFD$/, "")}… (SHA-256 ${hash("sha256", value)})`
        : value
    ])
  )

/** The scope of one counter of a cap: the counted value in the place of `each`. */
export const countedScope = (scope: StoredCap["scope"], key: string): Readonly<Record<string, string | number>> => ({
  ...scope,
  ...(key === "" ? {} : (JSON.parse(key) as Record<string, string | number>))
})

/** The values by which a counter counts; null where what it counts has none. */
export const countedDimensions = (
  scope: StoredCap["scope"],
  key: string
): Readonly<Record<string, string | number | null>> =>
  Object.fromEntries(
    Object.entries(countedScope(scope, key)).map(([name, value]) => [
      name,
      value === none && scope[name as Dimension] === "each" ? null : value
    ])
  )

/** The indexes of the tenants of some reservations, and that of the caps over all tenants. */
export type CapIndexesByTenant = ReadonlyMap<TenantId, CapIndex>

/** The caps of its tenant and those over all tenants that apply to a reservation. */
export const applicableCaps = (
  indexes: CapIndexesByTenant,
  { dimensions, tenantId }: Pick<BudgetSubject, "dimensions" | "tenantId">
): ReadonlyArray<StoredApplicableCap> => {
  const own = indexes.get(tenantId)?.applicable(dimensions) ?? []
  const ofAll = indexes.get(allTenants)?.applicable(dimensions) ?? []
  return ofAll.length === 0 ? own : [...own, ...ofAll]
}

/** The revision of each tenant's caps, which the ledger compares with the current one. */
export const revisionsOf = (indexes: CapIndexesByTenant): ReadonlyArray<readonly [TenantId, bigint]> =>
  Array.from(indexes, ([tenantId, { revision }]) => [tenantId, revision] as const)

/**
 * The caps of tenants, cached in memory. A copy may be old: the ledger's statement compares its revision with the current
 * one in the same transaction, and the copy is read again. So no decision is based on old caps.
 */
export class CapIndexes extends Context.Service<CapIndexes>()("app/budgets/CapIndexes", {
  make: Effect.gen(function* () {
    const database = yield* Database
    const store = yield* LedgerStore
    const indexes = yield* Cache.makeWith(
      (tenantId: TenantId) => Effect.map(database.read("all", store.capsOf(tenantId)), (caps) => new CapIndex(caps)),
      { capacity: maxCachedTenants, timeToLive: (exit) => (Exit.isSuccess(exit) ? "1 hour" : 0) }
    )
    // A call looks twice: what is present is found without an effect.
    const present = new Map<TenantId, CapIndex>()
    const getOne = (tenantId: TenantId) => {
      const index = present.get(tenantId)
      if (index !== undefined) return Effect.succeed(index)
      return Effect.tap(Cache.get(indexes, tenantId), (read) =>
        Effect.sync(() => {
          if (present.size === maxCachedTenants) present.clear()
          present.set(tenantId, read)
        })
      )
    }
    return {
      /** The caps of the tenants of some reservations, and those over all tenants. */
      of: (subjects: ReadonlyArray<Pick<BudgetSubject, "tenantId">>): Effect.Effect<CapIndexesByTenant> => {
        const found = new Map<TenantId, CapIndex>()
        let isMissing = false
        const find = (tenantId: TenantId) => {
          const index = present.get(tenantId)
          if (index === undefined) isMissing = true
          else found.set(tenantId, index)
        }
        for (const { tenantId } of subjects) find(tenantId)
        find(allTenants)
        if (!isMissing) return Effect.succeed(found)
        const wanted = new Set(subjects.map(({ tenantId }) => tenantId)).add(allTenants)
        return Effect.map(
          Effect.forEach(wanted, (tenantId) => Effect.map(getOne(tenantId), (index) => [tenantId, index] as const)),
          (all) => new Map(all)
        )
      },
      /** Whether none of these is known to have changed. */
      areCurrent: (indexes: CapIndexesByTenant): Effect.Effect<boolean> => {
        let isMissing = false
        for (const [tenantId, index] of indexes) {
          const now = present.get(tenantId)
          if (now === undefined) isMissing = true
          else if (now.revision !== index.revision) return Effect.succeed(false)
        }
        if (!isMissing) return Effect.succeed(true)
        return Effect.map(
          Effect.forEach(indexes, ([tenantId, index]) =>
            Effect.map(getOne(tenantId), (now) => now.revision === index.revision)
          ),
          (same) => same.every((one) => one)
        )
      },
      /** Reads them again. */
      refresh: (tenantIds: Iterable<TenantId>): Effect.Effect<void> =>
        Effect.forEach(
          [...tenantIds, allTenants],
          (tenantId) => {
            present.delete(tenantId)
            return Cache.invalidate(indexes, tenantId)
          },
          { discard: true }
        )
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)
}
