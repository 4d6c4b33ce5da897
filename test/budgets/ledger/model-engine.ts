import { Clock, Context, Effect, Layer } from "effect"
import * as crypto from "node:crypto"
import { type CapCreation } from "../../../src/budgets/caps/domain.ts"
import { CapId } from "../../../src/budgets/ledger/domain.ts"
import {
  type CloseItem,
  type CloseResult,
  type ReserveItem,
  type ReserveResult
} from "../../../src/budgets/ledger/protocol-domain.ts"
import { amountOf } from "../../../src/budgets/ledger/quantity-domain.ts"
import { Ledger } from "../../../src/budgets/ledger/service.ts"
import { TenantId } from "../../../src/kernel/identifier.ts"
import { LedgerWorld } from "./conformance.ts"
import { LedgerModel, type ModelCap } from "./model.ts"

/** What the model knows nothing of: whose a reservation is, and which key made it. */
interface Ownership {
  readonly tenantId: TenantId
  readonly principal: string
  readonly origin: string
}

const holdSeconds = 86_400
const scales = { usd: 1e9, tokens: 1, requests: 1 }

/** The model as an engine, in memory: so the suite and the model are each other's test. */
class ModelEngine {
  private readonly models = new Map<TenantId, LedgerModel>()
  private readonly owners = new Map<string, Ownership>()
  private readonly keys = new Set<string>()
  /** The charges by their ids: whose they are, and of which reservation. */
  private readonly charges = new Map<string, { readonly id: string; readonly by: string }>()

  addTenant(): TenantId {
    const tenantId = TenantId.make(crypto.randomUUID())
    this.models.set(tenantId, new LedgerModel(0, holdSeconds))
    return tenantId
  }

  addCap(
    tenantId: TenantId,
    now: number,
    { limit = 1, mode, period, scope = {}, unit = "usd" }: Partial<CapCreation>
  ): CapId {
    const id = CapId.make(crypto.randomUUID())
    const cap = { id, limit: amountOf(unit, limit), unit, mode: mode ?? "hard", period: period ?? "total", scope }
    this.at(tenantId, now).caps.push({ ...cap, paused: false, grants: [] } as ModelCap)
    return id
  }

  private at(tenantId: TenantId, now: number): LedgerModel {
    const model = this.models.get(tenantId) ?? new LedgerModel(now, holdSeconds)
    model.now = now
    return model
  }

  private holderOf(id: CapId): { readonly model: LedgerModel; readonly cap: ModelCap } {
    for (const model of this.models.values()) {
      const cap = model.caps.find((one) => one.id === id)
      if (cap !== undefined) return { model, cap }
    }
    throw new Error("no such cap")
  }

  change(id: CapId, { limit, status }: { readonly limit: number; readonly status?: "active" | "paused" }): void {
    const { cap } = this.holderOf(id)
    cap.limit = amountOf(cap.unit, limit)
    if (status !== undefined) cap.paused = status === "paused"
  }

  grant(id: CapId, amount: number): void {
    const { cap } = this.holderOf(id)
    cap.grants.push({ amount: amountOf(cap.unit, amount), until: Number.POSITIVE_INFINITY, key: null })
  }

  utilization(id: CapId, now: number) {
    const { cap, model } = this.holderOf(id)
    model.now = now
    const utilization = model.utilizations().find((one) => one.capId === id)
    const scale = scales[cap.unit]
    return { spent: Number(utilization?.spent ?? 0n) / scale, reserved: Number(utilization?.reserved ?? 0n) / scale }
  }

  reserve(item: ReserveItem, now: number): ReserveResult["verdict"] {
    const { amount, dimensions, id, origin, principal, repeatable, tenantId, tokens, ttlSeconds } = item
    const model = this.at(tenantId, now)
    if (item.kind !== "reserve") return model.approve(id, item.kind === "override")
    const { mayWait = true } = item
    const key = repeatable === undefined ? undefined : `${principal} ${repeatable.route} ${repeatable.key}`
    if (key !== undefined && this.keys.has(key)) return "replay"
    const values = Object.fromEntries(Object.entries(dimensions).filter(([, value]) => value !== undefined))
    const verdict = model.reserve({ id, values, amount, tokens: BigInt(tokens), ttlSeconds, mayWait })
    if (verdict === "denied" || verdict === "no-room") return verdict
    this.owners.set(id, { tenantId, principal, origin })
    if (key !== undefined) this.keys.add(key)
    return verdict
  }

  private ownerOf(id: string, tenantId: TenantId | null): Ownership | undefined {
    const owner = this.owners.get(id)
    return owner !== undefined && (tenantId === null || owner.tenantId === tenantId) ? owner : undefined
  }

  close(
    { amount, chargeId, id, kind, origin, principal, tenantId, tokens, canActForOthers }: CloseItem,
    now: number
  ): CloseResult["verdict"] {
    const owner = this.ownerOf(id, tenantId)
    if (owner === undefined) return "missing"
    if (owner.principal !== principal && !canActForOthers) return "foreign"
    if (owner.origin !== origin) return "managed"
    const model = this.at(owner.tenantId, now)
    if (kind === "release") return model.release(id)
    const verdict = model.settle(id, amount, tokens === undefined ? undefined : BigInt(tokens))
    if (verdict === "done") this.charges.set(chargeId, { id, by: principal })
    return verdict
  }

  extend(id: string, seconds: number, now: number): "done" | "missing" | "unopened" {
    const owner = this.ownerOf(id, null)
    return owner === undefined ? "missing" : this.at(owner.tenantId, now).extend(id, seconds)
  }

  deny(id: string, now: number): "done" | "same" | "gone" | "missing" {
    const owner = this.ownerOf(id, null)
    return owner === undefined ? "missing" : this.at(owner.tenantId, now).deny(id)
  }

  refund(
    chargeId: string,
    amount: bigint,
    by: string,
    isSystem: boolean,
    now: number
  ): "done" | "missing" | "own" | "exceeds" {
    const charge = this.charges.get(chargeId)
    const owner = charge === undefined ? undefined : this.ownerOf(charge.id, null)
    if (charge === undefined || owner === undefined) return "missing"
    return charge.by === by && !isSystem ? "own" : this.at(owner.tenantId, now).refund(charge.id, amount)
  }

  sweep(tenantId: TenantId | null, now: number): number {
    const tenants = tenantId === null ? [...this.models.keys()] : [tenantId]
    return tenants.reduce((sum, tenant) => sum + this.at(tenant, now).sweep(), 0)
  }
}

/** Of an answer, the suite looks at the verdict. */
const told = <A>(verdict: string) => ({ verdict }) as A

export const modelLayer = Layer.effectContext(
  Effect.sync(() => {
    const engine = new ModelEngine()
    const now = Clock.currentTimeMillis
    const at = <A>(act: (millis: number) => A): Effect.Effect<A> => Effect.map(now, act)
    const reserve = (item: ReserveItem) => at((millis) => told<ReserveResult>(engine.reserve(item, millis)))
    const close = (item: CloseItem) => at((millis) => told<CloseResult>(engine.close(item, millis)))
    const ledger = Ledger.of({
      reserve,
      close,
      replayOf: () => Effect.die("the model has no keys"),
      enqueueSettlement: (item) => void Effect.runSync(close(item)),
      flushSettlements: () => Effect.void,
      reserveBatch: (items) => Effect.forEach(items, reserve),
      closeBatch: (items) => Effect.forEach(items, close),
      extend: ({ id, ttlSeconds }) => at((millis) => told(engine.extend(id, ttlSeconds, millis))),
      deny: ({ id }) => at((millis) => told(engine.deny(id, millis))),
      refund: ({ amount, chargeId, isSystem, principal }) =>
        at((millis) => told(engine.refund(chargeId, amount, principal, isSystem, millis))),
      sweep: (tenantId) => at((millis) => engine.sweep(tenantId, millis)),
      reclaim: (tenantId) => at((millis) => void engine.sweep(tenantId, millis)),
      renew: () => Effect.void,
      transfer: () => Effect.die("the model has no gateway"),
      settlePart: () => Effect.die("the model has no gateway"),
      record: () => Effect.die("the model has no events"),
      drift: Effect.succeed([])
    })
    const world = LedgerWorld.of({
      makeTenant: Effect.sync(() => engine.addTenant()),
      makeCap: (tenantId, members = {}) => at((millis) => engine.addCap(tenantId, millis, members)),
      changeCap: (id, members) => Effect.sync(() => engine.change(id, members)),
      grant: (id, amount) => Effect.sync(() => engine.grant(id, amount)),
      utilization: (id) => at((millis) => engine.utilization(id, millis))
    })
    return Context.make(Ledger, ledger).pipe(Context.add(LedgerWorld, world))
  })
)
