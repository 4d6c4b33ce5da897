/**
 * Plans as one reads them: what a cap has reserved is what its open calls hold and what its plans have left. It knows
 * nothing of rows, locks and counters that are kept.
 */
export interface ModelCap {
  readonly id: string
  readonly limit: bigint
  readonly period: "day" | "week" | "total"
  readonly model?: string
}

/** A cap in one of its periods. */
export type Place = string

interface ModelPlan {
  budget: bigint
  spent: bigint
  reserved: bigint
  ended: "completed" | "aborted" | "expired" | undefined
  heartbeatBy: number
  deadAt: number
  readonly expiresAt: number
  readonly heartbeatSeconds: number
  places: ReadonlyArray<Place>
  hasLateCalls: boolean
}

interface ModelCall {
  readonly plan: string | undefined
  readonly amount: bigint
  readonly places: ReadonlyArray<Place>
  readonly expiresAt: number
  state: "open" | "expired" | "released" | "settled"
  actual?: bigint
}

const day = 86_400_000
// Weeks begin on Mondays; 1970 began on a Thursday.
const lengths = { day: { millis: day, offset: 0 }, week: { millis: 7 * day, offset: 3 * day } }
const zero = 0n
const positive = (amount: bigint) => (amount > zero ? amount : zero)

export class PlansModel {
  now: number
  readonly caps: Array<ModelCap>
  readonly plans = new Map<string, ModelPlan>()
  readonly calls = new Map<string, ModelCall>()
  readonly spent = new Map<Place, bigint>()

  constructor(now: number, caps: Array<ModelCap>) {
    this.now = now
    this.caps = caps
  }

  placeOf({ id, period }: ModelCap): Place {
    if (period === "total") return id
    const { millis, offset } = lengths[period]
    return `${id} ${Math.floor((this.now + offset) / millis)}`
  }

  private heldPlaces(): ReadonlyArray<Place> {
    return this.caps
      .filter(({ model, period }) => period !== "day" && model === undefined)
      .map((cap) => this.placeOf(cap))
  }

  private capOf(place: Place): ModelCap | undefined {
    return this.caps.find(({ id }) => place.startsWith(id))
  }

  rest({ budget, ended, reserved, spent }: ModelPlan): bigint {
    return ended === undefined ? positive(budget - spent - reserved) : zero
  }

  reserved(place: Place): bigint {
    let sum = zero
    for (const call of this.calls.values()) if (call.state === "open" && call.places.includes(place)) sum += call.amount
    for (const plan of this.plans.values()) if (plan.places.includes(place)) sum += this.rest(plan)
    return sum
  }

  private hasRoom(place: Place, need: bigint): boolean {
    const used = (this.spent.get(place) ?? zero) + this.reserved(place)
    return need <= zero || used + need <= (this.capOf(place)?.limit ?? zero)
  }

  statusOf({ deadAt, ended, heartbeatBy }: ModelPlan) {
    if (ended !== undefined) return ended
    if (deadAt <= this.now) return "expired"
    return heartbeatBy <= this.now ? "suspended" : "active"
  }

  /** Plans that are dead end, and so do calls that are due. */
  reclaim(): void {
    for (const [id, plan] of this.plans) {
      if (plan.ended === undefined && plan.deadAt <= this.now) this.end(id, plan, "expired")
    }
    for (const call of this.calls.values()) {
      if (call.state === "open" && call.expiresAt <= this.now) this.close(call, "expired", zero)
    }
  }

  private end(id: string, plan: ModelPlan, ending: NonNullable<ModelPlan["ended"]>): void {
    plan.ended = ending
    for (const call of this.calls.values()) {
      if (call.plan === id && call.state === "open") {
        this.close(call, ending === "expired" ? "expired" : "released", zero)
      }
    }
  }

  private close(call: ModelCall, state: "expired" | "released" | "settled", actual: bigint): void {
    const plan = call.plan === undefined ? undefined : this.plans.get(call.plan)
    const wasOpen = call.state === "open"
    call.state = state
    for (const place of call.places) this.spent.set(place, (this.spent.get(place) ?? zero) + actual)
    if (plan === undefined) return
    plan.spent += actual
    if (!wasOpen) {
      plan.hasLateCalls = true
      return
    }
    plan.reserved -= call.amount
    // What returns to where the plan holds no more is lost to it.
    if (!plan.places.every((place) => call.places.includes(place))) {
      plan.budget = positive(plan.budget - positive(call.amount - actual))
    }
  }

  start(id: string, budget: bigint, heartbeatSeconds: number, lifeSeconds: number): "done" | "denied" {
    this.reclaim()
    const places = this.heldPlaces()
    if (!places.every((place) => this.hasRoom(place, budget))) return "denied"
    const expiresAt = this.now + lifeSeconds * 1000
    const plan = {
      budget,
      spent: zero,
      reserved: zero,
      ended: undefined,
      expiresAt,
      heartbeatSeconds,
      places,
      hasLateCalls: false
    }
    this.plans.set(id, { ...plan, heartbeatBy: 0, deadAt: 0 })
    this.beat(id)
    return "done"
  }

  private beat(id: string): void {
    const plan = this.plans.get(id)
    if (plan === undefined) return
    plan.heartbeatBy = this.now + plan.heartbeatSeconds * 1000
    plan.deadAt = Math.min(this.now + 2 * plan.heartbeatSeconds * 1000, plan.expiresAt)
  }

  extend(id: string, additional: bigint): string {
    this.reclaim()
    const plan = this.plans.get(id)
    if (plan === undefined) return "missing"
    if (this.statusOf(plan) !== "active") return "inactive"
    const places = this.heldPlaces()
    const before = this.rest(plan)
    const after = this.rest({ ...plan, budget: plan.budget + additional })
    const fits = places.every((place) => this.hasRoom(place, plan.places.includes(place) ? after - before : after))
    if (!fits) return "denied"
    plan.budget += additional
    plan.places = places
    return "done"
  }

  finish(id: string, ending: "completed" | "aborted"): string {
    const plan = this.plans.get(id)
    if (plan === undefined) return "missing"
    if (plan.ended === ending) return "same"
    if (!["active", "suspended"].includes(this.statusOf(plan))) return "inactive"
    const isOpen = [...this.calls.values()].some((call) => call.plan === id && call.state === "open")
    if (ending === "completed" && isOpen) return "calls-open"
    this.end(id, plan, ending)
    return "done"
  }

  heartbeat(id: string): string {
    const plan = this.plans.get(id)
    if (plan === undefined) return "missing"
    if (!["active", "suspended"].includes(this.statusOf(plan))) return "inactive"
    this.beat(id)
    return "done"
  }

  private isAnythingDue(): boolean {
    return (
      [...this.calls.values()].some((call) => call.state === "open" && call.expiresAt <= this.now) ||
      [...this.plans.values()].some((plan) => plan.ended === undefined && plan.deadAt <= this.now)
    )
  }

  reserve(
    id: string,
    planId: string | undefined,
    amount: bigint,
    ttlSeconds: number,
    model: string | undefined
  ): string {
    const plan = planId === undefined ? undefined : this.plans.get(planId)
    if (planId !== undefined && plan === undefined) return "plan-missing"
    if (plan !== undefined && this.statusOf(plan) !== "active") return "plan-inactive"
    const governing = this.caps.filter((cap) => cap.model === undefined || cap.model === model)
    const held = plan?.places ?? []
    const asked = governing
      .filter(({ id: cap }) => !held.some((place) => place.startsWith(cap)))
      .map((cap) => this.placeOf(cap))
    const isDeniedByPlan = plan !== undefined && plan.spent + plan.reserved + amount > plan.budget
    const failing = asked.find((place) => !this.hasRoom(place, amount))
    if (isDeniedByPlan || failing !== undefined) {
      const wouldFit =
        plan !== undefined && isDeniedByPlan
          ? plan.spent + amount <= plan.budget
          : (this.spent.get(failing ?? "") ?? zero) + amount <= (this.capOf(failing ?? "")?.limit ?? zero)
      if (!wouldFit || !this.isAnythingDue()) return "denied"
      this.reclaim()
      return this.reserve(id, planId, amount, ttlSeconds, model)
    }
    if (plan !== undefined) plan.reserved += amount
    const expiresAt = this.now + ttlSeconds * 1000
    this.calls.set(id, { plan: planId, amount, places: [...held, ...asked], expiresAt, state: "open" })
    return "open"
  }

  settle(id: string, actual: bigint): string {
    const call = this.calls.get(id)
    if (call === undefined) return "missing"
    if (call.state === "settled") return call.actual === actual ? "same" : "conflict"
    this.close(call, "settled", actual)
    call.actual = actual
    return "done"
  }

  release(id: string): string {
    const call = this.calls.get(id)
    if (call === undefined) return "missing"
    if (call.state === "settled") return "conflict"
    if (call.state !== "open") return "same"
    this.close(call, "released", zero)
    return "done"
  }
}
