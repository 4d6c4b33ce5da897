import { DateTime, type Effect } from "effect"
import { columnOf } from "../../platform/database/columns.ts"
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
interface Counter {
  readonly place: number
  readonly tenant: string
  readonly cap: string
  readonly key: string
  /** What all requests need of it. */
  need: bigint
}

/** One request of a batch with the caps that govern it, and which of the batch's counters those are. */
interface Placed {
  readonly item: ReserveItem
  readonly governing: ReadonlyArray<ApplicableCap>
  readonly counters: ReadonlyArray<number>
  /** The place of its first pair. */
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
    const pairRequests: Array<number> = []
    const pairCounters: Array<number> = []
    this.placed = items.map((item, index) => {
      const governing = [...planOf(item), ...applicableCaps(books, item)]
      const first = pairRequests.length
      const own = governing.map(({ cap, counterKey }) => {
        const name = `${cap.id}${counterKey}`
        let counter = counters.get(name)
        if (counter === undefined) {
          counter = { place: counters.size + 1, tenant: cap.tenantId, cap: cap.id, key: counterKey, need: 0n }
          counters.set(name, counter)
        }
        counter.need += needOf(cap, item)
        pairRequests.push(index + 1)
        pairCounters.push(counter.place)
        return counter.place
      })
      return { item, governing, counters: own, first }
    })
    const made = [...counters.values()]
    const isAlike = this.placed.every(
      ({ counters: own }) => own.length === made.length && own.every((place, at) => place === at + 1)
    )
    this.statement = {
      head: {
        moment: DateTime.formatIso(now),
        hold_seconds: `${holdSeconds}`,
        keyed: items.some(({ repeatable }) => repeatable !== undefined),
        has_plans: items.some(({ plan }) => plan !== undefined),
        has_approvals: items.some(({ kind }) => kind !== "reserve"),
        is_alike: isAlike,
        book_tenants: columnOf([...books.keys()]),
        book_versions: columnOf(Array.from(books.values(), ({ version }) => Number(version))),
        counter_tenants: columnOf(made.map(({ tenant }) => tenant)),
        counter_caps: columnOf(made.map(({ cap }) => cap)),
        counter_keys: columnOf(made.map(({ key }) => key)),
        needs: columnOf(made.map(({ need }) => need)),
        ...(isAlike
          ? {}
          : {
              pair_requests: columnOf(pairRequests),
              pair_counters: columnOf(pairCounters),
              first_pairs: columnOf(this.placed.map(({ first }) => first + 1)),
              last_pairs: columnOf(this.placed.map(({ counters: own, first }) => first + own.length))
            })
      },
      requests: this.placed.map(({ governing, item }) => rowOf(item, governing)),
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
const likeCap = { unit: "usd", mode: "hard", period: "total", windowSeconds: null } as const

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

const rowOf = (item: ReserveItem, governing: ReadonlyArray<ApplicableCap>) => ({
  id: item.id,
  tenant: item.tenantId,
  kind: item.kind,
  origin: item.origin,
  agent: item.dimensions.agentId,
  plan: item.plan?.id,
  application: item.dimensions.applicationId,
  api_key: item.dimensions.apiKeyId,
  user_id: item.dimensions.userId,
  model: item.dimensions.model,
  provider: item.dimensions.provider,
  task_type: item.dimensions.taskType,
  amount: Number(item.amount),
  tokens: item.tokens,
  ttl: item.ttlSeconds,
  metadata: item.metadata,
  reason: item.reason,
  confined: item.kind === "reserve" ? undefined : item.confined,
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
