import { Context, DateTime, Effect, Layer } from "effect"
import { Agents } from "../../agents/agents/service.ts"
import { ApiKeys } from "../../agents/api-keys/service.ts"
import { CurrentPrincipal, type Principal } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { Database, statementMoment } from "../../platform/database/database.ts"
import { Tenants } from "../../tenants/service.ts"
import { ModelNames, seesCounted, withinTenant } from "../attribution/service.ts"
import { applicableCaps, CapIndexes, type CompatibleCap } from "../ledger/cap-index.ts"
import { allTenants, type StoredCap } from "../ledger/domain.ts"
import { type AvailableBudget, type BudgetSubject, type Dimensions } from "../ledger/protocol-domain.ts"
import { Ledger } from "../ledger/service.ts"
import { type ApplicableCap, type CapsSubject, type CapUtilization } from "./domain.ts"
import { type CounterUtilization, UtilizationRepository } from "./utilization-repository.ts"
import { utilizationOf } from "./utilization.ts"

/** A cap that applies to a call, with its use. */
export interface CapUse extends AvailableBudget {
  readonly cap: StoredCap
  /** With its grants. */
  readonly limit: bigint
  readonly spent: bigint
  readonly reserved: bigint
}

/** Of a cap that counts each value of something that is not named: as many of its counters, the most used first. */
const mostCounters = 3

/** What the caps that apply to a call have left now. A reservation is decided by what they have left then. */
export class AvailableBudgets extends Context.Service<AvailableBudgets>()("app/budgets/AvailableBudgets", {
  make: Effect.gen(function* () {
    const agents = yield* Agents
    const apiKeys = yield* ApiKeys
    const capIndexes = yield* CapIndexes
    const database = yield* Database
    const ledger = yield* Ledger
    const modelOf = yield* ModelNames
    const repository = yield* UtilizationRepository
    const tenants = yield* Tenants

    /** The indexes of some tenants, which no statement compares with the current ones here. */
    const currentIndexes = Effect.fnUntraced(function* (tenantIds: ReadonlySet<TenantId>) {
      for (const tenantId of tenantIds) yield* ledger.flushSettlements(tenantId)
      yield* capIndexes.refresh(tenantIds)
      return yield* capIndexes.of([...tenantIds].map((tenantId) => ({ tenantId })))
    })

    /** The counters of some caps, by cap and what they count. */
    const countersOf = Effect.fnUntraced(function* (
      wanted: ReadonlyArray<{ readonly cap: StoredCap; readonly counterKey: string }>
    ) {
      const counters = new Map(
        wanted.map(({ cap, counterKey }) => [keyOf(cap.id, counterKey), { capId: cap.id, counterKey }])
      )
      if (counters.size === 0) return new Map<string, CounterUtilization>()
      const at = yield* statementMoment
      const found = yield* database.read(
        "all",
        repository.list({ counters: [...counters.values()] }, at, undefined, counters.size)
      )
      return new Map(found.map((one) => [keyOf(one.capId, one.counterKey ?? ""), one]))
    })

    /** The caps that apply to each of some calls. */
    const ofEach = Effect.fn("AvailableBudgets.ofEach")(function* (
      subjects: ReadonlyArray<Pick<BudgetSubject, "dimensions" | "tenantId">>
    ) {
      const indexes = yield* currentIndexes(new Set(subjects.map(({ tenantId }) => tenantId)))
      const applicable = subjects.map((subject) => applicableCaps(indexes, subject))
      const counters = yield* countersOf(applicable.flat())
      return applicable.map((caps) =>
        caps.map(({ cap, counterKey }): CapUse => {
          const counter = counters.get(keyOf(cap.id, counterKey))
          const limit = cap.limitAmount + (counter?.grants ?? 0n)
          const { reserved = 0n, spent = 0n } = counter ?? {}
          const left = limit - spent - reserved
          const resetsAt = counter?.periodEnd?.epochMilliseconds ?? null
          return { cap, counterKey, limit, spent, reserved, headroom: left > 0n ? left : 0n, resetsAt }
        })
      )
    })

    /** The tenant and the values of what a caller asks about; an API key has its application. */
    const subjectOf = Effect.fnUntraced(function* (principal: Principal, { tenantId, ...given }: CapsSubject) {
      const key = given.apiKeyId === undefined ? undefined : yield* apiKeys.get(given.apiKeyId)
      const home =
        (given.agentId === undefined ? undefined : yield* agents.tenantOf(given.agentId)) ??
        key?.tenantId ??
        principal.tenantId ??
        tenantId ??
        (yield* tenants.defaultId)
      const dimensions: Dimensions = {
        ...given,
        ...(given.model === undefined ? {} : { model: modelOf(given.model) }),
        ...(key?.applicationId == null ? {} : { applicationId: key.applicationId })
      }
      return { tenantId: home, dimensions }
    })

    /** Every cap that applies to what a caller asks about, or to some of its calls; the fullest first. */
    const applying = Effect.fn("AvailableBudgets.applying")(function* (subject: CapsSubject) {
      const principal = yield* CurrentPrincipal
      const asOf = yield* DateTime.now
      if (withinTenant(principal, subject) === undefined) return { asOf, fullOverAllTenants: false, items: [] }
      const { dimensions, tenantId } = yield* subjectOf(principal, subject)
      const indexes = yield* currentIndexes(new Set([tenantId]))
      const caps = [tenantId, allTenants].flatMap((owner) => indexes.get(owner)?.compatible(dimensions) ?? [])
      const counters = yield* countersOf(caps.filter((one) => !countsEach(one)))
      const at = yield* statementMoment
      const used = yield* Effect.forEach(caps, (one) => {
        const { cap, counterKey } = one
        if (!countsEach(one)) return Effect.succeed([counters.get(keyOf(cap.id, counterKey)) ?? unused(one)])
        const filter = { tenantId: cap.tenantId, capId: cap.id }
        return database.read("all", repository.listByUse(filter, at, "-percentUsed", undefined, mostCounters))
      })
      const items = caps.flatMap((one, index) =>
        (used[index] ?? []).map((counter) => toApplicable(one, utilizationOf(counter, asOf)))
      )
      // A tenant's caller learns nothing of a cap over all tenants but that it is full.
      const isOwn =
        principal.tenantId === undefined ? () => true : (item: (typeof items)[number]) => item.use.tenantId !== null
      return {
        asOf,
        fullOverAllTenants: items.some(
          (item) =>
            item.use.tenantId === null && item.mode !== "soft" && item.dependsOn.length === 0 && isFull(item.use)
        ),
        items: items
          .filter((item) => isOwn(item) && seesCounted(principal, item.use.scope))
          .toSorted((a, b) => a.dependsOn.length - b.dependsOn.length || b.use.percentUsed - a.use.percentUsed)
      }
    })

    return {
      ofEach,
      of: (subject: BudgetSubject) => Effect.map(ofEach([subject]), ([caps = []]) => caps),
      applying
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(UtilizationRepository.layer))
}

const keyOf = (capId: string, counterKey: string): string => `${capId}${counterKey}`

const isFull = ({ state }: CapUtilization): boolean => state === "exhausted" || state === "over"

/** Whether a cap has a counter for each value of something that is not named. */
const countsEach = ({ cap, dependsOn }: CompatibleCap): boolean => dependsOn.some((name) => cap.scope[name] === "each")

const toApplicable = ({ cap, dependsOn }: CompatibleCap, use: CapUtilization): ApplicableCap => ({
  use,
  mode: cap.mode,
  period: cap.period,
  dependsOn
})

/** The counter of a cap that has counted nothing in this period. */
const unused = ({ cap, counterKey }: CompatibleCap): CounterUtilization => ({
  tenantId: cap.tenantId,
  capId: cap.id,
  counterId: allTenants,
  name: cap.name,
  scope: cap.scope,
  unit: cap.unit,
  limitAmount: cap.limitAmount,
  alertThresholds: cap.alertThresholds,
  createdAt: cap.createdAt,
  counterKey,
  grants: 0n,
  spent: 0n,
  reserved: 0n,
  held: 0n,
  windowSeconds: cap.windowSeconds,
  periodStart: null,
  periodEnd: null
})
