import { DateTime, type Effect } from "effect"
import { type TenantId } from "../../kernel/identifier.ts"
import { type ReserveRequests } from "./batch-repository.ts"
import { type CapIndex, type ApplicableCap } from "./cap-index.ts"
import { allTenants, CapId } from "./cap-domain.ts"
import { spendActions } from "./domain.ts"
import { quantityOf } from "./quantity-domain.ts"
import { type ReserveOutcome } from "./repository.ts"
import { entryOf, type ReserveItem, type ReserveResult, slotOf, type AvailableBudget } from "./request.ts"

type Outcome = Exclude<ReserveOutcome, { readonly stale: true }>
type OpenOutcome = Extract<Outcome, { readonly rooms: unknown }>
type DecidedOutcome = Exclude<Outcome, OpenOutcome>

/** A cap's counter in a batch, by what it counts. */
interface Counter extends ApplicableCap {
  readonly place: number
  /** What all requests need of it. */
  need: bigint
}

/** What a counter can hold. */
const mostCounted = 9_223_372_036_854_775_807n

/** One request of a batch with the caps that govern it, and which of the batch's counters those are. */
interface Placed {
  readonly item: ReserveItem
  readonly governing: ReadonlyArray<ApplicableCap>
  readonly counters: ReadonlyArray<number>
  /** How many caps govern those before it. */
  readonly first: number
}

/** What one statement decides: its requests, and how to read its answer. */
export class ReserveBatch {
  readonly statement: ReserveRequests
  private readonly placed: ReadonlyArray<Placed>
  private readonly now: DateTime.Utc

  constructor(
    items: ReadonlyArray<ReserveItem>,
    books: ReadonlyMap<TenantId, CapIndex>,
    now: DateTime.Utc,
    holdSeconds: number
  ) {
    this.now = now
    const counters = new Map<string, Counter>()
    let pairs = 0
    this.placed = items.map((item) => {
      const governing = [...planOf(item), ...applicableCaps(books, item)]
      const first = pairs
      pairs += governing.length
      const own = governing.map(({ cap, counterKey }) => {
        const name = `${cap.id}${counterKey}`
        let counter = counters.get(name)
        if (counter === undefined)
          counters.set(name, (counter = { place: counters.size + 1, cap, counterKey, need: 0n }))
        counter.need += needOf(cap, item)
        return counter.place
      })
      return { item, governing, counters: own, first }
    })
    const needed = [...counters.values()]
    this.statement = {
      head: {
        moment: DateTime.formatIso(now),
        hold_seconds: `${holdSeconds}`,
        has_thresholds: needed.some(({ cap }) => cap.alertThresholds.length > 0)
      },
      isPlain: items.every(
        ({ kind, plan, repeatable }) => kind === "reserve" && plan === undefined && repeatable === undefined
      ),
      books: Array.from(books, ([tenantId, { version }]) => ({ tenant_id: tenantId, caps_version: version })),
      needs: needed.map(({ cap, counterKey, need }) => ({
        tenant_id: cap.tenantId,
        cap_id: cap.id,
        counter_key: counterKey,
        need: need > mostCounted ? undefined : need,
        limit_amount: cap.limitAmount,
        most: cap.mode === "soft" || cap.status !== "active" ? mostCounted : cap.limitAmount
      })),
      requests: this.placed.map(({ counters: own, governing, item }) =>
        rowOf(
          item,
          governing,
          own.length === needed.length && own.every((place, at) => place === at + 1) ? undefined : own
        )
      ),
      entries: items.flatMap((item, index) =>
        // Reservations are their own record; that somebody let one in is an entry of the audit log.
        item.kind === "reserve"
          ? []
          : [
              entryOf(index + 1, spendActions.SpendApproved, item.id, item.audit, {
                ...item.dimensions,
                amountUsd: quantityOf("usd", item.amount),
                tokens: item.tokens,
                ...(item.reason === undefined ? {} : { reason: item.reason })
              })
            ]
      )
    }
  }

  /** What became of each item; none where something is due that must be swept first. */
  results(outcome: Outcome): ReadonlyArray<ReserveResult | undefined> {
    return "rooms" in outcome ? this.opened(outcome) : this.decided(outcome)
  }

  /** All have room, one after the other. */
  private opened({ ends, rooms }: OpenOutcome): ReadonlyArray<ReserveResult> {
    const left = [...rooms]
    return this.placed.map(({ counters, governing, item }) => ({
      verdict: "open",
      at: this.now,
      available: governing.map((one, at): AvailableBudget => {
        const counter = (counters[at] ?? 0) - 1
        const room = (left[counter] ?? 0n) - needOf(one.cap, item)
        left[counter] = room
        return { ...one, headroom: room > 0n ? room : 0n, resetsAt: ends?.[counter] ?? null }
      })
    }))
  }

  private decided(outcome: DecidedOutcome): ReadonlyArray<ReserveResult | undefined> {
    const replays = new Map(outcome.replays.map((replay) => [replay.place, replay]))
    const approved = new Map(outcome.approved.map(({ place, reservation }) => [place, reservation]))
    return this.placed.map(({ counters, first, governing, item }, index): ReserveResult | undefined => {
      const verdict = outcome.verdicts[index]
      const available = governing.map((one, at): AvailableBudget => ({
        ...one,
        headroom: outcome.headrooms[first + at] ?? 0n,
        resetsAt: outcome.pairEnds?.[first + at] ?? outcome.ends?.[(counters[at] ?? 0) - 1] ?? null
      }))
      switch (verdict) {
        case "open": {
          const reservation = approved.get(index + 1)
          return item.kind === "reserve" || reservation === undefined
            ? { verdict, at: this.now, available }
            : { verdict: "approved", reservation }
        }
        case "held":
          return { verdict, at: this.now, available }
        case "denied":
        case "no-room": {
          const budget = available[(outcome.failing[index] ?? 0) - 1 - first]
          if (budget === undefined) return { verdict: "gone" }
          const insufficient = {
            budget,
            limit: outcome.failingLimits[index] ?? 0n,
            spent: outcome.failingSpents[index] ?? 0n,
            reserved: outcome.failingReserveds[index] ?? 0n
          }
          return { verdict, insufficient, available }
        }
        case "replay": {
          const replay = replays.get(index + 1)
          return replay === undefined ? { verdict: "gone" } : { verdict, ...replay }
        }
        case "gone":
        case "plan-missing":
          return { verdict }
        case "plan-suspended":
          return { verdict: "plan-inactive", planStatus: "suspended" }
        case "plan-completed":
          return { verdict: "plan-inactive", planStatus: "completed" }
        case "plan-aborted":
          return { verdict: "plan-inactive", planStatus: "aborted" }
        case "plan-expired":
          return { verdict: "plan-inactive", planStatus: "expired" }
        default:
          return undefined
      }
    })
  }
}

/** The plan as the first cap of its call: its counter bears its id. */
const planOf = ({ plan, tenantId }: ReserveItem): ReadonlyArray<ApplicableCap> =>
  plan === undefined
    ? []
    : [{ isPlan: true, cap: { ...likeCap, tenantId, id: CapId.make(plan.id), name: plan.name ?? "" }, counterKey: "" }]
const likeCap = {
  unit: "usd",
  mode: "hard",
  status: "active",
  limitAmount: 0n,
  alertThresholds: [],
  period: "total",
  windowSeconds: null
} as const

/** The caps of its tenant and those over all tenants that govern a reservation. */
export const applicableCaps = (
  books: ReadonlyMap<TenantId, CapIndex>,
  { dimensions, tenantId }: Pick<ReserveItem, "dimensions" | "tenantId">
): ReturnType<CapIndex["governing"]> => [
  ...(books.get(tenantId)?.governing(dimensions) ?? []),
  ...(books.get(allTenants)?.governing(dimensions) ?? [])
]

/** What a request takes of a cap. */
const needOf = ({ unit }: ApplicableCap["cap"], { amount, tokens }: ReserveItem): bigint =>
  unit === "usd" ? amount : unit === "tokens" ? BigInt(tokens) : 1n

/** A request as `budget_request`; `own`: which counters of the batch govern it, where they are not all. */
const rowOf = (item: ReserveItem, governing: ReadonlyArray<ApplicableCap>, own: ReadonlyArray<number> | undefined) => ({
  id: item.id,
  tenant_id: item.tenantId,
  kind: item.kind,
  origin: item.origin,
  agent_id: item.dimensions.agentId,
  plan_id: item.plan?.id,
  application_id: item.dimensions.applicationId,
  api_key_id: item.dimensions.apiKeyId,
  user_id: item.dimensions.userId,
  model: item.dimensions.model,
  provider: item.dimensions.provider,
  task_type: item.dimensions.taskType,
  amount: item.amount,
  tokens: item.tokens,
  ttl_seconds: item.ttlSeconds,
  metadata: item.metadata,
  reason: item.reason,
  confined: item.kind === "reserve" ? undefined : item.confined,
  governing: own === undefined ? undefined : `{${own.join()}}`,
  ...slotOf(item),
  ...(item.repeatable === undefined
    ? {}
    : { caps: governing.map(({ cap }) => ({ tenantId: cap.tenantId, id: cap.id, name: cap.name, unit: cap.unit })) })
})

/** The books of all tenants in a batch. */
export const booksOf = (
  get: (tenantIds: ReadonlyArray<TenantId>) => Effect.Effect<ReadonlyMap<TenantId, CapIndex>>,
  items: ReadonlyArray<Pick<ReserveItem, "tenantId">>
): Effect.Effect<ReadonlyMap<TenantId, CapIndex>> => get(items.map(({ tenantId }) => tenantId))
