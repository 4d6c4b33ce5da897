/**
 * The ledger as one reads it: caps are a list, counters are sums over what was reserved and charged, and every rule is
 * one line. It knows nothing of rows, locks and batches.
 */
export interface ModelCap {
  readonly id: string
  limit: bigint
  readonly unit: "usd" | "tokens" | "requests"
  readonly mode: "hard" | "soft" | "approval"
  readonly period: "hour" | "day" | "total" | "rolling"
  readonly scope: { readonly model?: string; readonly taskType?: string; readonly userId?: string }
  paused: boolean
  readonly grants: Array<{
    amount: bigint
    readonly until: number
    readonly key: string | null
    /** The reservation whose approval wrote it. */
    readonly of?: string
  }>
}

export interface ModelRequest {
  readonly id: string
  readonly values: { readonly model?: string; readonly taskType?: string; readonly userId?: string }
  readonly amount: bigint
  readonly tokens: bigint
  readonly ttlSeconds: number
  readonly mayWait?: boolean
}

type State = "held" | "open" | "denied" | "expired" | "released" | "settled"

/** Where a cap counts: for which value, and in which period. */
interface Place {
  readonly cap: ModelCap
  readonly key: string
  readonly period: number
}

interface ModelReservation extends Omit<ModelRequest, "amount"> {
  amount: bigint
  state: State
  expiresAt: number
  places: ReadonlyArray<Place>
  actual?: bigint
}

interface Entry {
  readonly reservation: ModelReservation
  readonly amount: bigint
  readonly tokens: bigint
  readonly requests: bigint
  /** The moment of the charge: a refund is counted where its charge is. */
  readonly at: number
}

const none = { amount: 0n, tokens: 0n, requests: 0n }

const hour = 3_600_000
const lengths = { hour, day: 24 * hour }
export const windowSeconds = 600
const bucketMillis = (windowSeconds / 60) * 1000
const buckets = 61

export class LedgerModel {
  now: number
  readonly holdSeconds: number
  readonly caps: Array<ModelCap> = []
  readonly reservations = new Map<string, ModelReservation>()
  readonly entries: Array<Entry> = []

  constructor(now: number, holdSeconds: number) {
    this.now = now
    this.holdSeconds = holdSeconds
  }

  private periodOf(cap: ModelCap): number {
    return cap.period === "total" || cap.period === "rolling" ? 0 : Math.floor(this.now / lengths[cap.period])
  }

  private placesOf(values: ModelRequest["values"]): ReadonlyArray<Place> {
    return this.caps.flatMap((cap) => {
      const names = ["model", "taskType", "userId"] as const
      const matches = names.every(
        (name) => cap.scope[name] === undefined || cap.scope[name] === "each" || cap.scope[name] === values[name]
      )
      if (!matches) return []
      const key = names.filter((name) => cap.scope[name] === "each").map((name) => values[name] ?? "none")
      return [{ cap, key: key.join(), period: this.periodOf(cap) }]
    })
  }

  private static isAt(place: Place) {
    return (other: Place) => other.cap === place.cap && other.key === place.key && other.period === place.period
  }

  private static of(
    cap: ModelCap,
    what: { readonly amount: bigint; readonly tokens: bigint; readonly requests: bigint }
  ) {
    return cap.unit === "usd" ? what.amount : cap.unit === "tokens" ? what.tokens : what.requests
  }

  spent(place: Place): bigint {
    const newest = Math.floor(this.now / bucketMillis)
    let sum = 0n
    for (const entry of this.entries) {
      if (!entry.reservation.places.some(LedgerModel.isAt(place))) continue
      const inWindow = Math.floor(entry.at / bucketMillis) > newest - buckets
      if (place.cap.period !== "rolling" || inWindow) sum += LedgerModel.of(place.cap, entry)
    }
    return sum
  }

  reserved(place: Place): bigint {
    let sum = 0n
    for (const one of this.reservations.values()) {
      if (one.state !== "open" || !one.places.some(LedgerModel.isAt(place))) continue
      sum += LedgerModel.of(place.cap, { ...one, requests: 1n })
    }
    return sum
  }

  limit({ cap, key }: Place): bigint {
    return cap.grants
      .filter((grant) => grant.until > this.now && (grant.key === null || grant.key === key))
      .reduce((sum, { amount }) => sum + amount, cap.limit)
  }

  private shortOf(places: ReadonlyArray<Place>, request: Pick<ModelRequest, "amount" | "tokens">) {
    const need = (cap: ModelCap) => LedgerModel.of(cap, { ...request, requests: 1n })
    const short = places.filter(
      (place) =>
        place.cap.mode !== "soft" &&
        !place.cap.paused &&
        this.spent(place) + this.reserved(place) + need(place.cap) > this.limit(place)
    )
    const first = short.find(({ cap }) => cap.mode === "hard") ?? short[0]
    const wouldFit = first !== undefined && this.spent(first) + need(first.cap) <= this.limit(first)
    return { first, wouldFit, short, need }
  }

  /** What an override raised caps by is lowered by what an open reservation does not use. */
  private lower(one: ModelReservation, charged: Parameters<typeof LedgerModel.of>[1]) {
    if (one.state !== "open") return
    for (const { cap, key } of one.places) {
      const unused = LedgerModel.of(cap, { ...one, requests: 1n }) - LedgerModel.of(cap, charged)
      for (const grant of cap.grants) {
        if (grant.of !== one.id || grant.key !== key || unused <= 0n) continue
        grant.amount = grant.amount > unused ? grant.amount - unused : 0n
      }
    }
  }

  /** What is due ends, when somebody sweeps. */
  sweep(): number {
    let swept = 0
    for (const one of this.reservations.values()) {
      if ((one.state !== "open" && one.state !== "held") || one.expiresAt > this.now) continue
      this.lower(one, none)
      one.state = "expired"
      swept += 1
    }
    return swept
  }

  private isAnythingDue(): boolean {
    return [...this.reservations.values()].some((one) => one.state === "open" && one.expiresAt <= this.now)
  }

  reserve(request: ModelRequest): "open" | "held" | "no-room" | "denied" {
    const places = this.placesOf(request.values)
    const { first, wouldFit } = this.shortOf(places, request)
    if (first !== undefined && wouldFit && this.isAnythingDue()) {
      this.sweep()
      return this.reserve(request)
    }
    if (first?.cap.mode === "hard") return "denied"
    if (first !== undefined && request.mayWait === false) return "no-room"
    const state = first === undefined ? "open" : "held"
    const seconds = state === "open" ? request.ttlSeconds : this.holdSeconds
    this.reservations.set(request.id, { ...request, state, places, expiresAt: this.now + seconds * 1000 })
    return state
  }

  approve(id: string, override: boolean): "approved" | "no-room" | "gone" {
    const one = this.reservations.get(id)
    if (one === undefined || one.state !== "held" || one.expiresAt <= this.now) return "gone"
    const places = this.placesOf(one.values)
    const { first, need, short, wouldFit } = this.shortOf(places, one)
    if (first !== undefined && !(override && first.cap.mode === "approval")) {
      if (wouldFit && this.isAnythingDue()) {
        this.sweep()
        return this.approve(id, override)
      }
      return "no-room"
    }
    for (const place of short) {
      const until =
        place.cap.period === "hour" || place.cap.period === "day"
          ? (place.period + 1) * lengths[place.cap.period]
          : Number.POSITIVE_INFINITY
      const amount = this.spent(place) + this.reserved(place) + need(place.cap) - this.limit(place)
      place.cap.grants.push({ amount, until, key: place.key, of: id })
    }
    Object.assign(one, { state: "open", places, expiresAt: this.now + one.ttlSeconds * 1000 })
    return "approved"
  }

  deny(id: string): "done" | "same" | "gone" | "missing" {
    const one = this.reservations.get(id)
    if (one === undefined) return "missing"
    if (one.state === "denied") return "same"
    if (one.state !== "held" || one.expiresAt <= this.now) return "gone"
    one.state = "denied"
    return "done"
  }

  settle(id: string, actual: bigint, tokens?: bigint): "done" | "same" | "conflict" | "missing" | "unopened" {
    const one = this.reservations.get(id)
    if (one === undefined) return "missing"
    if (one.state === "settled") return one.actual === actual ? "same" : "conflict"
    if (one.state === "held" || one.state === "denied") return "unopened"
    const charged = { amount: actual, tokens: tokens ?? one.tokens, requests: 1n }
    this.lower(one, charged)
    one.state = "settled"
    one.actual = actual
    this.entries.push({ reservation: one, ...charged, at: this.now })
    return "done"
  }

  release(id: string): "done" | "same" | "conflict" | "missing" {
    const one = this.reservations.get(id)
    if (one === undefined) return "missing"
    if (one.state === "settled") return "conflict"
    if (one.state !== "open" && one.state !== "held") return "same"
    this.lower(one, none)
    one.state = "released"
    return "done"
  }

  extend(id: string, seconds: number): "done" | "missing" | "unopened" {
    const one = this.reservations.get(id)
    if (one === undefined) return "missing"
    if (one.state !== "open" || one.expiresAt <= this.now) return "unopened"
    one.expiresAt = this.now + seconds * 1000
    return "done"
  }

  refund(id: string, amount: bigint): "done" | "missing" | "exceeds" {
    const charged = this.entries.filter((entry) => entry.reservation.id === id)
    const [charge] = charged
    if (charge === undefined) return "missing"
    if (charged.reduce((sum, entry) => sum + entry.amount, 0n) < amount) return "exceeds"
    this.entries.push({ ...charge, amount: -amount, tokens: 0n, requests: 0n })
    return "done"
  }

  /** The counters that have been touched and whose period runs, as the service shows them. */
  utilizations() {
    const seen = new Map<string, { capId: string; spent: bigint; reserved: bigint; key: string }>()
    for (const one of this.reservations.values()) {
      for (const place of one.places) {
        if (place.period !== this.periodOf(place.cap)) continue
        const { cap, key } = place
        seen.set(`${cap.id} ${key}`, { capId: cap.id, key, spent: this.spent(place), reserved: this.reserved(place) })
      }
    }
    return [...seen.values()].toSorted((a, b) => (`${a.capId}${a.key}` < `${b.capId}${b.key}` ? -1 : 1))
  }
}
